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
import type { UIMessage } from "ai";
import {
  MAIN,
  type Submissions,
  type SubmittedTurn,
  type Turn,
  type TurnEnd,
} from "../../kernel/submissions/internal.ts";
import type { FramedTurn } from "../sdk/chat-frames.ts";
import { type ChatRecovery, DROPPED, type Left } from "../sdk/chat-recovery.ts";
import { idsOf, MainConversation } from "../sdk/conversation.ts";
import { RecoveredTurns } from "../sdk/recovered-turns.ts";
import { durableOptions, type StreamOptions } from "./durable-options.ts";
import type { ChatHooks, HookedChat } from "./hooks.ts";
import { endOf, type OwnedTurn } from "./owned-turn.ts";
import { wholeReply } from "./recovered.ts";
import { watchedResponse } from "./reply-stream.ts";

/** A turn of the chat, also one that is no submission's. */
type ChatTurn = { readonly owned: OwnedTurn | undefined; isOver: boolean };

export class ChatTurns {
  readonly #turns: RecoveredTurns<OwnedTurn>;
  /** Submissions that were stopped while their recovery waits. */
  readonly #stopped = new Set<number>();
  /** The turn that the caller runs in. */
  readonly #scope = new AsyncLocalStorage<ChatTurn>();
  #current: ChatTurn | undefined;
  readonly conversation: MainConversation;

  constructor(
    private readonly agent: HookedChat,
    private readonly ledger: Submissions,
    private readonly recovery: ChatRecovery,
  ) {
    const session = () => agent.sessions.session();
    this.conversation = new MainConversation({
      get messages() {
        return agent.messages;
      },
      get session() {
        return session();
      },
    });
    const { conversation } = this;
    this.#turns = new RecoveredTurns({ agent, ledger, recovery, conversation, endOf });
  }

  get isInsideTurn(): boolean {
    return this.#scope.getStore()?.isOver === false;
  }

  /** The submission that a turn of the chat runs, by the chat's id of the turn; undefined after its end. */
  turnOf(requestId: string): FramedTurn | undefined {
    const owned = this.#turns.get(requestId);
    return owned && { submissionId: owned.submissionId, attempt: owned.attempt.ref.attempt };
  }

  run(turn: Turn): Promise<TurnEnd> {
    const { signal } = turn;
    const inputOf = ({ messages }: Turn) => {
      const stored = idsOf(this.agent.messages);
      return [...this.agent.messages, ...messages.filter(({ id }) => !stored.has(id))];
    };
    return this.#turns.run(turn, inputOf, async (input) => {
      const result = await this.agent.saveMessages(input, { signal });
      return { ...result, message: this.#replyTo(turn.messages) };
    });
  }

  stop({ messages }: SubmittedTurn, reason: string | undefined): void {
    const seq = this.ledger.findByMessage(idsOf(messages))?.seq;
    if (seq === undefined) return;
    const runs = this.#turns.running(seq);
    for (const requestId of runs) this.agent.abortRequest(requestId, reason);
    if (runs.length === 0) this.#stopped.add(seq);
  }

  /** The options of the app's `streamText()`, with those of the submission whose turn calls it. */
  durable(options: StreamOptions): StreamOptions {
    const { owned, isOver = true } = this.#scope.getStore() ?? {};
    if (!owned || isOver) return options;
    owned.isDurable = true;
    const { agent } = this;
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
        const owned = this.#turns.get(result.requestId);
        this.#responded(result);
        if (owned && result.status === "aborted") await this.#dropOrphan(owned, result.message);
        await app.onChatResponse(result);
      },
      onChatRecovery: (ctx) => this.#interrupted(ctx, app),
      chatRecovery: this.#turns.withExhaustion(app.chatRecovery),
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
    if (!owned) this.ledger.busy(MAIN);
    else {
      const { plan } = owned.attempt;
      owned.note = await owned.attempt.note();
      if (plan?.model !== undefined) owned.model = await this.agent.getModel(plan.model);
    }
    await this.#waitForMcp();
    const response = await this.#scope.run(turn, () => app.onChatMessage(onFinish, options));
    const heartbeat = () => (owned ? owned.attempt.heartbeat() : this.ledger.busy(MAIN));
    const hidesAnswer = owned?.attempt.plan?.how === "tool";
    return response && watchedResponse(response, heartbeat, hidesAnswer);
  }

  /** The chat waits only in turns of clients, and tools of MCP servers would be missing after a restart. */
  async #waitForMcp(): Promise<void> {
    const { mcp, waitForMcpConnections: wait } = this.agent;
    if (wait) await mcp.waitForConnections(typeof wait === "object" ? wait : undefined);
  }

  /** Recognises the turn of a submission: the one that `run()` has started, or one that recovery runs. */
  #own({
    requestId,
    abortSignal,
    continuation = false,
  }: OnChatMessageOptions): OwnedTurn | undefined {
    const { begun } = this.#turns;
    if (begun) {
      // The next turn of the chat is its own.
      this.#turns.begun = undefined;
      const { plan, messages: asked, isAgain, submissionId } = begun.turn;
      const attempt = this.#turns.attempt({ ref: begun.ref, plan }, isAgain ? asked : undefined);
      const run = { attempt, submissionId, asked, isRecovered: false, abortSignal };
      return this.#turns.set(requestId, this.#ownedOf(run));
    }
    const submission = this.#recovered(continuation);
    // The ledger runs it in another turn.
    if (submission?.status !== "running" || this.#turns.isLive(submission.seq)) return undefined;
    const run = this.#left(submission, { isRecovered: true, abortSignal });
    return this.#turns.set(requestId, this.#ownedOf(run));
  }

  /** The submission that the turn answers, unless a client has started it. Messages of clients may follow its own. */
  #recovered(isContinuation: boolean): Left | undefined {
    if (getCurrentAgent().connection) return undefined;
    const { messages } = this.agent;
    const submission = this.#turns.asked(messages);
    return submission && (isContinuation || this.#isLast(submission, messages))
      ? submission
      : undefined;
  }

  /** Whether the last message is the submission's, or that of one that has joined it. */
  #isLast({ seq }: Left, messages: readonly UIMessage[]): boolean {
    const last = messages.findLast(({ role }) => role !== "assistant");
    return last !== undefined && this.ledger.findByMessage(new Set([last.id]))?.seq === seq;
  }

  /** Whether the turn continues a submission that was cancelled while its recovery waited. */
  #isStopped(isContinuation: boolean): boolean {
    if (this.#turns.begun || this.#stopped.size === 0) return false;
    const submission = this.#recovered(isContinuation);
    return submission?.status !== "running" && this.#stopped.delete(submission?.seq ?? -1);
  }

  #ownedOf(run: Run): OwnedTurn {
    return {
      ...run,
      hasBudget: () => this.ledger.budgetOf(run.attempt.ref) !== undefined,
      isDurable: false,
      isReported: false,
      note: undefined,
      model: undefined,
    };
  }

  /** The attempt of a submission that was left running when the object last went down. */
  #left(left: Left, run: Pick<Run, "abortSignal" | "isRecovered">): Run {
    const { messages: asked, submissionId } = left;
    return { attempt: this.#turns.leftAttempt(left), submissionId, asked, ...run };
  }

  #responded({ requestId, status, error, message }: ChatResponseResult): void {
    const owned = this.#turns.get(requestId);
    // The stream was interrupted, and the chat continues it in another turn.
    if (!owned || this.#turns.recovering(owned.attempt.ref.seq) === requestId) return;
    this.#turns.ended(owned, { requestId, status, error, message });
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
    const submission = this.#turns.asked(ctx.messages);
    // A turn of none, maybe after the messages of a submission that has failed.
    if (!submission || !(submission.status === "running" || this.#isLast(submission, ctx.messages)))
      return app.onChatRecovery(ctx);
    return this.#turns.recover(submission, ctx, async () => {
      const message = wholeReply(ctx);
      if (!message) return app.onChatRecovery(ctx);
      const { requestId } = ctx;
      const run = { isRecovered: false, abortSignal: undefined };
      const owned = { ...this.#ownedOf(this.#left(submission, run)), isDurable: true };
      const end = endOf(owned, { requestId, status: "completed", message });
      this.ledger.end(owned.attempt.ref, end);
      return { continue: false };
    });
  }
}

/** What runs an attempt: the turn that has begun, or one that recovery runs. */
type Run = Pick<OwnedTurn, "attempt" | "submissionId" | "asked" | "isRecovered" | "abortSignal">;
