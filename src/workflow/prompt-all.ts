/**
 * `step.promptAll()`: many prompts as a batch. Submitted in chunks, waited for by one event, read in pages: each chunk and page
 * is a step of the platform that its limits have room for, so that the steps are few, however many items there are.
 */

import { preview } from "../core/json.ts";
import type { AnySchema } from "../core/schema/schema.ts";
import type { PromptEnd, SubmissionEnd } from "../submissions/types.ts";
import {
  namingStep,
  ThinkPromptError,
  ThinkPromptNotFoundError,
  ThinkPromptTimeoutError,
  ThinkPromptValidationError,
} from "./errors.ts";
import {
  batchEventType,
  batchId,
  batchItemKeys,
  batchProof,
  batchStepName,
  repairBatchId,
} from "./names.ts";
import { answerOf, refusalOf, wholeEnd } from "./prompt.ts";
import {
  type AnyOptions,
  type CheckedBatch,
  checkedBatch,
  type PromptAllOptions,
  type PromptAllResults,
  type PromptAllSettled,
} from "./prompt-options.ts";
import { type CallOf, durably, plain, type StepCall, useName } from "./step-call.ts";
import { refuseWait, waitForEnd } from "./wait.ts";
import type {
  BATCH_TIMEOUT,
  BatchEnd,
  BatchFailure,
  BatchItem,
  BatchPage,
  BatchReceipt,
  BatchRef,
  BatchRepairs,
  BatchRequest,
} from "./waits/kinds/batch.ts";

/** A chunk has so many items at most, and so many UTF-16 units of JSON, unless one item alone has more. */
const CHUNK_ITEMS = 100;
const CHUNK_LENGTH = 512 * 1024;
/** Items that a page of results is asked for; it covers as many as its step can hold. */
const PAGE_ITEMS = 1_000;
const TIMED_OUT: typeof BATCH_TIMEOUT = "PromptBatchTimeoutError";

export interface PromptAllSteps {
  /**
   * Asks the agent about each of many items, some at a time, and waits for all the answers, which come in the order of
   * the items. Idempotent per workflow, instance, step name and the item's key. Up to 10,000 items; a thousand small
   * ones take about 15 steps of the platform. Uses of one name at the same time need different keys.
   *
   * With `onError: "return"` it throws none of the errors below, and returns them as values.
   *
   * @throws ThinkPromptTimeoutError when not all answers came within `timeout`
   * @throws ThinkPromptAbortedError when a submission was cancelled
   * @throws ThinkPromptSkippedError when the agent's turns were reset first
   * @throws ThinkPromptValidationError when an answer does not match `output`
   * @throws ThinkPromptError when a turn failed; like the others with `index` and `key` of its item
   */
  promptAll<
    Item,
    Schema extends AnySchema | undefined = undefined,
    OnError extends "throw" | "return" = "throw",
  >(
    name: string,
    items: readonly Item[],
    options: PromptAllOptions<Item, Schema, OnError>,
  ): Promise<PromptAllResults<Schema, OnError>>;
}

export const STEPS = {
  promptAll:
    (callOf: CallOf): PromptAllSteps["promptAll"] =>
    async (name, items, options) =>
      runPromptAll(callOf(name), items, options),
};

/** Asks about all items, and returns what came of them in their order, or throws the first failure. */
async function runPromptAll<
  Item,
  Schema extends AnySchema | undefined,
  OnError extends "throw" | "return",
>(
  call: StepCall,
  items: readonly Item[],
  options: PromptAllOptions<Item, Schema, OnError>,
): Promise<PromptAllResults<Schema, OnError>> {
  const { name } = call;
  // The types of the items and of the answers are those of the caller alone.
  const checked = checkedBatch(name, items, options as unknown as AnyOptions);
  const { keys, failsFast } = checked;
  if (keys.length === 0) return [] as PromptAllResults<Schema, OnError>;
  const identity = { ...call, stepName: name, keys };
  useName(call, "promptAll", undefined, keys);
  const batch = batchId(identity);
  const idempotencyKeys = batchItemKeys(identity);
  const prompts: Prompts = { ...call, ...checked, batch, idempotencyKeys, outcomes: [] };
  const submissionIds = (await submitChunks(prompts, batch, keys.length, (first) =>
    chunkFrom(prompts, first),
  )) as string[];
  const startedAt = await settle(prompts, { batch, submissionIds, indexes: [...keys.keys()] });
  await repair(prompts, startedAt);
  await refuse(prompts);
  const { outcomes } = prompts;
  if (!failsFast) return outcomes.map(settled) as PromptAllResults<Schema, OnError>;
  const failed = outcomes.find((outcome) => "error" in outcome);
  if (failed && "error" in failed) throw failed.error;
  return outcomes.map((outcome) => "value" in outcome && outcome.value) as never;
}

type Prompts = StepCall &
  CheckedBatch & {
    readonly batch: string;
    readonly idempotencyKeys: readonly string[];
    readonly outcomes: Outcome[];
  };

type Outcome = {
  readonly key: string;
  /** Submissions whose answers the schema has refused, the latest last. */
  readonly refused: readonly string[];
  /** The problem of the latest refused answer, if the item failed with it. */
  readonly problem?: string | undefined;
} & ({ readonly value: unknown } | { readonly error: unknown });

/** Items that are waited for together: all of the batch, or those that are repaired. */
type Round = {
  readonly batch: string;
  readonly submissionIds: readonly string[];
  readonly indexes: readonly number[];
  /** Of repairs: when the first wait began. The time is that of all rounds together. */
  readonly again?: { readonly startedAt: number };
};

/**
 * Waits for the items, and reads what came of them.
 *
 * @returns when the wait began
 * @throws the first failure where that ends the batch
 */
async function settle(prompts: Prompts, round: Round): Promise<number> {
  const { failure, at } = await wait(prompts, round);
  if (failure && prompts.failsFast) throw await thrown(prompts, round, failure);
  await read(prompts, round);
  return at;
}

/** Shows the model what the schema refuses of its answers, as often as `repair` says. */
async function repair(prompts: Prompts, startedAt: number): Promise<void> {
  const { outcomes } = prompts;
  const { repair: most = 0 } = prompts.request.answer;
  for (let round = 1; round <= most; round++) {
    const wrong = [...outcomes.keys()].filter((index) => outcomes[index]?.problem !== undefined);
    if (wrong.length === 0) return;
    const batch = repairBatchId(prompts.batch, round);
    // Null for an item that has no repair left, because the model has used them itself.
    const repaired = await submitChunks(prompts, batch, wrong.length, (first) => ({
      refused: wrong.slice(first, first + CHUNK_ITEMS).map((index) => {
        const { refused = [], problem = "" } = outcomes[index] ?? {};
        return { submissionId: refused.at(-1) ?? "", problem };
      }),
    }));
    const indexes = wrong.filter((_, position) => repaired[position]);
    if (indexes.length === 0) return;
    const submissionIds = repaired.filter((id) => id !== null);
    await settle(prompts, { batch, indexes, submissionIds, again: { startedAt } });
  }
}

/** Submits all items. Each chunk begins where the receipt of the one before says that it has ended. */
async function submitChunks(
  prompts: Prompts,
  batch: string,
  count: number,
  requestFrom: (first: number) => BatchRequest | BatchRepairs,
): Promise<(string | null)[]> {
  const { step, agent, name, workflowName, workflowId, timeoutMs } = prompts;
  const run = await prompts.run("batch");
  const workflow = { name: workflowName, id: workflowId, stepName: name };
  const asked = { kind: "batch", idempotencyKey: batch, run, workflow, timeoutMs } as const;
  const submissionIds: (string | null)[] = [];
  for (let chunk = 0; submissionIds.length < count; chunk++) {
    const request = () => requestFrom(submissionIds.length);
    const open = async () => {
      const opened = (await agent()).callKernel("openWait", { ...asked, request: request() });
      return { ...((await opened) as BatchReceipt), deployedAs: prompts.deployedAs };
    };
    const receipt = await durably(step, batchStepName(name, batch, `submit-${chunk}`), open);
    submissionIds.push(...receipt.submissionIds);
  }
  return submissionIds;
}

/** Made when it is sent: the prompts of all items may be more than the workflow can hold. */
function chunkFrom({ keys, idempotencyKeys, promptOf, request }: Prompts, first: number) {
  const items: BatchItem[] = [];
  let length = 0;
  for (const [position, key] of keys.slice(first, first + CHUNK_ITEMS).entries()) {
    const index = first + position;
    const messages = promptOf(index);
    length += JSON.stringify(messages).length;
    if (items.length > 0 && length > CHUNK_LENGTH) break;
    items.push({ idempotencyKey: idempotencyKeys[index] as string, key, messages });
  }
  return { ...request, items };
}

/** Waits until all have ended, or the first has failed where that is enough. Returns the first that has failed. */
async function wait(
  prompts: Prompts,
  { batch, submissionIds, again }: Round,
): Promise<{ failure?: BatchFailure | undefined; at: number }> {
  const { step, agent, failsFast, workflowName, workflowId, timeoutMs } = prompts;
  const run = await prompts.run("batch");
  const ref: BatchRef = {
    kind: "batch",
    waitId: batch,
    workflow: { name: workflowName, id: workflowId },
    submissionIds,
    eventType: batchEventType(batch, run),
    proof: batchProof(batch, run),
    failsFast,
  };
  const nameOf = (part: string) => batchStepName(prompts.name, batch, part);
  const check = async () =>
    (await agent()).callKernel("checkWait", ref) as Promise<BatchEnd | null>;
  const first = async () => ({ end: plain(await check()), at: Date.now() });
  const { end: known, at } = await durably(step, nameOf("check-0"), first);
  if (known) return { ...known, at };
  const time = { timeoutMs, closing: { status: "expired", result: null }, again } as const;
  // The first failure cancels the rest when the agent is asked.
  const endIn = async () => (failsFast && (await durably(step, nameOf("check"), check))) || {};
  const end = await waitForEnd<BatchEnd>(prompts, nameOf, { ...ref, at }, time, endIn);
  return { ...end, at };
}

/** Reads what came of the items, page by page, in their order. */
async function read(prompts: Prompts, { batch, submissionIds, indexes }: Round): Promise<void> {
  const { step, agent, name, outcomes } = prompts;
  for (let page = 0, first = 0; first < submissionIds.length; page++) {
    const asked = submissionIds.slice(first, first + PAGE_ITEMS);
    const ref = { kind: "batch", waitId: batch, submissionIds: asked } as const;
    const pageOf = async () => (await agent()).callKernel("readWait", ref, 0);
    const found = await durably(step, batchStepName(name, batch, `results-${page}`), pageOf);
    const { ends, count } = found as BatchPage;
    const byId = new Map(ends.map((end) => [end.submissionId, end]));
    for (const [position, submissionId] of asked.slice(0, count).entries()) {
      const index = indexes[first + position] as number;
      const item = { batch, submissionId, index, end: byId.get(submissionId) };
      outcomes[index] = await outcomeOf(prompts, item);
    }
    first += count;
  }
}

/** A restart asks afresh what the schema itself did not take in the end. */
async function refuse(prompts: Prompts): Promise<void> {
  const { name, batch, outcomes } = prompts;
  const wrong = outcomes.filter(
    (outcome) => "error" in outcome && outcome.error instanceof ThinkPromptValidationError,
  );
  const refused = wrong.flatMap((outcome) => outcome.refused);
  if (refused.length === 0) return;
  await refuseWait(prompts, batchStepName(name, batch, "refuse"), "batch", refused);
}

function settled(outcome: Outcome): PromptAllSettled<unknown> {
  const { key } = outcome;
  if ("value" in outcome) return { status: "fulfilled", value: outcome.value, key };
  const { error } = outcome;
  if (!(error instanceof ThinkPromptError)) throw error;
  const { name, message, submissionId } = error;
  return { status: "rejected", reason: { name, message, submissionId }, key };
}

async function thrown(
  prompts: Prompts,
  { batch, submissionIds, indexes }: Round,
  failure: BatchFailure,
): Promise<unknown> {
  const submissionId = submissionIds[failure.index] as string;
  const index = indexes[failure.index] as number;
  const { end } = failure;
  // One that had not ended when the time was over.
  if (!end) return ofItem(timeoutOf(prompts, submissionId), prompts, index);
  const outcome = await outcomeOf(prompts, { batch, submissionId, index, end });
  return "error" in outcome ? outcome.error : new Error(`Item ${index} has not failed`);
}

function timeoutOf({ timeoutMs }: Prompts, submissionId: string): ThinkPromptTimeoutError {
  return new ThinkPromptTimeoutError(submissionId, undefined, timeoutMs);
}

function ofItem(error: unknown, { keys, name }: Prompts, index: number): unknown {
  const key = keys[index];
  const step = `step.promptAll(${preview(name)}), item ${index} (key ${preview(key)})`;
  const named = namingStep(error, name, step);
  return named instanceof ThinkPromptError ? Object.assign(named, { index, key }) : named;
}

type EndedItem = {
  readonly batch: string;
  readonly submissionId: string;
  readonly index: number;
  readonly end: PromptEnd | undefined;
};

/** The outcome of an item: its answer, or a ThinkPromptError that names the item. */
async function outcomeOf(prompts: Prompts, item: EndedItem): Promise<Outcome> {
  const { index, submissionId } = item;
  const key = prompts.keys[index] as string;
  const { refused = [] } = prompts.outcomes[index] ?? {};
  let status: PromptEnd["status"] = "error";
  try {
    const whole = await wholeOf(prompts, item);
    status = whole.status;
    return { key, refused, value: (await answerOf(whole, prompts.schema)).output };
  } catch (caught) {
    const problem = refusalOf({ status }, caught);
    const error = ofItem(caught, prompts, index);
    return problem === undefined
      ? { key, refused, error }
      : { key, refused: [...refused, submissionId], problem, error };
  }
}

async function wholeOf(
  prompts: Prompts,
  { batch, submissionId, index, end }: EndedItem,
): Promise<SubmissionEnd> {
  if (!end) {
    throw new ThinkPromptNotFoundError(
      submissionId,
      "The agent's ledger has no end of it: it was deleted, or another use of the name asks it. " +
        "Keep submissions until their workflows have ended, and give each use other keys.",
    );
  }
  const nameOf = (part: string) => batchStepName(prompts.name, batch, `item-${index}-${part}`);
  const whole = await wholeEnd(prompts, nameOf, end);
  if (whole.errorName === TIMED_OUT) throw timeoutOf(prompts, submissionId);
  return whole;
}
