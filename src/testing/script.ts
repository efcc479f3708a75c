/** The script of the scripted model: its fields and their validation. */

import { z } from "zod";
import {
  count,
  flag,
  oneOf,
  optionsOf,
  readOptions,
  text,
} from "../core/options/option-schemas.ts";
import { InvalidScriptError } from "./errors.ts";

/** A text that is repeated `times` times. Use it for texts that are too large for a script. */
export type LongText = { text: string; times: number };

/** The whole text. */
export function longText({ text, times }: LongText): string {
  return text.repeat(times);
}

export type ToolCall = { name: string; input: unknown };

const FINISH_REASONS = [
  ...(["stop", "tool-calls", "length", "content-filter"] as const),
  ...(["error", "interrupted", "other", "none"] as const),
];

/** What the scripted model does. Every field is optional; `{}` answers `"done"` at once. */
export type Script = {
  /** Makes a script unique, so that its calls are counted separately: `crypto.randomUUID()`. */
  id?: string;
  /**
   * The reply when no answer is requested.
   * @default "done"
   */
  text?: string;
  /** A text before everything else, also before a failure or a tool call. */
  first?: string;
  /**
   * How many calls begin with `first`.
   * @default all
   */
  firstTimes?: number;
  /**
   * The delay before the reply, in milliseconds.
   * @default 0
   */
  delayMs?: number;
  /**
   * The time between two words of `text`, in milliseconds, as a slow model writes.
   * @default all of it at once
   */
  wordMs?: number;

  /** The answer when an `output` is requested: by the final-answer tool, or as JSON. */
  answer?: unknown;
  /** One answer for each request. The last one is repeated. */
  answers?: unknown[];
  /** Fields of the answer that are long texts, for answers of megabytes. */
  long?: Record<string, LongText>;
  /**
   * How many final answers are broken JSON, cut off in the middle.
   * @default 0
   */
  brokenTimes?: number;
  /**
   * Reply `text` although tools or a final answer are offered.
   * @default false
   */
  ignoreTools?: boolean;

  /** Calls this tool first, once. */
  tool?: ToolCall;
  /** Calls these tools, one in each step; those of an inner list together in one step. */
  tools?: (ToolCall | ToolCall[])[];
  /**
   * Calls the tools although they are not offered, as models sometimes do.
   * @default false
   */
  callMissingTools?: boolean;

  /** Fails with this message. */
  fail?: string;
  /**
   * How often it fails.
   * @default always
   */
  failTimes?: number;
  /** The HTTP status of the failure, as of a provider: 429, 503. Without it the stream breaks off. */
  status?: number;
  /** Headers of the failure, e.g. `{ "retry-after": "30" }`. */
  headers?: Record<string, string>;
  /**
   * The ids of the models that fail.
   * @default all
   */
  failOn?: string[];
  /**
   * How many calls never reply, even when they are aborted.
   * @default 0
   */
  hangTimes?: number;
  /**
   * The finish reason of a text reply: one of the AI SDK's, or `"none"` for a stream that ends without one. A step with
   * tool calls ends by it, too, if it is `"interrupted"`, `"error"` or `"none"`.
   * @default "stop"
   */
  finish?: (typeof FINISH_REASONS)[number];
  /**
   * The provider's own reason, e.g. `"stream-truncated"`.
   * @default the same as `finish`
   */
  rawFinish?: string;
  /**
   * How often it finishes like that, before `"stop"`.
   * @default always
   */
  finishTimes?: number;
  /** A text reply begins a call of this tool, which never arrives, and finishes with `"tool-calls"`. */
  lostCall?: string;
  /**
   * Ids of tool calls: unique, or counted from 0 in each step, as some providers do.
   * @default "unique"
   */
  callIds?: "unique" | "numbered";
  /** Refuses requests that force a tool, or that have tools, as some providers do. */
  refuses?: "tool_choice" | "tools";
};

/** A field that matches a schema of Zod, with a message for the whole field. */
const matching = <T>(schema: z.ZodType, expected: string) =>
  z
    .custom<T>((value) => schema.safeParse(value).success, { error: `expected ${expected}` })
    .optional();
const times = () => count({ min: 0 }).optional();
const string = () => text({ empty: true, maxBytes: Number.POSITIVE_INFINITY }).optional();

const TOOL = z.looseObject({ name: z.string() });
const LONG = z.looseObject({ text: z.string(), times: z.int().min(0) });

const SCRIPT = optionsOf<Script>()({
  id: string(),
  text: string(),
  first: string(),
  firstTimes: times(),
  delayMs: matching<number>(z.number().min(0), "milliseconds from 0"),
  wordMs: matching<number>(z.number().min(0), "milliseconds from 0"),
  answer: z.unknown().optional(),
  answers: matching<unknown[]>(z.array(z.unknown()).min(1), "a list with at least one answer"),
  long: matching<Record<string, LongText>>(
    z.record(z.string(), LONG),
    "an object of { text, times }",
  ),
  brokenTimes: times(),
  ignoreTools: flag().optional(),
  tool: matching<ToolCall>(TOOL, "{ name, input }"),
  tools: matching<(ToolCall | ToolCall[])[]>(
    z.array(z.union([TOOL, z.array(TOOL).min(1)])).min(1),
    "a list of { name, input }, or of lists of these, with at least one",
  ),
  callMissingTools: flag().optional(),
  fail: string(),
  failTimes: times(),
  status: matching<number>(z.int().min(400), "an HTTP status from 400"),
  headers: matching<Record<string, string>>(
    z.record(z.string(), z.string()),
    "an object of strings",
  ),
  failOn: matching<string[]>(z.array(z.string()).min(1), "a list with at least one model id"),
  hangTimes: times(),
  finish: oneOf(FINISH_REASONS).optional(),
  rawFinish: string(),
  finishTimes: times(),
  lostCall: string(),
  callIds: oneOf(["unique", "numbered"]).optional(),
  refuses: oneOf(["tool_choice", "tools"]).optional(),
});

/** Fields that need `fail`. */
const OF_FAILURES = ["failTimes", "status", "headers", "failOn"] as const;

/**
 * Returns the script as it is.
 *
 * @throws InvalidScriptError for an invalid script; `field` names the invalid field
 */
export function checkScript(script: unknown): Script {
  const refuse = (field: string, message: string) => new InvalidScriptError(field, message);
  const given = readOptions(SCRIPT, script, "script", refuse);
  const unused = OF_FAILURES.find((field) => given[field] !== undefined);
  if (unused !== undefined && given.fail === undefined) {
    throw refuse(unused, `Invalid script: ${unused} needs a failure. Add fail: "the message".`);
  }
  return script as Script;
}
