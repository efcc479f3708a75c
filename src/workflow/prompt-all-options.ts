/**
 * What `step.promptAll()` is told, and what is wrong with it. Everything is
 * looked at before anything is stored: neither a retry nor another run could
 * make it right.
 */

import { preview } from "../core/json.ts";
import type { AnySchema } from "../core/schema.ts";
import type { PromptMessage } from "../waits/kinds/prompt.ts";
import type { AnswerOf } from "./prompt-answer.ts";
import { checkedSettings, messagesOf, type PromptSettings } from "./prompt-options.ts";
import { checkText, invalidStep, type WaitTimeout } from "./step-call.ts";

export type PromptAllOptions<
  Item,
  Schema extends AnySchema | undefined,
  OnError extends "throw" | "return",
> = Omit<PromptSettings<Schema>, "thread" | "timeout"> & {
  /**
   * What the agent is asked about an item. It is called more than once, also
   * when the workflow is replayed, and has to give the same each time.
   */
  prompt: (item: Item, index: number) => string | readonly PromptMessage[];
  /**
   * Tells the items apart, over restarts and changes of their order (W1): an
   * item whose key was answered before is not asked again.
   * @default the index as a text
   */
  key?: (item: Item, index: number) => string;
  /**
   * How many isolated turns of these run at a time, from 1 to 100; never more than
   * the agent's `maxConcurrentTurns` (L4). In any other thread it is one.
   * @default 4
   */
  concurrency?: number;
  /**
   * - `"throw"`: the first failure cancels the rest and is thrown, with the
   *   item's `index` and `key`; of several, the first in the order of the items.
   * - `"return"`: all are waited for, and each is told of as
   *   {@link PromptAllSettled}.
   *
   * @default "throw"
   */
  onError?: OnError;
  /**
   * How long to wait for all of them, e.g. `"3 days"` or milliseconds, at most
   * 365 days. What has not ended by then is cancelled.
   * @default "24 hours"
   */
  timeout?: WaitTimeout;
  /**
   * The conversation that the turns are part of: `"isolated"`, none; `"main"`,
   * the agent's own, or a name: one after the other there, among its other turns.
   * @default "isolated"
   */
  thread?: NonNullable<PromptSettings<Schema>["thread"]>;
};

/** How one of the items has come out; plain data, so that it can be the result of a step. */
export type PromptAllSettled<Value> =
  | { status: "fulfilled"; value: Value; key: string }
  | {
      status: "rejected";
      /** The error that `step.prompt()` would have thrown. */
      reason: { name: string; message: string; submissionId: string };
      key: string;
    };

/** What {@link PromptAllOptions} make of the items, in their order. */
export type PromptAllResults<
  Schema extends AnySchema | undefined,
  OnError extends "throw" | "return",
> = OnError extends "return" ? PromptAllSettled<AnswerOf<Schema>>[] : AnswerOf<Schema>[];

/** The same options, where the types of one call do not matter. */
export type AnyOptions = PromptAllOptions<unknown, AnySchema | undefined, "throw" | "return">;

const KIND = "promptAll";
const NAMES = ["prompt", "key", "concurrency", "onError"];
const MAX_ITEMS = 10_000;
const MAX_CONCURRENCY = 100;
const DEFAULT_CONCURRENCY = 4;

/** A batch as it can be submitted. */
export type CheckedBatch = ReturnType<typeof checkedBatch>;

/** @throws NonRetryableError naming the option, what it is and what it has to be */
export function checkedBatch(name: string, items: readonly unknown[], options: AnyOptions) {
  const {
    prompt,
    key = (_, index) => String(index),
    concurrency = DEFAULT_CONCURRENCY,
    onError = "throw",
    ...settings
  } = options;
  if (!Array.isArray(items)) throw wrong(name, items, "items", "an array");
  if (items.length > MAX_ITEMS) {
    throw wrong(name, items.length, "the number of items", `at most ${MAX_ITEMS}: split them`);
  }
  if (typeof prompt !== "function") throw wrong(name, prompt, "prompt", "a function of an item");
  if (typeof key !== "function") throw wrong(name, key, "key", "a function of an item");
  if (!Number.isInteger(concurrency) || concurrency < 1 || concurrency > MAX_CONCURRENCY) {
    const expected = `a whole number from 1 to ${MAX_CONCURRENCY}`;
    throw wrong(name, concurrency, "concurrency", expected);
  }
  if (onError !== "throw" && onError !== "return") {
    throw wrong(name, onError, "onError", '"throw" or "return"');
  }
  const { request, timeoutMs } = checkedSettings(KIND, name, settings, NAMES);
  const promptOf = (index: number) =>
    messagesOf(KIND, name, prompt(items[index], index), `the prompt of item ${index}`);
  for (const index of items.keys()) promptOf(index);
  return {
    request: { ...request, concurrency },
    timeoutMs,
    failsFast: onError === "throw",
    schema: options.output,
    keys: checkedKeys(
      name,
      items.map((item, index) => key(item, index)),
    ),
    promptOf,
  };
}

function checkedKeys(name: string, keys: string[]): string[] {
  const places = new Map<unknown, number>();
  for (const [index, key] of keys.entries()) {
    if (key === undefined) throw wrong(name, key, `the key of item ${index}`, "a string");
    checkText(KIND, name, `the key of item ${index}`, key);
    const place = places.get(key);
    if (place !== undefined) {
      const both = `the key of the items ${place} and ${index}`;
      throw wrong(name, key, both, "a different one for each item");
    }
    places.set(key, index);
  }
  return keys;
}

function wrong(name: string, value: unknown, what: string, expected: string): Error {
  return invalidStep(KIND, name, `got ${preview(value)} as ${what}; expected ${expected}.`);
}
