/** What the scripted model is told: the fields of a script, and what is wrong with one that cannot be meant. */

import { preview } from "../core/json.ts";
import { InvalidScriptError } from "./errors.ts";

/** A text, and how often it is repeated: a script with the whole of a long one would be too large to submit. */
export type LongText = { text: string; times: number };

/** The whole text. */
export function longText({ text, times }: LongText): string {
  return text.repeat(times);
}

export type ToolCall = { name: string; input: unknown };

/** What the scripted model does when it is asked. Every field can be left out; `{}` says `"done"` at once. */
export type Script = {
  /** Does nothing but make a script another one than the rest, which is counted apart: `crypto.randomUUID()`. */
  id?: string;
  /**
   * What is said when there is no answer to give.
   * @default "done"
   */
  text?: string;
  /** Said before anything else, also before a failure or a tool call. */
  first?: string;
  /**
   * How long the model thinks, in milliseconds.
   * @default 0
   */
  delayMs?: number;

  /** What is answered where an `output` is asked for: with the final-answer tool, or as JSON. */
  answer?: unknown;
  /** The same for each time that one is asked for; the last one from then on. */
  answers?: unknown[];
  /** Fields of the answer that are this text instead: for answers of megabytes. */
  long?: Record<string, LongText>;
  /**
   * So many final answers have arguments that are no JSON, cut off in the middle.
   * @default 0
   */
  brokenTimes?: number;
  /**
   * Say `text` where tools, or a final answer, are offered.
   * @default false
   */
  ignoreTools?: boolean;

  /** Call this tool first, once. */
  tool?: ToolCall;
  /** Call these tools, one in each step; those of a list together in one step. */
  tools?: (ToolCall | ToolCall[])[];
  /**
   * Call the tools also where they are not offered, as models sometimes do.
   * @default false
   */
  isUnruly?: boolean;

  /** Fail with this message. */
  fail?: string;
  /**
   * Fail so often, and not after that.
   * @default always
   */
  failTimes?: number;
  /** Fail as a provider does, with this HTTP status: 429, 503. Without it the stream breaks off. */
  status?: number;
  /** Headers of that failure, e.g. `{ "retry-after": "30" }`. */
  headers?: Record<string, string>;
  /**
   * Only models with these ids fail.
   * @default all
   */
  failOn?: string[];
  /**
   * Say nothing at all so often, even when the call is aborted.
   * @default 0
   */
  hangTimes?: number;
  /**
   * How a reply that is a text finishes: `"none"` is a stream that ends without a finish.
   * @default "stop"
   */
  finish?: "stop" | "length" | "content-filter" | "error" | "other" | "none";
  /**
   * Finish like that so often, and with `"stop"` after that.
   * @default always
   */
  finishTimes?: number;
  /** Refuse requests that force a tool, or that have any, as some providers do. */
  refuses?: "tool_choice" | "tools";
};

const isText = (value: unknown) => typeof value === "string";
const isFlag = (value: unknown) => typeof value === "boolean";
const isCount = (value: unknown) => Number.isInteger(value) && (value as number) >= 0;
const isObject = (value: unknown) =>
  typeof value === "object" && value !== null && !Array.isArray(value);
const isTool = (value: unknown) => isObject(value) && isText((value as ToolCall).name);
const listOf = (is: (value: unknown) => boolean) => (value: unknown) =>
  Array.isArray(value) && value.length > 0 && value.every(is);
const isLong = (value: unknown) => {
  const { text, times } = (value ?? {}) as Partial<LongText>;
  return isText(text) && isCount(times);
};

type Check = readonly [is: (value: unknown) => boolean, expected: string];
const TEXT: Check = [isText, "a text"];
const FLAG: Check = [isFlag, "true or false"];
const COUNT: Check = [isCount, "a whole number from 0"];
const ANYTHING: Check = [() => true, "anything"];
const recordOf = (is: (value: unknown) => boolean, of: string): Check => [
  (value) => isObject(value) && Object.values(value as object).every(is),
  `an object of ${of}`,
];

const FINISHES: readonly unknown[] = [
  "stop",
  "length",
  "content-filter",
  "error",
  "other",
  "none",
] satisfies Script["finish"][];

/** One line for each field, so that none is forgotten here. */
const FIELDS: Record<keyof Script, Check> = {
  id: TEXT,
  text: TEXT,
  first: TEXT,
  delayMs: [(ms) => typeof ms === "number" && ms >= 0, "milliseconds from 0"],
  answer: ANYTHING,
  answers: [listOf(() => true), "a list with at least one answer"],
  long: recordOf(isLong, "{ text, times }"),
  brokenTimes: COUNT,
  ignoreTools: FLAG,
  tool: [isTool, "{ name, input }"],
  tools: [
    listOf((calls) => isTool(calls) || listOf(isTool)(calls)),
    "a list of { name, input }, or of lists of these, with at least one",
  ],
  isUnruly: FLAG,
  fail: TEXT,
  failTimes: COUNT,
  status: [(status) => isCount(status) && (status as number) >= 400, "an HTTP status from 400"],
  headers: recordOf(isText, "texts"),
  failOn: [listOf(isText), "a list with at least one model id"],
  hangTimes: COUNT,
  finish: [(reason) => FINISHES.includes(reason), `one of ${FINISHES.join(", ")}`],
  finishTimes: COUNT,
  refuses: [(what) => what === "tool_choice" || what === "tools", '"tool_choice" or "tools"'],
};

/** What only says more about a failure. */
const OF_FAILURES = ["failTimes", "status", "headers", "failOn"] as const;

/**
 * Returns the script as it is.
 *
 * @throws InvalidScriptError for one that cannot be meant: it names the field
 */
export function checkScript(script: unknown): Script {
  if (!isObject(script)) {
    throw new InvalidScriptError("", `The script is ${preview(script)}; expected an object.`);
  }
  const given = script as Script;
  for (const [field, value] of Object.entries(given)) {
    const check = Object.hasOwn(FIELDS, field) ? FIELDS[field as keyof Script] : undefined;
    if (!check) {
      const known = Object.keys(FIELDS).join(", ");
      const message = `${JSON.stringify(field)} is no field of a script; there are ${known}.`;
      throw new InvalidScriptError(field, message);
    }
    const [is, expected] = check;
    if (value === undefined || is(value)) continue;
    const message = `${field} of the script is ${preview(value)}; expected ${expected}.`;
    throw new InvalidScriptError(field, message);
  }
  const idle = OF_FAILURES.find((field) => given[field] !== undefined);
  if (idle !== undefined && given.fail === undefined) {
    const message = `The script has ${idle} and no failure for it; add fail: "the message".`;
    throw new InvalidScriptError(idle, message);
  }
  return given;
}
