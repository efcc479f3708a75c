/** A host whose turns are operations of a harness, which owns the conversations, the model, the tools and their recovery. */

import { AsyncLocalStorage } from "node:async_hooks";
import type {
  AgentHarness,
  HarnessSession,
  OperationResult,
  SessionState,
} from "agents/experimental/channels";
import { toUIMessage } from "agents/harness/ai-sdk";
import type { UIMessage } from "ai";
import { TimeoutError, withTimeout } from "../../core/clock.ts";
import { failureOf } from "../../core/failures.ts";
import type { WatchedTurn } from "../../kernel/index.ts";
import type { SubmissionInspection } from "../../kernel/submissions/index.ts";
import {
  type AttemptPlan,
  type AttemptRef,
  type CheckedSubmission,
  type ConversationState,
  endWithAnswer,
  isIsolated,
  Submissions,
  type SubmittedTurn,
  type Turn,
  type TurnEnd,
  type TurnHost,
} from "../../kernel/submissions/internal.ts";
import { HARNESS } from "../limitations.ts";
import { Answering } from "../sdk/answering.ts";
import { HostBase, type HostParts } from "../sdk/sdk-host.ts";
import { NotSupportedByHostError } from "../support.ts";
import { HarnessOperationError, ResetTimeoutError } from "./errors.ts";
import {
  abortOperation,
  chunksOf,
  endOfOperation,
  inputOf,
  isAborted,
  isInput,
  latestOperation,
  leftReply,
  operate,
  planOf,
  SETTLE_MS,
  sessionOf,
  sessionOfThread,
  stateOf,
  submissionOfOperation,
} from "./operations.ts";

const NAME = "perdure/harness";

export type HarnessHostOptions = {
  /** The SDK's harnesses set alarms, which a sub-agent cannot. */
  readonly isSubAgent: () => boolean;
  /** @throws Error if the app has none */
  readonly harness: () => AgentHarness;
};

/** An attempt whose operation has ended. */
type Ended = {
  readonly session: HarnessSession;
  readonly ref: AttemptRef;
  readonly plan: AttemptPlan | undefined;
  readonly result: OperationResult;
};

/** An operation that a crash has interrupted, and that the harness continues. */
type Followed = { readonly thread: string; readonly stop: AbortController };

export class HarnessHost extends HostBase implements TurnHost {
  readonly hasOwnTools = true;
  readonly submissions: Submissions;
  /** By submission. */
  readonly #followed = new Map<string, Followed>();
  /** Sessions that are being reset, by thread. */
  readonly #resets = new Map<string, Promise<void>>();
  /** Inside a start, `ready()` would not wait for the end of the start. */
  readonly #detached = AsyncLocalStorage.snapshot();

  constructor(
    parts: HostParts,
    private readonly options: HarnessHostOptions,
  ) {
    super(parts);
    this.submissions = new Submissions(this, parts.outbox, parts.limits);
  }

  check({ channel, budget, limits, answer, whenBusy, messages }: CheckedSubmission): void {
    const { models = [], maxSteps, repair = 0, strategy } = answer ?? {};
    const refused = {
      "sub-agents": this.options.isSubAgent(),
      channel: channel !== undefined,
      budget: (budget ?? limits?.usd) !== undefined,
      models: models.length > 0,
      maxSteps: maxSteps !== undefined,
      repair: repair > 0,
      strategy: strategy === "tool",
      steer: whenBusy === "steer",
      rollback: whenBusy === "rollback",
      messages: !isInput(JSON.parse(messages) as UIMessage[]),
    };
    for (const [option, isRefused] of Object.entries(refused))
      if (isRefused)
        throw new NotSupportedByHostError(NAME, option as keyof typeof refused, HARNESS);
    this.options.harness();
  }

  start(): void {
    this.#detached(() => this.#abortEnded()).catch((error) => {
      console.error("[perdure] operations of ended submissions could not be aborted:", error);
    });
  }

  protected async runTurn(turn: Turn): Promise<TurnEnd> {
    const ref = turn.begin();
    await turn.announced();
    const session = sessionOf(this.options.harness(), turn);
    const watched = await this.#watch(session, turn, ref);
    try {
      const result = await operate(session, turn, watched.state);
      if (turn.signal.aborted) return { outcome: "aborted" };
      return await this.#end({ session, ref, plan: turn.plan, result });
    } finally {
      await watched.stop();
    }
  }

  /** Shows what the harness says in this turn to clients and followers, until `stop()`. */
  async #watch(session: HarnessSession, turn: WatchedTurn, ref: AttemptRef) {
    const watch = await session.watch();
    const base = leftReply(turn.submissionId, watch.state);
    const watcher = this.parts.watchers.reply(turn, ref.attempt, base);
    const show = chunksOf(turn.submissionId, watch.state, (chunk) => watcher.chunk(chunk));
    watch.start(async (events) => {
      this.submissions.turns.heartbeat(ref);
      show(events);
    });
    const stop = async () => {
      await watch.stop();
      watcher.end();
    };
    return { state: watch.state, stop };
  }

  /** How an attempt ends. */
  async #end({ session, ref, plan, result }: Ended): Promise<TurnEnd> {
    if (isAborted(result)) return { outcome: "aborted" };
    const reply = await replyIn(session);
    if (result.status === "unanswered") {
      const { openCall, ...rest } = reply;
      const cause = new HarnessOperationError(result.operationId, result.reason, openCall);
      return { outcome: "error", failure: failureOf(cause), cause, ...rest };
    }
    const { text = "" } = result;
    const end = { outcome: "completed", text, messageId: reply.messageId } as const;
    if (!plan) return end;
    const answering = new Answering(planOf(plan), (it) => this.submissions.turns.answer(ref, it));
    answering.conclude(text);
    return endWithAnswer(end, answering);
  }

  stop({ submissionId }: SubmittedTurn): void {
    this.#followed.get(submissionId)?.stop.abort();
  }

  /** Whether the harness has the operation of a turn. One that a crash has interrupted is followed to its end. */
  async inspectConversation(turn: SubmittedTurn): Promise<ConversationState> {
    const session = sessionOf(this.options.harness(), turn);
    const operationId = await latestOperation(session, turn.submissionId);
    if (operationId === undefined) return { applied: "none", hasEffects: false };
    this.#follow(turn, session, operationId);
    return { applied: "all", hasEffects: false };
  }

  /** Reports the end of an interrupted operation to the ledger. */
  #follow(turn: SubmittedTurn, session: HarnessSession, operationId: string): void {
    const { submissions } = this;
    const { submissionId, thread } = turn;
    const found = submissions.store.find(submissionId);
    if (found?.status !== "running" || this.#followed.has(submissionId)) return;
    const ref = { seq: found.seq, attempt: found.attempts };
    const plan = submissions.store.attempts.planOf(found);
    const stop = new AbortController();
    this.#followed.set(submissionId, { thread, stop });
    const follow = async () => {
      const shown = {
        submissionId,
        thread,
        get isGivenUp() {
          return stop.signal.aborted;
        },
      };
      const watched = await this.#watch(session, shown, ref);
      try {
        // It is known. A repetition makes the harness continue it at once.
        await session.submit(inputOf(turn), { operationId });
        const result = await endOfOperation(session, operationId, stop.signal);
        submissions.turns.end(ref, await this.#end({ session, ref, plan, result }));
      } finally {
        await watched.stop();
      }
    };
    follow()
      // The next check follows it again.
      .catch((error) => console.error("[perdure] an operation could not be followed:", error))
      .finally(() => this.#followed.delete(submissionId));
  }

  async isRecovering(thread: string): Promise<boolean> {
    return [...this.#followed.values()].some((followed) => followed.thread === thread);
  }

  /** After a crash, a harness continues operations whose submissions have ended: those are aborted. */
  async #abortEnded(): Promise<void> {
    await this.submissions.ready();
    const { store } = this.submissions.ledger;
    const harness = this.options.harness();
    for (const { id, busy } of await harness.sessions.list()) {
      const session = harness.session(id);
      for (const { operationId } of busy ? (await stateOf(session)).pending : []) {
        const found = store.find(submissionOfOperation(operationId));
        if (found && !["pending", "running"].includes(found.status))
          abortOperation(session, operationId);
      }
    }
  }

  /** A harness cannot remove single messages: the operation ends, and a session that is cleared is reset as a whole. */
  async removeMessages(turn: SubmittedTurn): Promise<void> {
    const session = sessionOf(this.options.harness(), turn);
    const operationId = await latestOperation(session, turn.submissionId);
    if (operationId !== undefined) await session.abort(operationId);
    await this.#resets.get(turn.thread);
  }

  /** A turn has its submission's id, and so has its first operation. */
  override submissionOf(requestId: string): string {
    return submissionOfOperation(requestId);
  }

  override async onStatus(submission: SubmissionInspection): Promise<void> {
    const { status, submissionId, thread } = submission;
    if (isIsolated(thread) && status !== "pending" && status !== "running") {
      sessionOf(this.options.harness(), { submissionId, thread })
        .reset()
        .catch((error) => console.error("[perdure] a session could not be reset:", error));
    }
    await super.onStatus(submission);
  }

  async messages(thread: string): Promise<UIMessage[]> {
    const { messages } = await stateOf(sessionOfThread(this.options.harness(), thread));
    return messages.map((message) => toUIMessage(message));
  }

  async message(thread: string, id: string): Promise<UIMessage | undefined> {
    return (await this.messages(thread)).find((message) => message.id === id);
  }

  async clear(thread: string): Promise<void> {
    // One that still waits for a tool is joined: another one would end after it, and abort the next turn.
    const reset =
      this.#resets.get(thread) ??
      sessionOfThread(this.options.harness(), thread)
        .reset()
        .finally(() => this.#resets.delete(thread));
    this.#resets.set(thread, reset);
    await withTimeout(reset, SETTLE_MS).catch((error) => {
      throw error instanceof TimeoutError ? new ResetTimeoutError(thread) : error;
    });
  }
}

type Reply = {
  readonly messageId?: string;
  /** Whether tools have run for it. */
  readonly hasEffects: boolean;
  /** The tool of an earlier call without a result, with which AiSdkHarness asks no model. */
  readonly openCall?: string | undefined;
};

/** The reply to an operation: the last message, if it is the model's. */
async function replyIn(session: HarnessSession): Promise<Reply> {
  const { messages } = await stateOf(session);
  const last = messages.at(-1);
  const openCall = openCallIn(messages.slice(0, -1));
  if (last?.role !== "assistant") return { hasEffects: false, openCall };
  const hasEffects = last.parts.some(({ type }) => type === "tool");
  return { messageId: last.id, hasEffects, openCall };
}

function openCallIn(messages: SessionState["messages"]): string | undefined {
  const calls = messages.flatMap(({ parts }) => parts.filter((part) => part.type === "tool"));
  return calls.find(({ state }) => state === "input-available")?.toolName;
}
