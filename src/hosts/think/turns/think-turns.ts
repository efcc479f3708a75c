/**
 * Runs the turns of a Think agent's own conversation, by Think's public hooks.
 *
 * `runTurn()` runs a turn. If a crash interrupts it, Think's recovery continues it in another turn. That one is recognised by the
 * messages that it answers, gets the final-answer tool again, and ends the submission from `onChatResponse`, as the first would.
 */

import type {
  ChatRecoveryConfig,
  ChatRecoveryContext,
  ChatRecoveryOptions,
  ChatResponseResult,
  PrepareStepContext,
  Think,
  ToolCallContext,
  ToolCallDecision,
} from "@cloudflare/think";
import { convertToModelMessages, type UIMessage } from "ai";
import {
  type AttemptRef,
  isFinalAnswer,
  MAIN,
  type SubmittedTurn,
  type Turn,
  type TurnEnd,
  TurnRefused,
} from "../../../submissions/index.ts";
import { Attempt, type AttemptOptions } from "../../sdk/attempt.ts";
import type { FramedTurn } from "../../sdk/chat-frames.ts";
import {
  type ChatRecovery,
  DROPPED,
  interrupted,
  type Left,
  refOf,
} from "../../sdk/chat-recovery.ts";
import { idsOf, MainConversation } from "../../sdk/conversation.ts";
import type { StepOverrides, ThinkHooks } from "../hooks.ts";
import type { ThinkSubmissions } from "../think-submissions.ts";
import { configOf, endOf, type OwnedTurn } from "./owned-turn.ts";
import type { TurnIds } from "./turn-ids.ts";

export class ThinkTurns {
  /** By request id, from `beforeTurn` to the turn's end. */
  readonly #owned = new Map<string, OwnedTurn>();
  /** The turn that has just begun. Its request id is not known before `beforeTurn`. */
  #begun: { readonly turn: Turn; readonly ref: AttemptRef } | undefined;
  /** The attempt that `run()` runs. */
  #live: AttemptRef | undefined;
  /** Request ids of interrupted turns that Think's recovery continues, by submission. */
  readonly #recovering = new Map<number, string>();
  readonly conversation: MainConversation;

  constructor(
    private readonly agent: Think,
    private readonly ledger: ThinkSubmissions,
    private readonly ids: TurnIds,
    private readonly recovery: ChatRecovery,
  ) {
    this.conversation = new MainConversation(agent);
  }

  async run(turn: Turn): Promise<TurnEnd> {
    const { channel, signal } = turn;
    let ref: AttemptRef | undefined;
    const begin = async () => {
      ref = turn.begin();
      this.#live = ref;
      await turn.announced();
      const { messages, plan, isAgain } = turn;
      const isFollowUp = plan?.followUp !== undefined;
      if (isAgain && !isFollowUp) await this.conversation.removeEarlier(messages);
      // A reset of the conversation or a cancellation has ended it: its messages must not be stored.
      if (signal.aborted) throw new TurnRefused();
      this.#begun = { turn, ref };
      // Messages that are stored stay where they are, with the reply that the follow-up continues.
      const stored = idsOf(isFollowUp ? this.agent.messages : []);
      return messages.filter(({ id }) => !stored.has(id));
    };
    try {
      const result = await this.ids.start(turn.submissionId, () =>
        this.agent.runTurn({ input: begin, signal, ...(channel !== undefined && { channel }) }),
      );
      const { requestId } = result;
      if (ref && this.#recovering.get(ref.seq) === requestId) return { outcome: "recovering" };
      const owned = this.#owned.get(requestId);
      if (owned?.isReported) return { outcome: "reported" };
      return endOf(owned, { ...result, message: result.message as UIMessage | undefined });
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

  /** The submission that a turn of Think runs, by Think's id of the turn. */
  turnOf(requestId: string): FramedTurn | undefined {
    const owned = this.#owned.get(requestId);
    const submissionId = owned && this.ids.submissionOf(requestId);
    return submissionId === undefined
      ? undefined
      : { submissionId, attempt: owned?.attempt.ref.attempt ?? 0 };
  }

  stop({ messages }: SubmittedTurn, reason: string | undefined): void {
    const seq = this.ledger.findByMessage(idsOf(messages))?.seq;
    if (seq === undefined) return;
    const recovering = this.#recovering.get(seq);
    if (recovering) this.agent.cancelChat(recovering, reason);
    for (const [requestId, { attempt }] of this.#owned) {
      if (attempt.ref.seq === seq) this.agent.cancelChat(requestId, reason);
    }
  }

  /** The app's hooks with Perdure's part around them. */
  wrap(app: ThinkHooks): ThinkHooks {
    const { observability } = app;
    return {
      observability: observability && {
        emit: (event) => observability.emit(this.ids.shownEvent(event)),
      },
      beforeTurn: async (ctx) => {
        const owned = this.#own();
        const config = (await app.beforeTurn(ctx)) ?? {};
        return owned ? configOf(owned, this.agent, ctx, config) : config;
      },
      beforeStep: async (ctx) => this.#beforeStep(ctx, (await app.beforeStep(ctx)) ?? {}),
      beforeToolCall: (ctx) =>
        isFinalAnswer(ctx.toolName) ? undefined : this.#beforeTool(ctx, app),
      afterToolCall: (ctx) => (isFinalAnswer(ctx.toolName) ? undefined : app.afterToolCall(ctx)),
      onStepEnd: (ctx) => {
        this.#current()?.attempt.stepped(ctx);
        return app.onStepEnd(ctx);
      },
      onChunk: (ctx) => {
        this.#heartbeat();
        return app.onChunk(ctx);
      },
      onChatResponse: (result) => {
        this.#responded(result);
        return app.onChatResponse(this.ids.shown(result));
      },
      onChatError: (error, ctx) => app.onChatError(error, ctx && this.ids.shown(ctx)),
      classifyChatError: (error, ctx) => {
        // Only this hook gets the error as it was thrown; others get its text.
        const owned = ctx?.requestId === undefined ? undefined : this.#owned.get(ctx.requestId);
        if (owned) owned.attempt.error = { cause: error };
        return app.classifyChatError(error, ctx && this.ids.shown(ctx));
      },
      onChatRecovery: (ctx) => this.#interrupted(ctx, app),
      chatRecovery: this.#withExhaustion(app.chatRecovery),
    };
  }

  /** Recognises the turn of a submission: the one that `run()` has started, or one that recovery runs. */
  #own(): OwnedTurn | undefined {
    const active = this.ids.own;
    if (!active) return undefined;
    const { requestId, trigger } = active;
    const known = this.#owned.get(requestId);
    if (known) return known;
    const begun = this.#begun;
    if (begun && this.ids.of(active) === begun.turn.submissionId) {
      this.#begun = undefined;
      const { plan, messages, isAgain } = begun.turn;
      return this.#remember(requestId, { ref: begun.ref, plan }, isAgain ? messages : undefined);
    }
    if (!trigger.startsWith("recovery-")) return undefined;
    const submission = this.ids.asked(this.agent.messages);
    if (!submission) return undefined;
    const { status } = submission;
    if (status === "running") return this.#rememberLeft(requestId, submission, true);
    // It was cancelled while its recovery waited.
    this.agent.cancelChat(requestId, `The submission is ${status}`);
    return undefined;
  }

  /** @param asked the turn's messages, unless no earlier run of the turn can have called tools */
  #remember(
    requestId: string,
    options: Pick<AttemptOptions, "ref" | "plan" | "isAnswered">,
    asked: readonly UIMessage[] | undefined,
    isRecovered = false,
  ): OwnedTurn {
    const settled = asked && (() => this.conversation.settledCalls(idsOf(asked)));
    const attempt = new Attempt({ ...options, ledger: this.ledger, settled });
    const owned = { attempt, isRecovered, isReported: false, inputs: new Map() };
    this.#owned.set(requestId, owned);
    return owned;
  }

  /** The attempt of a submission that was left running when the object last went down. It asks the same again. */
  #rememberLeft(requestId: string, left: Left, isRecovered: boolean): OwnedTurn {
    const { messages, isAnswered } = left;
    const plan = this.ledger.attemptPlanOf(left);
    return this.#remember(requestId, { ref: refOf(left), plan, isAnswered }, messages, isRecovered);
  }

  /** Before each call of the model: the ledger checks the budget, and messages may join the turn. */
  async #beforeStep(ctx: PrepareStepContext, config: StepOverrides): Promise<StepOverrides> {
    const owned = this.#current();
    if (!owned) {
      this.#heartbeat();
      return config;
    }
    const { attempt, isRecovered } = owned;
    // A recovered turn continues a reply that is in the conversation already: what joined would come after it.
    const joined = await attempt.nextStep(
      ctx.model,
      (all) => this.agent.addMessages(all),
      !isRecovered,
    );
    // The model that a prompt names comes before that of the app.
    const { model, ...others } = config;
    const isAppsModel = model !== undefined && attempt.plan?.model === undefined;
    const settings = { ...others, ...(isAppsModel && { model }) };
    if (joined.length === 0) return attempt.stepSettings(ctx, settings);
    const shown = [...(config.messages ?? ctx.messages), ...(await convertToModelMessages(joined))];
    return attempt.stepSettings(ctx, { ...settings, messages: shown });
  }

  /** The app may change the input; the ledger records the call by the model's input. */
  async #beforeTool(ctx: ToolCallContext, app: ThinkHooks): Promise<ToolCallDecision | undefined> {
    const owned = this.#current();
    if (owned?.attempt.isFollowUp)
      return { action: "block", reason: "No tools are left for this turn." };
    const decision = (await app.beforeToolCall(ctx)) ?? undefined;
    if (decision === undefined || decision.action === "allow")
      owned?.inputs.set(ctx.toolCallId, ctx.input);
    return decision;
  }

  /** A turn of the conversation makes progress: a submission's, or one that submissions wait for. */
  #heartbeat(): void {
    const owned = this.#current();
    if (owned) owned.attempt.heartbeat();
    // Side turns come here, too; no submission waits for them in this thread.
    else if (this.ids.own) this.ledger.busy(MAIN);
  }

  #current(): OwnedTurn | undefined {
    const requestId = this.ids.own?.requestId;
    return requestId === undefined ? undefined : this.#owned.get(requestId);
  }

  #responded(result: ChatResponseResult): void {
    const { requestId, status, error, message, recovered } = result;
    const owned =
      this.#owned.get(requestId) ?? (recovered ? this.#ownerOfReply(result) : undefined);
    if (!owned || owned.isReported) return;
    const { ref } = owned.attempt;
    try {
      this.ledger.end(ref, endOf(owned, { requestId, status, error, message }));
      owned.isReported = true;
    } catch (cause) {
      // The hook must not fail: run() reports the same end again.
      console.error("[perdure] the end of a turn could not be stored from its hook:", cause);
      return;
    }
    if (this.#live?.seq !== ref.seq) this.#release(ref);
    this.#recovering.delete(ref.seq);
  }

  /** The object went down between a stored reply and its hook: the reply identifies its submission. */
  #ownerOfReply({ requestId, message: reply }: ChatResponseResult): OwnedTurn | undefined {
    const { messages } = this.agent;
    const at = messages.findIndex(({ id }) => id === reply.id);
    const submission = this.ids.asked(at < 0 ? messages : messages.slice(0, at));
    if (submission) this.ids.set(requestId, submission.submissionId);
    if (submission?.status !== "running") return undefined;
    return this.#rememberLeft(`reply:${reply.id}`, submission, false);
  }

  /** Think is about to recover a turn: whether it should. */
  async #interrupted(
    ctx: ChatRecoveryContext,
    app: ThinkHooks,
  ): Promise<ChatRecoveryOptions | void> {
    // Its partial reply must not come back.
    if (this.recovery.isReset(ctx)) return DROPPED;
    // Think ends the submission as interrupted.
    if (await this.ledger.think.isOvertaken(ctx.recoveryRootRequestId)) return DROPPED;
    const submission = this.ids.asked(ctx.messages);
    if (!submission) return app.onChatRecovery(ctx);
    this.ids.set(ctx.requestId, submission.submissionId);
    const ref = refOf(submission);
    const { ledger } = this;
    if (submission.isAnswered) ledger.end(ref, { outcome: "completed", requestId: ctx.requestId });
    // The end of the conversation belongs to another run of the submission.
    if (this.#isSuperseded(ref, ctx.requestId)) return DROPPED;
    if (submission.isAnswered || submission.status !== "running") return { continue: false };
    const own = (await app.onChatRecovery(this.ids.shown(ctx))) ?? {};
    const decision = this.recovery.decide(submission, ctx, this.conversation, own);
    if (decision.continue !== false) this.#recovering.set(ref.seq, ctx.requestId);
    return decision;
  }

  /** Whether the submission runs in another turn by now. */
  #isSuperseded({ seq }: AttemptRef, requestId: string): boolean {
    if (this.#owned.get(requestId)?.attempt.ref.seq === seq) return false;
    const running = [this.#live, ...[...this.#owned.values()].map(({ attempt }) => attempt.ref)];
    return running.some((ref) => ref?.seq === seq);
  }

  /** When Think gives up on a turn, the ledger ends its submission. */
  #withExhaustion(config: ChatRecoveryConfig): ChatRecoveryConfig {
    if (!config) return config;
    const custom = config === true ? {} : config;
    const { shouldKeepRecovering } = custom;
    return Object.assign(Object.create(custom) as typeof custom, {
      ...(shouldKeepRecovering && {
        shouldKeepRecovering: (ctx: Parameters<typeof shouldKeepRecovering>[0]) =>
          shouldKeepRecovering(this.ids.shownRecovery(ctx)),
      }),
      onExhausted: async (ctx: Parameters<NonNullable<typeof custom.onExhausted>>[0]) => {
        const submission = this.ids.asked(this.agent.messages);
        if (submission?.status === "running") {
          const ref = refOf(submission);
          const isSuperseded = this.#isSuperseded(ref, ctx.requestId);
          if (!isSuperseded) this.ledger.end(ref, interrupted(ctx.reason, ctx.requestId));
        }
        await custom.onExhausted?.(this.ids.shownRecovery(ctx));
      },
    });
  }

  #release({ seq, attempt }: AttemptRef): void {
    for (const [requestId, { attempt: owned }] of this.#owned) {
      if (owned.ref.seq === seq && owned.ref.attempt === attempt) this.#owned.delete(requestId);
    }
  }
}
