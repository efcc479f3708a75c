/** The options of `step.promptAll()`. */

import * as z from "zod";
import type { Duration } from "../core/duration.ts";
import { preview } from "../core/json.ts";
import { count, hook, list, oneOf, optionsOf, text } from "../core/option-schemas.ts";
import type { AnySchema } from "../core/schema.ts";
import type { PromptMessage } from "../waits/kinds/prompt.ts";
import { type Refuse, readStep, refusalOf } from "./options.ts";
import type { AnswerOf } from "./prompt-answer.ts";
import { ASKED, messagesOf, type PromptSettings, SETTINGS, settingsOf } from "./prompt-options.ts";

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
   * Tells the items apart, over restarts and changes of their order: an
   * item whose key was answered before is not asked again.
   * @default the index as a text
   */
  key?: (item: Item, index: number) => string;
  /**
   * How many isolated turns of these run at a time, from 1 to 100; never more than
   * the agent's `maxConcurrentTurns`. In any other thread it is one.
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
  timeout?: Duration;
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

const MAX_ITEMS = 10_000;

const PROMPT_ALL = optionsOf<AnyOptions>()({
  prompt: hook(),
  key: hook().optional(),
  concurrency: count({ max: 100 }).default(4),
  onError: oneOf(["throw", "return"]).default("throw"),
  ...SETTINGS,
});

/** A batch as it can be submitted. */
export type CheckedBatch = ReturnType<typeof checkedBatch>;

/** @throws NonRetryableError for an invalid option, item or key */
export function checkedBatch(name: string, items: readonly unknown[], options: AnyOptions) {
  const refuse = refusalOf("promptAll", name);
  readStep(list(z.unknown(), { max: MAX_ITEMS }), items, refuse, "items");
  const read = readStep(PROMPT_ALL, options, refuse);
  const { prompt, key = (_, index) => String(index), concurrency, onError } = read;
  const promptOf = (index: number) =>
    messagesOf(readStep(ASKED, prompt(items[index], index), refuse, `prompt of item ${index}`));
  for (const index of items.keys()) promptOf(index);
  return {
    request: { ...settingsOf(read, refuse), concurrency },
    timeoutMs: read.timeout,
    failsFast: onError === "throw",
    schema: options.output,
    keys: checkedKeys(
      items.map((item, index) => key(item, index)),
      refuse,
    ),
    promptOf,
  };
}

function checkedKeys(keys: readonly string[], refuse: Refuse): readonly string[] {
  const indexes = new Map<string, number>();
  for (const [index, key] of keys.entries()) {
    readStep(text({ empty: true }), key, refuse, `key of item ${index}`);
    const first = indexes.get(key);
    if (first !== undefined) {
      const both = `key ${preview(key)} of the items ${first} and ${index}`;
      throw refuse(`Invalid ${both}: expected a different key for each item.`);
    }
    indexes.set(key, index);
  }
  return keys;
}
