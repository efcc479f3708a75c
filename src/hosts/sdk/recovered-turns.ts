/**
 * The turns of a conversation that the SDK's own chat runs, and recovers after a crash: which attempt of which submission each of
 * them runs. The same for Think and for AIChatAgent. A recovered turn is recognised by the messages that it answers.
 */

import type { ChatRecoveryConfig, ChatRecoveryContext, ChatRecoveryOptions } from "agents/chat";
import type { UIMessage } from "ai";
import { failureOf } from "../../core/failures.ts";
import {
  type SubmittedTurn,
  type Turn,
  type TurnEnd,
  TurnRefused,
} from "../../submissions/host.ts";
import type { AttemptRef } from "../../submissions/states.ts";
import type { Submissions } from "../../submissions/submissions.ts";
import { Attempt, type AttemptOptions, type EndedTurn } from "./attempt.ts";
import { IncompleteReplyError } from "./attempt-model.ts";
import type { FramedTurn } from "./chat-host-base.ts";
import { type ChatRecovery, DROPPED, interrupted, type Left, refOf } from "./chat-recovery.ts";
import {
  idsOf,
  isKept,
  isProviderResult,
  lastAsked,
  type MainConversation,
  textOf,
} from "./conversation.ts";

/** A turn of the SDK that runs an attempt of a submission. */
export type OwnedTurn = {
  readonly attempt: Attempt;
  readonly submissionId: string;
  /** The messages of the submission. */
  readonly asked: readonly UIMessage[];
  /** Whether the SDK's own recovery runs it. */
  readonly isRecovered: boolean;
  /** Whether its end is stored in the ledger. */
  isReported: boolean;
};

/** How a turn of the SDK has ended. */
export type ChatEnd = {
  readonly requestId: string;
  readonly status: "completed" | "error" | "aborted" | "skipped";
  readonly error?: string | undefined;
  readonly message: UIMessage | undefined;
};

type Begun = { readonly turn: Turn; readonly ref: AttemptRef };

export abstract class RecoveredTurns<
  Owned extends OwnedTurn,
  Chat extends { readonly messages: readonly UIMessage[] },
  Ledger extends Submissions,
> {
  /** By request id, from the turn's first hook to its end. */
  readonly #owned = new Map<string, Owned>();
  /** The turn that has just begun. Its request id is not known before its first hook. */
  protected begun: Begun | undefined;
  /** The attempt that {@link run} runs. */
  #live: AttemptRef | undefined;
  /** Request ids of interrupted turns that the SDK's recovery continues, by submission. */
  readonly #recovering = new Map<number, string>();

  constructor(
    protected readonly agent: Chat,
    protected readonly ledger: Ledger,
    protected readonly recovery: ChatRecovery,
    readonly conversation: MainConversation,
  ) {}

  abstract run(turn: Turn): Promise<TurnEnd>;
  abstract stop(turn: SubmittedTurn, reason: string | undefined): void;

  /** How a turn has ended in terms of the ledger. */
  protected abstract endOf(owned: Owned | undefined, ended: ChatEnd): TurnEnd;

  /** The submission that a turn of the SDK runs, by the SDK's id of the turn; undefined after its end. */
  turnOf(requestId: string): FramedTurn | undefined {
    const owned = this.get(requestId);
    return owned && { submissionId: owned.submissionId, attempt: owned.attempt.ref.attempt };
  }

  protected get(requestId: string | undefined): Owned | undefined {
    return requestId === undefined ? undefined : this.#owned.get(requestId);
  }

  protected set(requestId: string, owned: Owned): Owned {
    this.#owned.set(requestId, owned);
    return owned;
  }

  /** The request ids of the turns that run a submission. */
  protected running(seq: number): string[] {
    const runs = [...this.#owned].filter(([, { attempt }]) => attempt.ref.seq === seq);
    return runs.map(([requestId]) => requestId);
  }

  /** The request id of the interrupted turn that the SDK's recovery continues for a submission. */
  protected recovering(seq: number): string | undefined {
    return this.#recovering.get(seq);
  }

  protected isLive(seq: number): boolean {
    return this.#live?.seq === seq;
  }

  /** The submission whose messages are the last in the conversation. */
  protected asked(messages: readonly UIMessage[] = this.agent.messages): Left | undefined {
    const asked = lastAsked(messages);
    return asked.length > 0 ? this.ledger.store.findByMessage(idsOf(asked)) : undefined;
  }

  /** The turn that has just begun, for its first hook. */
  protected takeBegun(): OwnedTurn | undefined {
    if (!this.begun) return undefined;
    const { ref, turn } = this.begun;
    this.begun = undefined;
    const { plan, messages: asked, isAgain, submissionId } = turn;
    const attempt = this.#attempt({ ref, plan }, isAgain ? asked : undefined);
    return { attempt, submissionId, asked, isRecovered: false, isReported: false };
  }

  /** The turn of a submission that was left running when the object last went down. It asks the same again. */
  protected left(left: Left, isRecovered: boolean): OwnedTurn {
    const { messages: asked, isAnswered, submissionId } = left;
    const plan = this.ledger.store.attempts.planOf(left);
    const attempt = this.#attempt({ ref: refOf(left), plan, isAnswered }, asked);
    return { attempt, submissionId, asked, isRecovered, isReported: false };
  }

  /** @param messages the turn's, unless no earlier run of the turn can have called tools */
  #attempt(
    asked: Pick<AttemptOptions, "ref" | "plan" | "isAnswered">,
    messages: readonly UIMessage[] | undefined,
  ): Attempt {
    const { ledger, conversation } = this;
    const settled = messages && (() => conversation.settledCalls(idsOf(messages)));
    return new Attempt({ ...asked, ledger: ledger.turns, settled });
  }

  /**
   * Runs a turn.
   * @param inputOf what the SDK is given of the turn's messages
   * @param start lets the SDK run the turn, which calls `input` when the turn begins
   */
  protected async runBy<Input>(
    turn: Turn,
    inputOf: (turn: Turn) => Input,
    start: (input: () => Promise<Input>) => Promise<ChatEnd>,
  ): Promise<TurnEnd> {
    let ref: AttemptRef | undefined;
    const begin = async () => {
      ref = turn.begin();
      this.#live = ref;
      await turn.announced();
      const { messages, plan, isAgain } = turn;
      if (isAgain && plan?.followUp === undefined) await this.conversation.removeEarlier(messages);
      // A reset of the conversation or a cancellation has ended it: its messages must not be stored.
      if (turn.signal.aborted) throw new TurnRefused();
      this.begun = { turn, ref };
      return inputOf(turn);
    };
    try {
      const ended = await start(begin);
      const { requestId } = ended;
      if (ref && this.recovering(ref.seq) === requestId) return { outcome: "recovering" };
      const owned = this.get(requestId);
      return owned?.isReported ? { outcome: "reported" } : this.endOf(owned, ended);
    } catch (error) {
      // The answer counts, whatever failed after it.
      const owned = [...this.#owned.values()].find(({ attempt }) => attempt.ref === ref);
      if (owned?.attempt.isAnswered) return { outcome: "completed" };
      throw error;
    } finally {
      // If this attempt was given up, a later one may have begun before this one ends.
      if (this.begun?.ref === ref) this.begun = undefined;
      if (this.#live === ref) this.#live = undefined;
      if (ref) this.#release(ref);
    }
  }

  /** The SDK's hook reports the end of a turn. */
  protected ended(owned: Owned, ended: ChatEnd): void {
    if (owned.isReported) return;
    const { ref } = owned.attempt;
    try {
      this.ledger.turns.end(ref, this.endOf(owned, ended));
      owned.isReported = true;
    } catch (cause) {
      // The hook must not fail: run() reports the same end again.
      console.error("[perdure] the end of a turn could not be stored from its hook:", cause);
      return;
    }
    if (!this.isLive(ref.seq)) this.#release(ref);
    this.#recovering.delete(ref.seq);
  }

  /**
   * The SDK is about to recover the turn of a submission: whether it should.
   * @param decide the app's decision
   */
  protected async recover(
    submission: Left,
    ctx: ChatRecoveryContext,
    decide: () => Promise<ChatRecoveryOptions | void>,
  ): Promise<ChatRecoveryOptions> {
    const { requestId } = ctx;
    const { ledger, recovery, conversation } = this;
    const ref = refOf(submission);
    if (submission.isAnswered) ledger.turns.end(ref, { outcome: "completed", requestId });
    // The end of the conversation belongs to another run of the submission.
    if (this.#isSuperseded(ref, requestId)) return DROPPED;
    if (submission.isAnswered || submission.status !== "running") return { continue: false };
    const decision = recovery.decide(submission, ctx, conversation, (await decide()) ?? {});
    if (decision.continue !== false) this.#recovering.set(ref.seq, requestId);
    // Not a crash: its stream has stalled.
    if (decision === DROPPED)
      this.get(requestId)?.attempt.failed(new IncompleteReplyError("interrupted"));
    return decision;
  }

  /**
   * The app's settings of the recovery. When the SDK gives up on a turn, the ledger ends its submission.
   * @param shown what the app's hooks are shown
   */
  protected withExhaustion(
    config: ChatRecoveryConfig,
    shown: <Info extends { requestId: string }>(info: Info) => Info = (info) => info,
  ): ChatRecoveryConfig {
    if (!config) return config;
    const custom = config === true ? {} : config;
    const { shouldKeepRecovering } = custom;
    return Object.assign(Object.create(custom) as typeof custom, {
      ...(shouldKeepRecovering && {
        shouldKeepRecovering: (ctx: Parameters<typeof shouldKeepRecovering>[0]) =>
          shouldKeepRecovering(shown(ctx)),
      }),
      onExhausted: async (ctx: Parameters<NonNullable<typeof custom.onExhausted>>[0]) => {
        const submission = this.asked();
        const ref = submission?.status === "running" ? refOf(submission) : undefined;
        if (ref && !this.#isSuperseded(ref, ctx.requestId))
          this.ledger.turns.end(ref, interrupted(ctx.reason, ctx.requestId));
        await custom.onExhausted?.(shown(ctx));
      },
    });
  }

  /** Whether the submission runs in another turn by now. */
  #isSuperseded({ seq }: AttemptRef, requestId: string): boolean {
    if (this.get(requestId)?.attempt.ref.seq === seq) return false;
    return this.isLive(seq) || this.running(seq).length > 0;
  }

  #release({ seq, attempt }: AttemptRef): void {
    for (const [requestId, { attempt: owned }] of this.#owned) {
      if (owned.ref.seq === seq && owned.ref.attempt === attempt) this.#owned.delete(requestId);
    }
  }
}

/**
 * How a turn has ended, without its answer.
 * @param cause what it failed with, as it was thrown
 * @param text of its error
 */
export function factsOf(
  { requestId, status, error, message }: ChatEnd,
  cause: unknown,
  text = error ?? "The turn has failed.",
): EndedTurn {
  const messageId = message && isKept(message) ? message.id : undefined;
  const facts = { requestId, messageId };
  if (status === "completed") return { outcome: status, ...facts, text: textOf(message) };
  // As in Think, only an error has a text.
  if (status !== "error") return { outcome: status, ...facts };
  const name = cause === undefined ? "TurnError" : failureOf(cause).name;
  const hasEffects = message?.parts.some(isProviderResult) ?? false;
  return { outcome: status, failure: { name, message: text }, cause, hasEffects, ...facts };
}
