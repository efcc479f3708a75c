/**
 * The agent's side of `step.promptAll()`: a batch of prompts is accepted in
 * chunks, each in one transaction, told of by one event, and read in pages. The
 * ledger's rows are the truth; a batch is only what they are found by.
 */

import type { Failure } from "../core/failures.ts";
import { count, readOptions } from "../core/option-schemas.ts";
import { PART_LENGTH } from "../core/text.ts";
import type { InstanceOf, WorkflowDestination } from "../outbox/types.ts";
import { InvalidSubmissionError, invalidSubmission } from "./errors.ts";
import { ISOLATED } from "./host.ts";
import { shortEndOf } from "./inspection.ts";
import { checkId } from "./intake/filters.ts";
import { type IntakeResult, type Repair, repair, resultOf, take } from "./intake/intake.ts";
import type { PromptRepair } from "./prompts.ts";
import { isTerminal } from "./states.ts";
import { type BatchState, endedEvent } from "./store/batches.ts";
import type { Submission } from "./store/rows.ts";
import type { Submissions } from "./submissions.ts";
import type { IntakeItem, TurnEngine } from "./turns/turn-engine.ts";
import type { PromptEnd, PromptMessage, PromptRequest, SubmitMessagesResult } from "./types.ts";

/** `errorName` of a prompt that was cancelled because the time of its batch was over. */
export const BATCH_TIMEOUT = "PromptBatchTimeoutError";
/** `errorName` of a prompt that was cancelled because another one of its batch had failed. */
const BATCH_FAILED = "PromptBatchFailedError";

const REASONS = {
  timeout: { name: BATCH_TIMEOUT, message: "Workflow prompt wait timed out" },
  failure: { name: BATCH_FAILED, message: "Another prompt of the batch has failed" },
} as const satisfies Record<string, Failure>;

/** Turns of a batch that run at a time. */
const CONCURRENCY = count({ max: 100 });

/** A chunk of a batch. */
export type PromptsRequest = Pick<
  PromptRequest,
  "run" | "workflow" | "answer" | "thread" | "budget" | "retry"
> & {
  /** Identifies the batch, in `[A-Za-z0-9_-]`. */
  readonly batch: string;
  /** How many of the batch may run at a time, from 1 to 100, where its turns are isolated. */
  readonly concurrency: number;
  readonly items: readonly {
    readonly idempotencyKey: string;
    /** The item's own key, for people. */
    readonly key: string;
    readonly messages: readonly PromptMessage[];
  }[];
};

export type PromptsReceipt = {
  /** In the order of the items. */
  readonly submissionIds: readonly string[];
};

/** Items of a batch whose answers the workflow refuses. */
export type PromptRepairs = Pick<PromptsRequest, "run" | "workflow"> & {
  /** The batch of what is asked once more, in `[A-Za-z0-9_-]`. */
  readonly batch: string;
  readonly items: readonly Pick<PromptRepair, "submissionId" | "error">[];
};

export type PromptRepairsReceipt = {
  /** In the order of the items; null for one that has no repair left. */
  readonly submissionIds: readonly (string | null)[];
};

/** What a workflow waits for. */
export type PromptsWait = {
  readonly batch: string;
  readonly workflow: { readonly name: string; readonly id: string };
  /** All of the batch, in the order of the items. */
  readonly submissionIds: readonly string[];
  /** The event that tells the workflow, of this wait alone (W3). */
  readonly eventType: string;
  /** Comes with the event, so that the workflow believes it (W3). */
  readonly proof?: string;
  /** Whether the first failure ends the wait, and cancels the rest. */
  readonly failsFast: boolean;
};

/** The wait is over, by the event or by time. */
export type PromptsExpiry = Pick<PromptsWait, "batch" | "submissionIds"> & {
  readonly because: keyof typeof REASONS;
  /** Whether what is open is cancelled; after a failure, only where there was one. */
  readonly cancel: boolean;
};

/** The first that has failed, in the order of the items. */
export type PromptsFailure = {
  readonly index: number;
  /** Unset for one that has not ended. */
  readonly end?: PromptEnd;
};

export type PromptsState = {
  /** Whether there is nothing to wait for. */
  readonly isOver: boolean;
  readonly failure?: PromptsFailure;
};

/** How some of the asked have ended. */
export type PromptsPage = {
  /** In the order that was asked; those that have not ended, or are not known, are left out. */
  readonly ends: readonly PromptEnd[];
  /** How many of the asked it covers, from the first on; at least one. */
  readonly count: number;
};

type Chunk = IntakeItem[];

export class Batches {
  constructor(private readonly engine: TurnEngine) {}

  /**
   * Accepts a chunk, all or none; what is known is found (W1).
   *
   * @throws InvalidSubmissionError, BacklogFullError; nothing is stored then
   */
  async accept({ items, workflow, ...request }: PromptsRequest): Promise<PromptsReceipt> {
    await this.engine.ledger.lifecycle.ready();
    const { store, outbox } = this.engine.ledger;
    const problem = outbox.problemOf(destinationOf(workflow, "perdure"), "workflow");
    if (problem) throw new InvalidSubmissionError("workflow", problem);
    const { batch, concurrency, thread = ISOLATED, run, answer, budget, retry } = request;
    checkId("batch", batch);
    readOptions(CONCURRENCY, concurrency, "concurrency", invalidSubmission);
    const common = {
      run,
      thread,
      answer,
      batch: { id: batch, concurrency },
      ...(budget && { budget }),
      ...(retry && { retry }),
    };
    const all = store.transaction(() => {
      const chunk = items.map(({ idempotencyKey, key, messages }) => {
        const metadata = { workflow: { ...workflow, item: key } };
        const options = { ...common, idempotencyKey, metadata };
        const withIds = messages.map((said) => ({ ...said, id: said.id ?? crypto.randomUUID() }));
        return {
          taken: this.#taken(
            batch,
            take(this.engine.ledger, withIds, options, this.engine.current),
          ),
          options,
        };
      });
      this.#open(batch, workflow, chunk);
      return chunk;
    });
    await this.#begin(all);
    return { submissionIds: all.map(({ taken }) => taken.submission.submissionId) };
  }

  /** Shows the model why answers are refused, each in a submission of its own, or finds those; null where no repair is left (W4). */
  async repair({ batch, run, workflow, items }: PromptRepairs): Promise<PromptRepairsReceipt> {
    await this.engine.ledger.lifecycle.ready();
    checkId("batch", batch);
    const { store } = this.engine.ledger;
    const all = store.transaction(() => {
      const chunk = items.map(({ submissionId, error }) => {
        const old = store.find(submissionId);
        const taken = old && repair(this.engine.ledger, old, { batch, run, error });
        return taken && { taken: this.#taken(batch, taken), options: {} };
      });
      this.#open(batch, workflow, chunk.filter(Boolean) as Chunk);
      return chunk;
    });
    await this.#begin(all.filter(Boolean) as Chunk);
    return { submissionIds: all.map((one) => one?.taken.submission.submissionId ?? null) };
  }

  /** The same for a prompt that is in no batch; null where no repair is left. */
  async repairOne(submissionId: string, request: Repair): Promise<SubmitMessagesResult | null> {
    await this.engine.ledger.lifecycle.ready();
    const old = this.engine.ledger.store.find(submissionId);
    const taken = old && repair(this.engine.ledger, old, request);
    if (!taken) return null;
    await this.engine.begin([{ taken, options: {} }]);
    return resultOf(taken);
  }

  #open(batch: string, { name, id }: PromptsRequest["workflow"], chunk: Chunk): void {
    const isOpen = chunk.some(({ taken }) => !isTerminal(taken.submission.status));
    if (isOpen) this.engine.ledger.store.batches.begin(batch, { workflow: name, instance: id });
  }

  async #begin(chunk: Chunk): Promise<void> {
    // A batch that has lost its last open one to this one is told; mostly there is nothing to send.
    if (chunk.some(({ taken }) => !taken.accepted)) this.engine.settlement.flush();
    await this.engine.begin(chunk);
  }

  #taken(batch: string, taken: IntakeResult): IntakeResult {
    const { submission, accepted } = taken;
    if (accepted) return taken;
    if (!isTerminal(submission.status) && submission.batch !== batch)
      this.#adopt(batch, submission);
    // Without what may be large: a chunk of answers is more than an isolate can hold.
    return { ...taken, submission: { ...submission, messages: [], output: undefined } };
  }

  /** Begun by a batch of other items, it is waited for by this one. Whoever waits for that one does not hang (W2). */
  #adopt(batch: string, submission: Submission): void {
    const { store, outbox, clock } = this.engine.ledger;
    store.batches.adopt(batch, submission);
    const left = submission.batch;
    const waiting = left === undefined ? undefined : store.batches.forget(left);
    if (waiting) outbox.enqueue(crypto.randomUUID(), waiting, endedEvent(left, clock.now()));
  }

  /** Has the workflow told by one event, unless there is nothing to wait for (O1). */
  async wait({ batch, workflow, submissionIds, ...wait }: PromptsWait): Promise<PromptsState> {
    await this.engine.ledger.lifecycle.ready();
    const { store } = this.engine.ledger;
    const to = destinationOf(workflow, wait.eventType, wait.proof);
    const failure = wait.failsFast ? this.#firstFailure(submissionIds) : undefined;
    if (failure) this.#cancel(batch, REASONS.failure);
    const isAwaited =
      !failure && store.transaction(() => store.batches.wait(batch, to, wait.failsFast));
    return { isOver: !isAwaited, ...(failure && { failure }) };
  }

  /** The wait is over. What has ended stands (W2); of the rest the first in order has failed. */
  async expire({ batch, submissionIds, because, cancel }: PromptsExpiry): Promise<PromptsState> {
    await this.engine.ledger.lifecycle.ready();
    const { batches } = this.engine.ledger.store;
    const isTimeout = because === "timeout";
    const hasFailed = isTimeout || this.#firstFailure(submissionIds) !== undefined;
    if (hasFailed && cancel) this.#cancel(batch, REASONS[because]);
    else if (hasFailed) batches.unwait(batch);
    const failure = hasFailed ? this.#firstFailure(submissionIds, isTimeout) : undefined;
    return { isOver: !batches.isOpen(batch), ...(failure && { failure }) };
  }

  /** Ends from the first of the asked on, as many as the result of a step can hold. */
  async read(submissionIds: readonly string[]): Promise<PromptsPage> {
    await this.engine.ledger.lifecycle.ready();
    const ends: PromptEnd[] = [];
    let length = 0;
    for (const submission of this.engine.ledger.store.batches.each(submissionIds)) {
      if (!isTerminal(submission.status)) continue;
      const end = shortEndOf(submission);
      length += JSON.stringify(end).length;
      if (ends.length > 0 && length > PART_LENGTH) {
        return { ends, count: submissionIds.indexOf(submission.submissionId) };
      }
      ends.push(end);
    }
    return { ends, count: submissionIds.length };
  }

  /** The workflow cannot take these answers: they stand for its run, and for no later one (W1, W4). */
  async refuse(submissionIds: readonly string[]): Promise<void> {
    await this.engine.ledger.lifecycle.ready();
    this.engine.ledger.store.refuse(submissionIds);
  }

  /** Cancels what is open in the batches of a workflow instance (W5). */
  cancelFor(of: InstanceOf, failure: Failure): void {
    for (const batch of this.engine.ledger.store.batches.forWorkflow(of))
      this.#cancel(batch, failure);
  }

  /** First those that wait, so that none of them runs in the place of one that ran. */
  #cancel(batch: string, failure: Failure): void {
    const { batches } = this.engine.ledger.store;
    // Nobody waits any more. The row stays until the last one has ended: a crash in between leaves it to be found.
    batches.unwait(batch);
    while (this.engine.settlement.abortWaiting(batch, failure) > 0);
    for (const running of batches.running(batch)) this.engine.cancel(running, failure);
    batches.forget(batch);
  }

  /**
   * Those that were cancelled because of another's failure are not the first,
   * unless there is no other one.
   *
   * @param isOpenFailed whether one that is open counts
   */
  #firstFailure(
    submissionIds: readonly string[],
    isOpenFailed = false,
  ): PromptsFailure | undefined {
    const { store } = this.engine.ledger;
    const hasFailed = ({ status }: BatchState) =>
      isTerminal(status) ? status !== "completed" : isOpenFailed;
    const failed = store.batches.states(submissionIds).filter(hasFailed);
    const first = failed.find(({ errorName }) => errorName !== BATCH_FAILED) ?? failed[0];
    if (!first) return undefined;
    const row = isTerminal(first.status) ? store.find(first.submissionId) : undefined;
    return {
      index: submissionIds.indexOf(first.submissionId),
      ...(row && { end: shortEndOf(row) }),
    };
  }
}

function destinationOf(
  { name: workflow, id: instance }: PromptsWait["workflow"],
  eventType: string,
  proof?: string,
): WorkflowDestination {
  return {
    kind: "workflow",
    workflow,
    instance,
    eventType,
    ...(proof !== undefined && { proof }),
  };
}

/** Accepts a chunk of a batch, all or none; what is known is found (W1). */
export function acceptPrompts(
  ledger: Submissions,
  request: PromptsRequest,
): Promise<PromptsReceipt> {
  return ledger.batches.accept(request);
}

/** Shows the model why answers of a batch are refused; null in the place of one that has no repair left (W4). */
export function repairPrompts(
  ledger: Submissions,
  repairs: PromptRepairs,
): Promise<PromptRepairsReceipt> {
  return ledger.batches.repair(repairs);
}

/** Has the workflow told by one event when nothing of the batch is open, unless nothing is now (O1, W3). */
export function awaitPrompts(ledger: Submissions, wait: PromptsWait): Promise<PromptsState> {
  return ledger.batches.wait(wait);
}

/** The wait for a batch is over: what has ended stands (W2), and the rest is cancelled, if asked for. */
export function expirePrompts(ledger: Submissions, expiry: PromptsExpiry): Promise<PromptsState> {
  return ledger.batches.expire(expiry);
}

/** The workflow cannot take these answers, of a batch or not: a later run of it asks afresh (W1, W4). */
export function refusePrompts(
  ledger: Submissions,
  submissionIds: readonly string[],
): Promise<void> {
  return ledger.batches.refuse(submissionIds);
}

/** How prompts of a batch have ended, as many as the result of a step can hold (O4). */
export function readPrompts(
  ledger: Submissions,
  submissionIds: readonly string[],
): Promise<PromptsPage> {
  return ledger.batches.read(submissionIds);
}
