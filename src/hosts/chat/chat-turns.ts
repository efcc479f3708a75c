/**
 * Runs the turns of an AIChatAgent's own conversation, by its public methods and hooks.
 *
 * `saveMessages()` runs a turn; the submission is claimed when the turn starts in the chat's queue. If a crash interrupts it, the
 * chat's recovery continues it in another turn. That one is recognised by the messages that it answers, and ends the submission
 * from `onChatResponse`, as the first would.
 */

import { AsyncLocalStorage } from "node:async_hooks";
import type {
  ChatRecoveryConfig,
  ChatRecoveryContext,
  ChatRecoveryOptions,
  ChatResponseResult,
  OnChatMessageOptions,
} from "@cloudflare/ai-chat";
import { getCurrentAgent } from "agents";
import type { UIMessage } from "ai";
import {
  type AttemptRef,
  MAIN,
  type Submissions,
  type SubmittedTurn,
  type Turn,
  type TurnEnd,
  TurnRefused,
} from "../../submissions/index.ts";
import { Attempt, type AttemptOptions } from "../sdk/attempt.ts";
import type { FramedTurn } from "../sdk/chat-frames.ts";
import { type ChatRecovery, DROPPED, interrupted, type Left, refOf } from "../sdk/chat-recovery.ts";
import { idsOf, lastAsked, MainConversation } from "../sdk/conversation.ts";
import { durableOptions, type StreamOptions } from "./durable-options.ts";
import type { ChatHooks, HookedChat } from "./hooks.ts";
import { endOf, type OwnedTurn } from "./owned-turn.ts";
import { wholeReply } from "./recovered.ts";
import { watchedResponse } from "./reply-stream.ts";

/** A turn of the chat, also one that is no submission's. */
type ChatTurn = { readonly owned: OwnedTurn | undefined; isOver: boolean };

export class ChatTurns {
  /** By request id, from `onChatMessage` to the turn's end. */
  readonly #owned = new Map<string, OwnedTurn>();
  /** The turn that has just begun: the next `onChatMessage` is its own. */
  #begun: { readonly turn: Turn; readonly ref: AttemptRef } | undefined;
  /** The attempt that `run()` runs. */
  #live: AttemptRef | undefined;
  /** Request ids of interrupted turns that the chat's recovery continues, by submission. */
  readonly #recovering = new Map<number, string>();
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
  }

  get isInsideTurn(): boolean {
    return this.#scope.getStore()?.isOver === false;
  }

  /** The submission whose turn has this id of the chat; undefined after its end. */
  submissionOf(requestId: string): string | undefined {
    return this.#owned.get(requestId)?.submissionId;
  }

  /** The submission that a turn of the chat runs, by the chat's id of the turn. */
  turnOf(requestId: string): FramedTurn | undefined {
    const owned = this.#owned.get(requestId);
    return owned && { submissionId: owned.submissionId, attempt: owned.attempt.ref.attempt };
  }

  async run(turn: Turn): Promise<TurnEnd> {
    const { signal } = turn;
    let ref: AttemptRef | undefined;
    const begin = async () => {
      ref = turn.begin();
      this.#live = ref;
      await turn.announced();
      const { messages, plan, isAgain } = turn;
      if (isAgain && plan?.followUp === undefined) await this.conversation.removeEarlier(messages);
      // A reset of the conversation or a cancellation has ended it: its messages must not be stored.
      if (signal.aborted) throw new TurnRefused();
      this.#begun = { turn, ref };
      const stored = idsOf(this.agent.messages);
      return [...this.agent.messages, ...messages.filter(({ id }) => !stored.has(id))];
    };
    try {
      const result = await this.agent.saveMessages(begin, { signal });
      const { requestId } = result;
      if (ref && this.#recovering.get(ref.seq) === requestId) return { outcome: "recovering" };
      const owned = this.#owned.get(requestId);
      if (owned?.isReported) return { outcome: "reported" };
      if (!owned) return { outcome: "skipped", requestId };
      return endOf(owned, { ...result, message: this.#replyTo(turn.messages) });
    } catch (error) {
      // The answer counts, whatever failed after it.
      const owned = [...this.#owned.values()].find(({ attempt }) => attempt.ref === ref);
      if (owned?.attempt.isAnswered) return { outcome: "completed" };
      throw error;
    } finally {
      // If this attempt was given up, a later one may have begun before this one ends.
      if (this.#begun?.ref === ref) this.#begun = undefined;
      if (this.#live === ref) this.#live = undefined;
      if (ref) this.#release(ref);
    }
  }

  stop({ messages }: SubmittedTurn, reason: string | undefined): void {
    const seq = this.ledger.findByMessage(idsOf(messages))?.seq;
    if (seq === undefined) return;
    const runs = [...this.#owned].filter(([, { attempt }]) => attempt.ref.seq === seq);
    for (const [requestId] of runs) this.agent.abortRequest(requestId, reason);
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
        const owned = this.#owned.get(result.requestId);
        this.#responded(result);
        if (owned && result.status === "aborted") await this.#dropOrphan(owned, result.message);
        await app.onChatResponse(result);
      },
      onChatRecovery: (ctx) => this.#interrupted(ctx, app),
      chatRecovery: this.#withExhaustion(app.chatRecovery),
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
    const begun = this.#begun;
    if (begun) {
      this.#begun = undefined;
      const { plan, messages, isAgain, submissionId } = begun.turn;
      const attempt = { ref: begun.ref, plan, submissionId, asked: messages, isAgain };
      return this.#remember(requestId, { ...attempt, isRecovered: false, abortSignal });
    }
    const submission = this.#recovered(continuation);
    // The ledger runs it in another turn.
    if (submission?.status !== "running" || this.#live?.seq === submission.seq) return undefined;
    return this.#rememberLeft(requestId, submission, { isRecovered: true, abortSignal });
  }

  /** The submission that the turn answers, unless a client has started it. Messages of clients may follow its own. */
  #recovered(isContinuation: boolean): Left | undefined {
    if (getCurrentAgent().connection) return undefined;
    const { messages } = this.agent;
    const submission = this.#asked(messages);
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
    if (this.#begun || this.#stopped.size === 0) return false;
    const submission = this.#recovered(isContinuation);
    return submission?.status !== "running" && this.#stopped.delete(submission?.seq ?? -1);
  }

  #remember(requestId: string, run: Run): OwnedTurn {
    const { submissionId, asked, isAgain, isRecovered, abortSignal, ...options } = run;
    const settled = () => this.conversation.settledCalls(idsOf(asked));
    const owned: OwnedTurn = {
      attempt: new Attempt({
        ...options,
        ledger: this.ledger,
        // No earlier run of the turn can have called tools.
        settled: isAgain ? settled : undefined,
      }),
      submissionId,
      asked,
      hasBudget: () => this.ledger.budgetOf(options.ref) !== undefined,
      isRecovered,
      isDurable: false,
      isReported: false,
      note: undefined,
      model: undefined,
      abortSignal,
    };
    this.#owned.set(requestId, owned);
    return owned;
  }

  /** The attempt of a submission that was left running when the object last went down. It asks the same again. */
  #rememberLeft(requestId: string, left: Left, run: Pick<Run, "abortSignal" | "isRecovered">) {
    const { messages: asked, isAnswered, submissionId } = left;
    const plan = this.ledger.attemptPlanOf(left);
    const attempt = { ref: refOf(left), plan, isAnswered, submissionId, asked, isAgain: true };
    return this.#remember(requestId, { ...attempt, ...run });
  }

  #responded({ requestId, status, error, message }: ChatResponseResult): void {
    const owned = this.#owned.get(requestId);
    if (!owned || owned.isReported) return;
    const { ref } = owned.attempt;
    // The stream was interrupted, and the chat continues it in another turn.
    if (this.#recovering.get(ref.seq) === requestId) return;
    if (!this.#report(owned, () => endOf(owned, { requestId, status, error, message }))) return;
    if (this.#live?.seq !== ref.seq) this.#release(ref);
    this.#recovering.delete(ref.seq);
  }

  /** The chat stores what it has of an aborted reply, also after the conversation was cleared. */
  async #dropOrphan({ asked }: OwnedTurn, { id }: UIMessage): Promise<void> {
    const { messages, sessions } = this.agent;
    const stored = idsOf(messages);
    if (!stored.has(id) || asked.some((message) => stored.has(message.id))) return;
    await sessions.session().deleteMessages([id]);
  }

  #report(owned: OwnedTurn, end: () => TurnEnd): boolean {
    try {
      this.ledger.end(owned.attempt.ref, end());
      owned.isReported = true;
    } catch (cause) {
      // The hook must not fail: run() reports the same end again.
      console.error("[perdure] the end of a turn could not be stored from its hook:", cause);
    }
    return owned.isReported;
  }

  /** The reply to these messages, if the conversation has one. */
  #replyTo(messages: readonly UIMessage[]): UIMessage | undefined {
    const ids = idsOf(messages);
    const conversation = this.agent.messages;
    const after = conversation.slice(conversation.findLastIndex(({ id }) => ids.has(id)) + 1);
    return after.findLast(({ role }) => role === "assistant");
  }

  /** The submission whose messages are the last in the conversation. */
  #asked(messages: readonly UIMessage[]): Left | undefined {
    const asked = lastAsked(messages);
    return asked.length > 0 ? this.ledger.findByMessage(idsOf(asked)) : undefined;
  }

  /** The chat is about to recover a turn: whether it should. */
  async #interrupted(
    ctx: ChatRecoveryContext,
    app: ChatHooks,
  ): Promise<ChatRecoveryOptions | void> {
    // Its partial reply must not come back.
    if (this.recovery.isReset(ctx)) return DROPPED;
    const submission = this.#asked(ctx.messages);
    const isRunning = submission?.status === "running";
    // A turn of none, maybe after the messages of a submission that has failed.
    if (!submission || !(isRunning || this.#isLast(submission, ctx.messages)))
      return app.onChatRecovery(ctx);
    const { requestId } = ctx;
    const ref = refOf(submission);
    const { ledger } = this;
    if (submission.isAnswered) ledger.end(ref, { outcome: "completed", requestId });
    // The end of the conversation belongs to another run of the submission.
    if (this.#isSuperseded(ref, requestId)) return DROPPED;
    if (submission.isAnswered || !isRunning) return { continue: false };
    const whole = wholeReply(ctx);
    if (whole) {
      const owned = this.#rememberLeft(requestId, submission, {
        isRecovered: false,
        abortSignal: undefined,
      });
      owned.isDurable = true;
      this.ledger.end(ref, endOf(owned, { requestId, status: "completed", message: whole }));
      this.#release(ref);
      return { continue: false };
    }
    const own = (await app.onChatRecovery(ctx)) ?? {};
    const decision = this.recovery.decide(submission, ctx, this.conversation, own);
    if (decision.continue !== false) this.#recovering.set(ref.seq, requestId);
    return decision;
  }

  /** Whether the submission runs in another turn by now. */
  #isSuperseded({ seq }: AttemptRef, requestId: string): boolean {
    if (this.#owned.get(requestId)?.attempt.ref.seq === seq) return false;
    const running = [this.#live, ...[...this.#owned.values()].map(({ attempt }) => attempt.ref)];
    return running.some((ref) => ref?.seq === seq);
  }

  /** When the chat gives up on a turn, the ledger ends its submission. */
  #withExhaustion(config: ChatRecoveryConfig): ChatRecoveryConfig {
    if (!config) return config;
    const custom = config === true ? {} : config;
    return Object.assign(Object.create(custom) as typeof custom, {
      onExhausted: async (ctx: Parameters<NonNullable<typeof custom.onExhausted>>[0]) => {
        const submission = this.#asked(this.agent.messages);
        if (submission?.status === "running") {
          const ref = refOf(submission);
          const isSuperseded = this.#isSuperseded(ref, ctx.requestId);
          if (!isSuperseded) this.ledger.end(ref, interrupted(ctx.reason, ctx.requestId));
        }
        await custom.onExhausted?.(ctx);
      },
    });
  }

  #release({ seq, attempt }: AttemptRef): void {
    for (const [requestId, { attempt: owned }] of this.#owned) {
      if (owned.ref.seq === seq && owned.ref.attempt === attempt) this.#owned.delete(requestId);
    }
  }
}

/** What runs an attempt: the turn that has begun, or one that recovery runs. */
type Run = Pick<AttemptOptions, "ref" | "plan" | "isAnswered"> &
  Pick<OwnedTurn, "submissionId" | "asked" | "isRecovered" | "abortSignal"> & {
    /** Whether the messages may be in the conversation already, with a reply. */
    readonly isAgain: boolean;
  };
