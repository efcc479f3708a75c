/**
 * `step.promptAll()`: many prompts as a batch. Submitted in chunks, waited for
 * by one event, read in pages, each of them a step of the platform that its
 * limits have room for: the steps are as many as the chunks and pages, and not
 * as the items.
 */

import { shown } from "../../core/json.ts";
import type { AnySchema } from "../../core/schema.ts";
import type {
  BATCH_TIMEOUT,
  PromptsExpiry,
  PromptsFailure,
  PromptsPage,
  PromptsReceipt,
  PromptsRequest,
  PromptsState,
  PromptsWait,
} from "../../submissions/prompt-batches.ts";
import type { AnswerPart, PromptEnd } from "../../submissions/types.ts";
import { batchEventType, batchId, batchItemKeys, batchProof, batchStepName } from "../names.ts";
import { durably, type StepCall } from "../step-call.ts";
import { eventOrEnd, timed } from "../wait.ts";
import { answerOf, isRefusedAnswer, wholeEnd } from "./answer.ts";
import {
  namingStep,
  ThinkPromptError,
  ThinkPromptNotFoundError,
  ThinkPromptTimeoutError,
} from "./errors.ts";
import {
  type AnyOptions,
  type CheckedBatch,
  checkedBatch,
  type PromptAllOptions,
  type PromptAllResults,
  type PromptAllSettled,
} from "./prompt-all-options.ts";

/** What an agent offers to `step.promptAll()`. */
export interface PromptBatchAgent {
  acceptPrompts(request: PromptsRequest): Promise<PromptsReceipt>;
  awaitPrompts(wait: PromptsWait): Promise<PromptsState>;
  expirePrompts(expiry: PromptsExpiry): Promise<PromptsState>;
  readPrompts(submissionIds: readonly string[]): Promise<PromptsPage>;
  readPrompt(submissionId: string, part: number): Promise<AnswerPart | null>;
  refusePrompts(submissionIds: readonly string[]): Promise<void>;
}

/** A chunk has so many items at most, and so many UTF-16 units of JSON, unless one item alone has more. */
const CHUNK_ITEMS = 100;
const CHUNK_LENGTH = 512 * 1024;
/** Items that a page of results is asked for; it covers as many as its step can hold. */
const PAGE_ITEMS = 1_000;
const TIMED_OUT: typeof BATCH_TIMEOUT = "PromptBatchTimeoutError";

/** Asks about all items, and returns what came of them in their order, or throws the first failure. */
export async function runPromptAll<
  Item,
  Schema extends AnySchema | undefined,
  OnError extends "throw" | "return",
>(
  call: StepCall<PromptBatchAgent>,
  items: readonly Item[],
  options: PromptAllOptions<Item, Schema, OnError>,
): Promise<PromptAllResults<Schema, OnError>> {
  const { name } = call;
  // The types of the items and of the answers are those of the caller alone.
  const checked = checkedBatch(name, items, options as unknown as AnyOptions);
  const { keys, failsFast } = checked;
  if (keys.length === 0) return [] as PromptAllResults<Schema, OnError>;
  const identity = { ...call, stepName: name, keys };
  call.used.use("promptAll", name, undefined, keys);
  const batch = await batchId(identity);
  const prompts: Prompts = {
    ...call,
    ...checked,
    batch,
    idempotencyKeys: await batchItemKeys(identity),
    named: (part) => batchStepName(name, batch, part),
    refused: [],
  };
  const submissionIds = await submit(prompts);
  const failure = await wait(prompts, submissionIds);
  if (failure && failsFast) throw await thrown(prompts, submissionIds, failure);
  try {
    return (await read(prompts, submissionIds)) as PromptAllResults<Schema, OnError>;
  } finally {
    await refuse(prompts);
  }
}

/** The batch, as its steps know it. */
type Prompts = StepCall<PromptBatchAgent> &
  CheckedBatch & {
    readonly batch: string;
    readonly idempotencyKeys: readonly string[];
    readonly named: (part: Parameters<typeof batchStepName>[2]) => string;
    /** Submissions whose answers the schema does not take, as far as they have been read. */
    readonly refused: string[];
  };

/** Hands over the items, chunk by chunk. Each begins where the one before it says that it has ended. */
async function submit(prompts: Prompts): Promise<string[]> {
  const { step, agent, batch, request, name, workflowName, workflowId, keys } = prompts;
  const common = {
    ...request,
    batch,
    run: await prompts.run(),
    workflow: { name: workflowName, id: workflowId, stepName: name },
  };
  const submissionIds: string[] = [];
  for (let chunk = 0; submissionIds.length < keys.length; chunk++) {
    const first = submissionIds.length;
    const receipt = await durably(step, prompts.named(`submit-${chunk}`), async () =>
      (await agent()).acceptPrompts({ ...common, items: chunkFrom(prompts, first) }),
    );
    submissionIds.push(...receipt.submissionIds);
  }
  return submissionIds;
}

/** Made when it is sent: the prompts of all items may be more than the workflow can hold. */
function chunkFrom(
  { keys, idempotencyKeys, promptOf }: Prompts,
  first: number,
): PromptsRequest["items"] {
  const chunk: PromptsRequest["items"][number][] = [];
  let length = 0;
  for (const [place, key] of keys.slice(first, first + CHUNK_ITEMS).entries()) {
    const index = first + place;
    const messages = promptOf(index);
    length += JSON.stringify(messages).length;
    if (chunk.length > 0 && length > CHUNK_LENGTH) break;
    chunk.push({ idempotencyKey: idempotencyKeys[index] as string, key, messages });
  }
  return chunk;
}

/** Waits until all have ended, or the first has failed where that is enough. Returns the first that has failed. */
async function wait(
  prompts: Prompts,
  submissionIds: readonly string[],
): Promise<PromptsFailure | undefined> {
  const { step, agent, batch, failsFast, timeoutMs, workflowName, workflowId, named } = prompts;
  const run = await prompts.run();
  const eventType = await batchEventType(batch, run);
  const proof = await batchProof(batch, run);
  const workflow = { name: workflowName, id: workflowId };
  const awaited = { batch, workflow, submissionIds, eventType, proof, failsFast };
  const stands = async () => (await agent()).awaitPrompts(awaited);
  const expire = async (because: PromptsExpiry["because"]) =>
    (await agent()).expirePrompts({ batch, submissionIds, because, cancel: true });
  const state = await durably(step, named("await"), () => timed(stands()));
  if (state.isOver) return state.failure;
  const found = await eventOrEnd<PromptsState>(
    step,
    async (part) => named(part),
    { type: eventType, proof, timeoutMs, startedAt: state.at },
    async (isOver) => {
      if (isOver) return expire("timeout");
      const now = await stands();
      return now.isOver ? now : null;
    },
  );
  if ("end" in found) return found.end?.failure;
  if (!failsFast) return undefined;
  return (await durably(step, named("expire"), () => expire("failure"))).failure;
}

/** Reads what came of the items, page by page, in their order. */
async function read(prompts: Prompts, submissionIds: readonly string[]): Promise<unknown[]> {
  const { step, agent, failsFast, keys } = prompts;
  const results: unknown[] = [];
  for (let page = 0; results.length < submissionIds.length; page++) {
    const asked = submissionIds.slice(results.length, results.length + PAGE_ITEMS);
    const { ends, count } = await durably(step, prompts.named(`results-${page}`), async () =>
      (await agent()).readPrompts(asked),
    );
    const byId = new Map(ends.map((end) => [end.submissionId, end]));
    for (const submissionId of asked.slice(0, count)) {
      const index = results.length;
      const item = { submissionId, index, end: byId.get(submissionId) };
      const answer = answerOfItem(prompts, item).catch((error) => {
        throw ofItem(error, prompts, index);
      });
      results.push(failsFast ? await answer : await settled(answer, keys[index] as string));
    }
  }
  return results;
}

/** A restart asks afresh what the schema itself did not take (W1, W4). */
async function refuse({ step, agent, named, refused }: Prompts): Promise<void> {
  if (refused.length === 0) return;
  await durably(step, named("refuse"), async () => (await agent()).refusePrompts(refused));
}

async function settled(answer: Promise<unknown>, key: string): Promise<PromptAllSettled<unknown>> {
  try {
    return { status: "fulfilled", value: await answer, key };
  } catch (error) {
    if (!(error instanceof ThinkPromptError)) throw error;
    const { name, message, submissionId } = error;
    return { status: "rejected", reason: { name, message, submissionId }, key };
  }
}

/** The error of the first item that has failed. */
async function thrown(
  prompts: Prompts,
  submissionIds: readonly string[],
  { index, end }: PromptsFailure,
): Promise<unknown> {
  const submissionId = submissionIds[index] as string;
  // One that had not ended when the time was over.
  if (!end)
    return ofItem(
      new ThinkPromptTimeoutError(submissionId, undefined, prompts.timeoutMs),
      prompts,
      index,
    );
  const answer = answerOfItem(prompts, { submissionId, index, end });
  return answer.catch((error) => ofItem(error, prompts, index));
}

/** An error that says which item it is about. */
function ofItem(error: unknown, { keys, name }: Prompts, index: number): unknown {
  const key = keys[index];
  const step = `step.promptAll(${shown(name)}), item ${index} (key ${shown(key)})`;
  const named = namingStep(error, name, step);
  return named instanceof ThinkPromptError ? Object.assign(named, { index, key }) : named;
}

type EndedItem = {
  readonly submissionId: string;
  readonly index: number;
  readonly end: PromptEnd | undefined;
};

/**
 * The answer of an item.
 *
 * @throws ThinkPromptError, or one of its kinds
 */
async function answerOfItem(
  prompts: Prompts,
  { submissionId, index, end }: EndedItem,
): Promise<unknown> {
  if (!end) {
    const what = "The agent's ledger has no end of it: it was deleted, or another use of the name";
    const how =
      "at the same time asks it, too. Keep submissions until their workflows have ended, and give each use other keys.";
    throw new ThinkPromptNotFoundError(submissionId, `${what} ${how}`);
  }
  const nameOf = async (part: `answer-${number}`) => prompts.named(`item-${index}-${part}`);
  const whole = await wholeEnd(prompts, nameOf, end);
  if (whole.errorName === TIMED_OUT)
    throw new ThinkPromptTimeoutError(submissionId, undefined, prompts.timeoutMs);
  try {
    return (await answerOf(whole, prompts.schema)).output;
  } catch (error) {
    if (isRefusedAnswer(whole, error)) prompts.refused.push(submissionId);
    throw error;
  }
}
