/**
 * The kind `batch`, for `step.promptAll()`: prompts that are accepted in chunks, each chunk in one transaction. One event reports
 * the end of the batch, and the results are read in pages. A batch has a row in the ledger's `perdure_batches` while
 * anything of it is open. Its items are prompts: their large answers are read, and their answers refused, as those of the
 * kind `prompt`.
 */

import * as z from "zod";
import type { Failure } from "../../../core/failures.ts";
import { count, flag, list, readOptions, text } from "../../../core/options/option-schemas.ts";
import { PART_LENGTH } from "../../../core/text.ts";
import { InvalidSubmissionError, invalidSubmission } from "../../../submissions/errors.ts";
import { shortEndOf } from "../../../submissions/inspection.ts";
import type { Asked } from "../../../submissions/intake/intake.ts";
import { checkId } from "../../../submissions/intake/request.ts";
import { isTerminal } from "../../../submissions/states.ts";
import { type BatchState, endedEvent } from "../../../submissions/store/batches.ts";
import type { Submissions } from "../../../submissions/submissions.ts";
import type { OwnerOptions } from "../../../submissions/submit-options.ts";
import { ISOLATED } from "../../../submissions/threads.ts";
import type { IntakeResult } from "../../../submissions/turns/turn-engine.ts";
import type { PromptEnd } from "../../../submissions/types.ts";
import type { WaitKind, WaitRef, WaitRequest, WaitWorkflow } from "../protocol.ts";
import { destinationOf } from "../reports.ts";
import type { KindUses } from "../waits.ts";
import {
  type AnswerProblem,
  type PromptMessage,
  type PromptRequest,
  withIds,
  withOwner,
} from "./prompt.ts";

/** `errorName` of a prompt that was cancelled at the timeout of its batch. */
export const BATCH_TIMEOUT = "PromptBatchTimeoutError";
/** `errorName` of a prompt that was cancelled because another one of its batch had failed. */
const BATCH_FAILED = "PromptBatchFailedError";

const MAX_CONCURRENCY = 100;
const CONCURRENCY = count({ max: MAX_CONCURRENCY });
const error = "expected an object";
const ITEMS = list(z.looseObject({ idempotencyKey: text(), key: text() }, { error }));
const REFUSED = list(z.looseObject({ submissionId: text(), problem: text() }, { error }));
const IDS = list(text());
const REPORT = z.looseObject({
  workflow: z.looseObject({ name: text(), id: text() }, { error }),
  eventType: text(),
  proof: text().optional(),
  failsFast: flag(),
});

/** A chunk of a batch. The request's `idempotencyKey` names the batch, in `[A-Za-z0-9_-]`. */
export type BatchRequest = Omit<PromptRequest, "messages" | "thinkKey" | "concurrency"> & {
  /**
   * How many of the batch may run at a time, from 1 to 100, where its turns are isolated; or the key that they share with
   * other submissions.
   */
  readonly concurrency: number | NonNullable<PromptRequest["concurrency"]>;
  readonly items: readonly BatchItem[];
};

export type BatchItem = {
  readonly idempotencyKey: string;
  /** The item's own key, for people. */
  readonly key: string;
  readonly messages: readonly PromptMessage[];
};

/** Items of an earlier batch whose answers the workflow refuses. */
export type BatchRepairs = {
  readonly refused: readonly ({ readonly submissionId: string } & AnswerProblem)[];
};

export type BatchReceipt = {
  /** In the order of the items; null for one that has no repair left. */
  readonly submissionIds: readonly (string | null)[];
};

type BatchPart = WaitRef & {
  /** In the order of the items: all of the batch, or those that are read. */
  readonly submissionIds: readonly string[];
};

export type BatchRef = BatchPart & {
  readonly workflow: Pick<WaitWorkflow, "name" | "id">;
  /** The event that reports the end to this run of the workflow, and its proof. */
  readonly eventType: string;
  readonly proof?: string;
  /** Whether the first failure ends the wait, and cancels the rest. */
  readonly failsFast: boolean;
};

/** The first item that has failed, in the order of the items. */
export type BatchFailure = {
  readonly index: number;
  /** Unset for one that has not ended. */
  readonly end?: PromptEnd;
};

/** There is nothing more to wait for. */
export type BatchEnd = { readonly failure?: BatchFailure };

export type BatchPage = {
  /** In the order that was asked, without those that have not ended, or were deleted. */
  readonly ends: readonly PromptEnd[];
  /** How many of the asked it covers, from the first on; at least one. */
  readonly count: number;
};

export class BatchKind implements WaitKind {
  constructor(
    private readonly submissions: Submissions,
    private readonly ownerOfRun: KindUses["ownerOfRun"],
  ) {}

  get #store() {
    return this.submissions.store;
  }

  /**
   * Accepts a chunk, all or none, or finds what was accepted before; or shows the model why answers are refused, each in a
   * submission of its own.
   *
   * @throws InvalidSubmissionError, BacklogFullError; nothing is stored then
   */
  async open(asked: WaitRequest<BatchRequest | BatchRepairs>): Promise<BatchReceipt> {
    const { idempotencyKey: batch, run, workflow, request } = asked;
    await this.submissions.ready();
    checkId("batch", batch);
    const items: Asked[] =
      "refused" in request
        ? readOptions(REFUSED, request.refused, "refused", invalidSubmission).map(
            ({ submissionId, problem }) => ({
              submissionId,
              repair: { batch, run, error: problem },
            }),
          )
        : this.#items(request, asked, asked.owner ?? (await this.ownerOfRun(workflow)));
    const all = await this.submissions.accept(items, (chunk) => {
      const taken = chunk.filter((one) => one !== undefined);
      for (const { submission, accepted } of taken) if (!accepted) this.#adopt(batch, submission);
      const isOpen = taken.some(({ submission }) => !isTerminal(submission.status));
      const of = { workflow: workflow.name, instance: workflow.id };
      if (isOpen) this.#store.batches.add(batch, of);
    });
    // An earlier batch may have lost its last open item to this one, and its workflow is notified.
    if (all.some((taken) => taken?.accepted === false)) this.submissions.turns.flush();
    return { submissionIds: all.map((taken) => taken?.submission.submissionId ?? null) };
  }

  #items(
    { items, concurrency, thread = ISOLATED, ...settings }: BatchRequest,
    { idempotencyKey: id, run, workflow }: WaitRequest,
    owner: OwnerOptions,
  ): Asked[] {
    const problem = this.submissions.outbox.problemOf(
      destinationOf(workflow, "perdure"),
      "workflow",
    );
    if (problem) throw new InvalidSubmissionError("workflow", problem);
    const shared =
      typeof concurrency === "object" && concurrency !== null && "key" in concurrency
        ? concurrency
        : undefined;
    const most = shared
      ? Math.min(shared.limit, MAX_CONCURRENCY)
      : readOptions(CONCURRENCY, concurrency, "concurrency", invalidSubmission);
    readOptions(ITEMS, items, "items", invalidSubmission);
    const batch = { run, thread, batch: { id, concurrency: most } };
    const own = { ...settings, ...(shared && { concurrency: shared }) };
    return items.map(({ idempotencyKey, key, messages }) => {
      const options = withOwner(own, owner, { ...workflow, item: key });
      return { messages: withIds(messages), options: { ...options, ...batch, idempotencyKey } };
    });
  }

  /** A known item that another batch began is waited for by this batch, and no longer by that one. */
  #adopt(batch: string, submission: IntakeResult["submission"]): void {
    const { batch: earlier, status } = submission;
    if (isTerminal(status) || earlier === batch) return;
    this.#store.batches.adopt(batch, submission);
    const waiting = earlier === undefined ? undefined : this.#store.batches.forget(earlier);
    const { outbox, loop } = this.submissions;
    if (waiting)
      outbox.enqueue(crypto.randomUUID(), waiting, endedEvent(earlier, loop.clock.now()));
  }

  /** The end, if there is nothing to wait for. If not, one event is sent when there is: it commits with the last end, or the first failure. */
  async check(wait: BatchRef): Promise<BatchEnd | null> {
    readOptions(IDS, wait.submissionIds, "submissionIds", invalidSubmission);
    readOptions(REPORT, wait, "wait of a batch", invalidSubmission);
    await this.submissions.ready();
    const { waitId: batch, workflow, submissionIds, failsFast } = wait;
    const to = destinationOf(workflow, wait.eventType, wait.proof);
    const failure = failsFast ? this.#firstFailure(submissionIds) : undefined;
    if (failure) {
      const message = "Another prompt of the batch has failed";
      this.submissions.turns.cancelBatch(batch, { name: BATCH_FAILED, message });
      return { failure };
    }
    const { batches } = this.#store;
    const isOpen = this.#store.transaction(() => batches.wait(batch, to, failsFast));
    return isOpen ? null : {};
  }

  /** Ends of the given items, from the first on, as many as the result of a step can hold. */
  async read({ submissionIds }: BatchPart): Promise<BatchPage> {
    readOptions(IDS, submissionIds, "submissionIds", invalidSubmission);
    await this.submissions.ready();
    const ends: PromptEnd[] = [];
    let length = 0;
    for (const submission of this.#store.batches.each(submissionIds)) {
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

  async refuse(submissionIds: readonly string[]): Promise<void> {
    await this.submissions.ready();
    this.#store.refuse(submissionIds);
  }

  /** Cancels what is open. The first item without an answer has failed, also one that a later batch waits for now. */
  async close({ waitId: batch, submissionIds }: BatchPart): Promise<BatchEnd> {
    readOptions(IDS, submissionIds, "submissionIds", invalidSubmission);
    await this.submissions.ready();
    const failure: Failure = { name: BATCH_TIMEOUT, message: "Workflow prompt wait timed out" };
    this.submissions.turns.cancelBatch(batch, failure);
    const first = this.#firstFailure(submissionIds, true);
    return first ? { failure: first } : {};
  }

  /** One that was cancelled because another one failed is the first only if there is no other. */
  #firstFailure(submissionIds: readonly string[], isOpenFailed = false): BatchFailure | undefined {
    const hasFailed = ({ status }: BatchState) =>
      isTerminal(status) ? status !== "completed" : isOpenFailed;
    const failed = this.#store.batches.states(submissionIds).filter(hasFailed);
    const first = failed.find(({ errorName }) => errorName !== BATCH_FAILED) ?? failed[0];
    if (!first) return undefined;
    const row = isTerminal(first.status) ? this.#store.find(first.submissionId) : undefined;
    const index = submissionIds.indexOf(first.submissionId);
    return { index, ...(row && { end: shortEndOf(row) }) };
  }
}

export const KINDS = {
  batch: ({ submissions, ownerOfRun }: Pick<KindUses, "submissions" | "ownerOfRun">) =>
    new BatchKind(submissions, ownerOfRun),
};
