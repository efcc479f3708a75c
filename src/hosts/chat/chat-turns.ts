/**
 * Runs the turns of an AIChatAgent's own conversation, by its public methods and hooks.
 *
 * `saveMessages()` runs a turn; the submission is claimed when the turn starts in the chat's queue. If a crash interrupts it, the
 * chat's recovery continues it in another turn. That one is recognised by the messages that it answers, and ends the submission
 * from `onChatResponse`, as the first would.
 */

import { AsyncLocalStorage } from "node:async_hooks";
import type {
  ChatRecoveryContext,
  ChatRecoveryOptions,
  ChatResponseResult,
  OnChatMessageOptions,
} from "@cloudflare/ai-chat";
import { getCurrentAgent } from "agents";
import type { LanguageModel, UIMessage } from "ai";
import { failureOf } from "../../core/failures.ts";
import type { SubmittedTurn, Turn, TurnEnd } from "../../submissions/host.ts";
import type { Submissions } from "../../submissions/submissions.ts";
import { MAIN } from "../../submissions/threads.ts";
import { CHAT } from "../limitations.ts";
import { IncompleteReplyError, turnModel } from "../sdk/attempt-model.ts";
import { type ChatRecovery, DROPPED, type Left } from "../sdk/chat-recovery.ts";
import { idsOf, MainConversation, textOf } from "../sdk/conversation.ts";
import {
  type ChatEnd,
  type OwnedTurn as ChatRun,
  factsOf,
  RecoveredTurns,
} from "../sdk/recovered-turns.ts";
import { checkModel } from "../sdk/tools.ts";
import { waitForMcp } from "../sdk/turn-source.ts";
import { NotSupportedByHostError } from "../support.ts";
import { durableOptions, type StreamOptions } from "./durable-options.ts";
import type { ChatHooks, HookedChat } from "./hooks.ts";
import { ReplyEnd, TurnError } from "./reply-end.ts";
import { watchedResponse } from "./reply-stream.ts";

/** A turn of the chat, also one that is no submission's. */
type ChatTurn = { readonly owned: OwnedTurn | undefined; isOver: boolean };

export class ChatTurns extends RecoveredTurns<OwnedTurn, HookedChat, Submissions> {
  protected readonly endOf = endOf;
  /** Submissions that were stopped while their recovery waits. */
  readonly #stopped = new Set<number>();
  /** The turn that the caller runs in. */
  readonly #scope = new AsyncLocalStorage<ChatTurn>();
  #current: ChatTurn | undefined;

  constructor(agent: HookedChat, ledger: Submissions, recovery: ChatRecovery) {
    const conversation = {
      get messages() {
        return agent.messages;
      },
      get session() {
        return agent.sessions.session();
      },
    };
    super(agent, ledger, recovery, new MainConversation(conversation));
  }

  get isInsideTurn(): boolean {
    return this.#scope.getStore()?.isOver === false;
  }

  run(turn: Turn): Promise<TurnEnd> {
    const { signal } = turn;
    const inputOf = ({ messages }: Turn) => {
      const stored = idsOf(this.agent.messages);
      return [...this.agent.messages, ...messages.filter(({ id }) => !stored.has(id))];
    };
    return this.runBy(turn, inputOf, async (input) => {
      const result = await this.agent.saveMessages(input, { signal });
      return { ...result, message: this.#replyTo(turn.messages) };
    });
  }

  stop({ messages }: SubmittedTurn, reason: string | undefined): void {
    const seq = this.ledger.store.findByMessage(idsOf(messages))?.seq;
    if (seq === undefined) return;
    const runs = this.running(seq);
    for (const requestId of runs) this.agent.abortRequest(requestId, reason);
    if (runs.length === 0) this.#stopped.add(seq);
  }

  /** The options of the app's `streamText()`, with those of the submission whose turn calls it. */
  durable(options: StreamOptions): StreamOptions {
    const { owned, isOver = true } = this.#scope.getStore() ?? {};
    const { agent, ledger } = this;
    if (!owned || isOver) {
      const limited = ledger.limiter.admissions?.options(options) ?? options;
      // Without a client, an agent tool or the app asks, and takes the reply for the answer.
      const accepts = getCurrentAgent().connection ? "any" : "partial";
      return { ...limited, model: turnModel(limited.model, accepts) };
    }
    owned.isDurable = true;
    return durableOptions(
      {
        ...owned,
        // A recovered turn continues a reply that is in the conversation already: what joined would come after it.
        canJoin: !owned.isRecovered,
        maxSteps: agent.maxSteps,
        store: (joining) => agent.persistMessages([...agent.messages, ...joining]),
      },
      options,
    );
  }

  /** The app's hooks with Perdure's part around them. */
  wrap(app: ChatHooks): ChatHooks {
    return {
      onChatMessage: (onFinish, options) => this.#answered(app, onFinish, options),
      onChatResponse: async (result) => {
        const owned = this.get(result.requestId);
        this.#responded(result);
        if (owned && result.status === "aborted") await this.#dropOrphan(owned, result.message);
        await app.onChatResponse(result);
      },
      onChatRecovery: (ctx) => this.#interrupted(ctx, app),
      chatRecovery: this.withExhaustion(app.chatRecovery),
    };
  }

  async #answered(
    app: ChatHooks,
    ...[onFinish, options]: Parameters<ChatHooks["onChatMessage"]>
  ): Promise<Response | undefined> {
    if (this.#current) this.#current.isOver = true;
    if (this.#isStopped(options?.continuation ?? false)) return undefined;
    const owned = options && this.#own(options);
    const turn: ChatTurn = { owned, isOver: false };
    this.#current = turn;
    if (!owned) this.ledger.turns.busy(MAIN);
    else {
      const { plan } = owned.attempt;
      owned.note = await owned.attempt.note();
      if (plan?.model !== undefined) {
        const model = await this.agent.getModel(plan.model);
        owned.model = checkModel(model, this.agent.constructor.name);
      }
    }
    // The chat itself waits only in turns of clients.
    await waitForMcp(this.agent.mcp, this.agent.waitForMcpConnections);
    const response = await this.#scope.run(turn, () => app.onChatMessage(onFinish, options));
    const heartbeat = () => (owned ? owned.attempt.heartbeat() : this.ledger.turns.busy(MAIN));
    const hidesAnswer = owned?.attempt.plan?.how === "tool";
    const watch = { onData: heartbeat, end: owned?.reply, hidesAnswer };
    return response && watchedResponse(response, watch);
  }

  /** Recognises the turn of a submission: the one that `run()` has started, or one that recovery runs. */
  #own({
    requestId,
    abortSignal,
    continuation = false,
  }: OnChatMessageOptions): OwnedTurn | undefined {
    // The next turn of the chat is its own.
    const begun = this.takeBegun();
    if (begun) return this.set(requestId, this.#ownedOf(begun, abortSignal));
    const submission = this.#recovered(continuation);
    // The ledger runs it in another turn.
    if (submission?.status !== "running" || this.isLive(submission.seq)) return undefined;
    return this.set(requestId, this.#ownedOf(this.left(submission, true), abortSignal));
  }

  /** The submission that the turn answers, unless a client has started it. Messages of clients may follow its own. */
  #recovered(isContinuation: boolean): Left | undefined {
    if (getCurrentAgent().connection) return undefined;
    const { messages } = this.agent;
    const submission = this.asked(messages);
    return submission && (isContinuation || this.#isLast(submission, messages))
      ? submission
      : undefined;
  }

  /** Whether the last message is the submission's, or that of one that has joined it. */
  #isLast({ seq }: Left, messages: readonly UIMessage[]): boolean {
    const last = messages.findLast(({ role }) => role !== "assistant");
    return last !== undefined && this.ledger.store.findByMessage(new Set([last.id]))?.seq === seq;
  }

  /** Whether the turn continues a submission that was cancelled while its recovery waited. */
  #isStopped(isContinuation: boolean): boolean {
    if (this.begun || this.#stopped.size === 0) return false;
    const submission = this.#recovered(isContinuation);
    return submission?.status !== "running" && this.#stopped.delete(submission?.seq ?? -1);
  }

  #ownedOf(run: ChatRun, abortSignal: AbortSignal | undefined): OwnedTurn {
    return {
      ...run,
      abortSignal,
      hasBudget: () => {
        const { budget, limits } = this.ledger.store.get(run.attempt.ref.seq) ?? {};
        return (budget ?? limits?.usd) !== undefined;
      },
      isDurable: false,
      reply: new ReplyEnd(),
      note: undefined,
      model: undefined,
    };
  }

  #responded({ requestId, status, error, message }: ChatResponseResult): void {
    const owned = this.get(requestId);
    // The stream was interrupted, and the chat continues it in another turn.
    if (!owned || this.recovering(owned.attempt.ref.seq) === requestId) return;
    this.ended(owned, { requestId, status, error, message });
  }

  /** The chat stores what it has of an aborted reply, also after the conversation was cleared. */
  async #dropOrphan({ asked }: OwnedTurn, { id }: UIMessage): Promise<void> {
    const { messages, sessions } = this.agent;
    const stored = idsOf(messages);
    if (!stored.has(id) || asked.some((message) => stored.has(message.id))) return;
    await sessions.session().deleteMessages([id]);
  }

  /** The reply to these messages, if the conversation has one. */
  #replyTo(messages: readonly UIMessage[]): UIMessage | undefined {
    const ids = idsOf(messages);
    const conversation = this.agent.messages;
    const after = conversation.slice(conversation.findLastIndex(({ id }) => ids.has(id)) + 1);
    return after.findLast(({ role }) => role === "assistant");
  }

  /** The chat is about to recover a turn: whether it should. */
  async #interrupted(
    ctx: ChatRecoveryContext,
    app: ChatHooks,
  ): Promise<ChatRecoveryOptions | void> {
    // Its partial reply must not come back.
    if (this.recovery.isReset(ctx)) return DROPPED;
    const live = this.get(ctx.requestId);
    if (live) {
      // Not a crash: its stream broke. The chat would add a second reply to the half of the first one.
      live.attempt.failed(new IncompleteReplyError("interrupted"));
      return DROPPED;
    }
    const submission = this.asked(ctx.messages);
    // A turn of none, maybe after the messages of a submission that has failed.
    if (!submission || !(submission.status === "running" || this.#isLast(submission, ctx.messages)))
      return app.onChatRecovery(ctx);
    return this.recover(submission, ctx, async () => {
      const message = wholeReply(ctx);
      if (!message) return app.onChatRecovery(ctx);
      const { requestId } = ctx;
      const run = this.left(submission, false);
      const owned = { ...this.#ownedOf(run, undefined), isDurable: true };
      const end = endOf(owned, { requestId, status: "completed", message });
      this.ledger.turns.end(owned.attempt.ref, end);
      return { continue: false };
    });
  }
}

/** The stored reply of a turn that has ended, where the object went down before its hook. The stream is deleted with the storing. */
function wholeReply({ streamId, partialParts, messages }: ChatRecoveryContext) {
  const last = messages.at(-1);
  if (streamId || partialParts.length > 0 || last?.role !== "assistant") return undefined;
  const end = last.parts.at(-1);
  return end?.type === "text" && end.state !== "streaming" ? (last as UIMessage) : undefined;
}

type OwnedTurn = ChatRun & {
  readonly hasBudget: () => boolean;
  /** Whether the app has called `durable()`. */
  isDurable: boolean;
  readonly reply: ReplyEnd;
  note: string | undefined;
  model: LanguageModel | undefined;
  readonly abortSignal: AbortSignal | undefined;
};

/** How a turn ended, with its answer taken from the reply if one was asked for. */
function endOf(owned: OwnedTurn | undefined, ended: ChatEnd): TurnEnd {
  const { message } = ended;
  if (!owned) return { outcome: "skipped", requestId: ended.requestId };
  const { attempt, reply, isDurable } = owned;
  // With durable(), the attempt has it from the model itself.
  if (!isDurable) attempt.finished(reply.finishReason, reply.problem);
  if (ended.status === "error" && ended.error) attempt.failed(new TurnError(ended.error));
  const { cause } = attempt.error ?? {};
  // The reply of the AI SDK does not fail with an error of a callback.
  const isFailed = attempt.error !== undefined && ended.status === "completed";
  const status = attempt.isUnanswered ? "completed" : isFailed ? "error" : ended.status;
  const text = cause === undefined ? undefined : failureOf(cause).message;
  const facts = factsOf({ ...ended, status }, cause, text);
  const end = attempt.end(facts, textOf(message));
  if (isDurable || end.outcome === "recovering" || end.outcome === "reported") return end;
  const missing = neededDurable(owned, end);
  if (!missing)
    return reply.hasCalls && end.outcome === "error" ? { ...end, hasEffects: true } : end;
  const { requestId, messageId } = end;
  const failure = failureOf(missing);
  return { outcome: "error", failure, cause: missing, hasEffects: true, requestId, messageId };
}

/** Why a turn without `durable()` did not do what was asked for. */
function neededDurable(
  { attempt: { plan }, hasBudget }: OwnedTurn,
  end: TurnEnd,
): NotSupportedByHostError<"perdure/chat"> | undefined {
  const name = "perdure/chat";
  if (end.outcome !== "completed" && end.outcome !== "error") return undefined;
  if (hasBudget()) return new NotSupportedByHostError(name, "budget without durable()", CHAT);
  if (plan?.model !== undefined)
    return new NotSupportedByHostError(name, "models without durable()", CHAT);
  const isUnanswered = end.outcome === "error" && end.answer !== undefined;
  return isUnanswered && plan?.schema
    ? new NotSupportedByHostError(name, "output without durable()", CHAT)
    : undefined;
}
