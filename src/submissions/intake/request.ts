/** Checks the arguments of the ledger's verbs, and makes of what is submitted what is stored. */

import type { UIMessage } from "ai";
import * as z from "zod";
import { type Clock, LAST_ALARM } from "../../core/clock.ts";
import { checkBytes, isTooDeep, jsonTextOf, MAX_DEPTH, preview } from "../../core/json.ts";
import {
  count,
  duration,
  instant,
  list,
  oneOf,
  optionsOf,
  readOptions,
  someOf,
  text,
} from "../../core/options/option-schemas.ts";
import { checkNames, invalidMessage, isPlainObject } from "../../core/options/options.ts";
import {
  parseTraceparent,
  TRACEPARENT_FORM,
  type TraceContext,
  traceparentOf,
} from "../../core/trace-context.ts";
import type { Destination } from "../../outbox/destinations/index.ts";
import type { Outbox } from "../../outbox/outbox.ts";
import { invalidSubmission, invalidValue } from "../errors.ts";
import type { Limiter } from "../limiter.ts";
import { PAYLOAD_BYTES } from "../options.ts";
import { isTerminal, NEXT, type SubmissionStatus } from "../states.ts";
import type { NewSubmission, StoredLimits } from "../store/rows.ts";
import type { SubmissionStore } from "../store/store.ts";
import type {
  AnswerSpec,
  Debounce,
  InternalSubmitOptions,
  SubmitMessagesOptions,
} from "../submit-options.ts";
import { ISOLATED, isIsolated, isPool, MAIN, poolOf } from "../threads.ts";
import type {
  DeleteSubmissionsOptions,
  ListSubmissionsOptions,
  SubmissionFilter,
  WaitForSubmissionOptions,
} from "../types.ts";
import { type StoredOptions, storedOptions } from "./output.ts";

/** These go before every priority, so that they are next. */
const URGENT = ["interrupt", "rollback", "steer"];
const FRONT = -1_000;
/** The default of `debounce.maxDelay`, as a multiple of the delay. */
const MAX_DELAY_FACTOR = 10;
const ROLES = ["user", "assistant"];

/** Bytes of an id or a key: they are indexed, and travel in names. */
const id = () => text({ maxBytes: 2_048 });
/** An empty one, e.g. of an absent header, is none. */
const idOrNone = () =>
  text({ maxBytes: 2_048, empty: true })
    .transform((given) => given || undefined)
    .optional();
const jsonSchema = z.custom<object>(isPlainObject, {
  error: "expected a JSON Schema that is an object",
});

const ANSWER = optionsOf<AnswerSpec>()({
  schema: z.unknown().optional(),
  check: jsonSchema.optional(),
  strategy: oneOf(["auto", "tool", "json"]).optional(),
  repair: count({ min: 0, max: 10 }).optional(),
  models: list(id(), { min: 1, max: 10 }).optional(),
  maxSteps: count({ max: 1_000 }).optional(),
});

const TOO_DEEP = `expected at most ${MAX_DEPTH} levels. Pass a flatter value, or a string`;
const METADATA = z
  .custom<Record<string, unknown>>(isPlainObject, { error: "expected an object", abort: true })
  .refine((value) => isCyclic(value) || !isTooDeep(value), { error: TOO_DEEP });

const OPTIONS = {
  submissionId: idOrNone(),
  idempotencyKey: idOrNone(),
  onConflict: oneOf(["return", "throw"]).optional(),
  metadata: METADATA.optional(),
  thread: id().default(MAIN),
  channel: id().optional(),
  priority: count({ min: -100, max: 100 }).default(0),
  notBefore: instant({ forAlarm: true }).optional(),
  expiresIn: duration().optional(),
  debounce: optionsOf<Debounce>()({
    key: id(),
    delay: duration(),
    maxDelay: duration().optional(),
  }).optional(),
  whenBusy: oneOf(["enqueue", "reject", "interrupt", "rollback", "steer"]).default("enqueue"),
  traceparent: z
    .custom<string>((value) => parseTraceparent(value) !== undefined, {
      error: `expected ${TRACEPARENT_FORM}`,
    })
    .optional(),
  notify: z.unknown().optional(),
  budget: optionsOf<NonNullable<SubmitMessagesOptions["budget"]>>()({
    tokens: count().optional(),
    usd: z.custom<number>().optional(),
  })
    .refine((budget) => Object.keys(budget).length > 0, "expected tokens or usd")
    .optional(),
  concurrency: z.custom<SubmitMessagesOptions["concurrency"]>().optional(),
  rate: z.custom<SubmitMessagesOptions["rate"]>().optional(),
  singleton: z.custom<SubmitMessagesOptions["singleton"]>().optional(),
  retry: optionsOf<NonNullable<SubmitMessagesOptions["retry"]>>()({
    maxAttempts: count().optional(),
    afterSideEffects: oneOf(["tell", "fail", "repeat"]).optional(),
  }).optional(),
};

const INTERNAL = optionsOf<StoredOptions>()({
  ...OPTIONS,
  answer: z.unknown().optional(),
  run: z.unknown().optional(),
  batch: z.unknown().optional(),
});
type Read = z.output<typeof INTERNAL>;

const DEFAULTS = readOptions(INTERNAL, {}, "options");
const PUBLIC = ["output", "strategy", "repair", ...Object.keys(OPTIONS)];

export type RequestUses = {
  readonly store: Pick<SubmissionStore, "newId">;
  readonly loop: { readonly clock: Clock };
  readonly outbox: Outbox;
  readonly limiter: Limiter;
};

/** Checks the arguments of `submitMessages()`, and returns what is stored. @throws InvalidSubmissionError */
export function prepare(
  { store, loop, outbox, limiter }: RequestUses,
  messages: UIMessage[],
  asked: InternalSubmitOptions,
): NewSubmission {
  const given = storedOptions(asked);
  checkAnswer(given.answer);
  checkMessages(messages);
  const options = Object.keys(given).length === 0 ? DEFAULTS : readInternal(given);
  const { metadata, answer, whenBusy, debounce } = options;
  const thread = threadOf(options);
  checkTogether(options, thread);
  const timing = timingOf(options, given, loop.clock.now());
  const json = textOf("messages", messages);
  const submissionId = options.submissionId ?? store.newId();
  const notify = allDestinations(given, submissionId, outbox);
  checkSize({ messages: json, metadata, answer, notify });
  return {
    submissionId,
    isGenerated: options.submissionId === undefined,
    isRetry: false,
    idempotencyKey: options.idempotencyKey,
    messages: json,
    metadata,
    thread,
    channel: options.channel,
    traceParent:
      options.traceparent && traceparentOf(parseTraceparent(options.traceparent) as TraceContext),
    answer,
    notify,
    run: options.run,
    retry: options.retry,
    rank: URGENT.includes(whenBusy) ? FRONT : -options.priority,
    budget: options.budget?.tokens,
    limits: limitsOf(limiter, options),
    debounceKey: debounce && JSON.stringify([thread, debounce.key]),
    batch: options.batch?.id,
    ...timing,
  };
}

export function readInternal(given: StoredOptions): Read {
  const options = readOptions(INTERNAL, given, "options", invalidSubmission);
  for (const key of Object.keys(options.metadata ?? {})) checkId("metadata", key);
  return options;
}

/** What `limits()` keeps of its options. @throws FeatureNotInstalledError for an option without it */
export function limitsOf({ gate, needGate }: Limiter, options: Read): StoredLimits | undefined {
  const { concurrency, rate, singleton, budget } = options;
  const given = { concurrency, rate, singleton, "budget.usd": budget?.usd };
  for (const [name, value] of Object.entries(given))
    if (value !== undefined) return (gate ?? needGate(name)).read(options);
  return undefined;
}

/**
 * Checks the names of public options.
 *
 * @param verb that takes a list; undefined for `submitMessages()`
 * @throws InvalidSubmissionError naming the option, and the item of a list
 */
export function checkItems(submissions: unknown, verb?: string): void {
  if (!Array.isArray(submissions)) {
    throw invalidValue("submissions", submissions, "expected an array of { messages, options }");
  }
  for (const [index, item] of submissions.entries()) {
    const names = ["messages", "options"];
    checkNames(`item ${index} of ${verb}`, item ?? null, names, invalidSubmission);
    ofItem(verb, index, () => {
      checkNames("submitMessages()", item.options, PUBLIC, invalidSubmission);
      const { notify } = (item.options ?? {}) as InternalSubmitOptions;
      if (typeof notify === "function") checkDestinations(notify);
    });
  }
}

/** Runs `work` for one item of a verb that takes a list. The message of its error names the item. */
export function ofItem<T>(verb: string | undefined, index: number, work: () => T): T {
  try {
    return work();
  } catch (error) {
    const isNamed = verb !== undefined && error instanceof Error;
    if (isNamed) error.message = `item ${index} of ${verb}: ${error.message}`;
    throw error;
  }
}

/** @throws InvalidSubmissionError naming the option as the caller of a step knows it */
function checkAnswer(answer: AnswerSpec | undefined): void {
  if (answer === undefined) return;
  const { schema } = readOptions(ANSWER, answer, "answer", invalidSubmission);
  if (schema !== undefined) readOptions(jsonSchema, schema, "output", invalidSubmission);
}

/** The thread that it runs in: isolated turns of a batch have one of their own. */
function threadOf({ thread, batch }: Read): string {
  if (isPool(thread)) {
    const problem =
      'names that begin with "isolated/" are reserved. Use "isolated", or another name';
    throw invalidValue("thread", thread, problem);
  }
  return batch && thread === ISOLATED ? poolOf(batch.id, batch.concurrency) : thread;
}

function allDestinations(
  { notify }: StoredOptions,
  submissionId: string,
  outbox: Pick<Outbox, "problemOf">,
): readonly Destination[] | undefined {
  const made: unknown = typeof notify === "function" ? notify(submissionId) : notify;
  const list = isPlainObject(made) ? [made] : made;
  checkDestinations(list, outbox);
  return (list as readonly (Destination | undefined)[] | undefined)?.filter(
    (to) => to !== undefined,
  );
}

/** An end is stored together with its outbox entries, so an invalid destination is refused here. */
function checkDestinations(list: unknown, outbox?: Pick<Outbox, "problemOf">): void {
  if (list === undefined) return;
  if (!Array.isArray(list)) {
    const expected = 'expected a destination or a list of them, e.g. method("onDone")';
    throw invalidValue("notify", list, expected);
  }
  for (const [index, to] of list.entries()) {
    const problem = to === undefined ? undefined : outbox?.problemOf(to, `notify[${index}]`);
    if (problem) throw invalidSubmission("notify", problem);
  }
}

function timingOf(
  { expiresIn, debounce, ...options }: Read,
  given: StoredOptions,
  now: number,
): Pick<NewSubmission, "notBefore" | "expiresAt" | "debounceUntil"> {
  const wait = debounce && debounceOf(debounce, now);
  const notBefore = wait?.notBefore ?? options.notBefore;
  const expiresAt = timeAfter("expiresIn", now, expiresIn);
  if (expiresAt !== undefined && notBefore !== undefined && notBefore >= expiresAt) {
    const problem =
      `it counts from now, so the submission would expire before notBefore, ${new Date(notBefore).toISOString()}. ` +
      `Add more than ${notBefore - expiresAt} ms`;
    throw invalidValue("expiresIn", given.expiresIn, problem);
  }
  return {
    notBefore: notBefore !== undefined && notBefore > now ? notBefore : undefined,
    expiresAt,
    debounceUntil: wait?.debounceUntil,
  };
}

function debounceOf({ delay, maxDelay }: NonNullable<Read["debounce"]>, now: number) {
  const notBefore = timeAfter("debounce.delay", now, delay) ?? now;
  const until = timeAfter("debounce.maxDelay", now, maxDelay);
  // The default is no error where it is later than an alarm can be set.
  const debounceUntil =
    until ?? Math.max(notBefore, Math.min(now + delay * MAX_DELAY_FACTOR, LAST_ALARM));
  if (debounceUntil >= notBefore) return { notBefore, debounceUntil };
  const problem = `expected at least debounce.delay, ${delay} ms`;
  throw invalidValue("debounce.maxDelay", maxDelay, problem);
}

/** A time that an alarm can be set for, `ms` from `now`; undefined where `ms` is. */
function timeAfter(field: string, now: number, ms: number | undefined): number | undefined {
  if (ms === undefined || now + ms < LAST_ALARM) return ms && now + ms;
  throw invalidValue(field, ms, "expected an end before the year 2189. Use a shorter time");
}

function checkTogether(options: Read, thread: string): void {
  const { whenBusy, channel, debounce } = options;
  const refuse = (field: keyof Read, problem: string) => {
    throw invalidValue(field, options[field], problem);
  };
  if (channel !== undefined && thread !== MAIN) {
    refuse("channel", `channels belong to the main thread, not to ${preview(thread)}`);
  }
  if (isIsolated(thread) && whenBusy !== "enqueue") {
    refuse("whenBusy", "an isolated turn waits for no other. Leave it out");
  }
  if (options.answer && whenBusy === "steer") {
    const remedy = 'Use "enqueue" or "interrupt"';
    refuse("whenBusy", `a turn with an output of its own cannot join another turn. ${remedy}`);
  }
  if (options.notBefore !== undefined && URGENT.includes(whenBusy)) {
    refuse("whenBusy", "it is about the turn that runs now. Leave out notBefore");
  }
  if (!debounce) return;
  const others = ["idempotencyKey", "submissionId", "notBefore"] as const;
  const other =
    others.find((name) => options[name] !== undefined) ??
    (whenBusy === "enqueue" ? undefined : "whenBusy");
  if (other) {
    refuse("debounce", `it cannot be combined with ${other}: repetitions share one submission`);
  }
}

/** @throws InvalidSubmissionError for more than `maxBytes`, because all of it is stored in one row */
export function checkSize(
  submission: Pick<NewSubmission, "messages" | "metadata" | "answer" | "notify">,
): void {
  const { messages, metadata, answer, notify } = submission;
  const rest = textOf("metadata", [metadata, answer, notify]);
  const refuse = (message: string) => invalidSubmission("messages", message);
  const limit = { maxBytes: PAYLOAD_BYTES, refuse };
  checkBytes("messages with metadata and destinations", messages + rest, limit);
}

function checkMessages(messages: unknown): void {
  if (typeof messages === "function") {
    const problem = "expected an array of messages. Use saveMessages() for the function form";
    throw invalidValue("messages", messages, problem);
  }
  if (!Array.isArray(messages) || messages.length === 0) {
    // Think's words, which apps may match.
    const text = `submitMessages requires at least one message, got ${preview(messages)}. Pass [message].`;
    throw invalidSubmission("messages", text);
  }
  if (isTooDeep(messages) && !isCyclic(messages))
    throw invalidValue("messages", messages, TOO_DEEP);
  for (const [index, message] of messages.entries()) {
    const problem = problemOfMessage(message);
    if (problem) {
      const path = `messages[${index}]`;
      const text = invalidMessage(path, preview(message), `${problem}; expected a UIMessage`);
      throw invalidSubmission("messages", text);
    }
    checkId(`messages[${index}].id`, message.id);
  }
}

/** A message that no model takes would fail every later turn of its conversation as well. */
function problemOfMessage(message: Partial<UIMessage> | null): string | undefined {
  if (message === null || typeof message !== "object") {
    return `it is ${message === null ? "null" : typeof message}`;
  }
  const { id, role, parts } = message;
  if (typeof id !== "string" || id === "") return "it has no id (a non-empty string)";
  if (role === "system") {
    return 'it has the role "system": return instructions from getSystemPrompt() or beforeTurn()';
  }
  if (!ROLES.includes(role ?? ""))
    return `it has the role ${preview(role)} (one of ${ROLES.join(", ")})`;
  if (!Array.isArray(parts)) return "it has no parts (an array)";
  const wrong = parts.findIndex((part) => !isPart(part));
  return wrong < 0 ? undefined : `it has the part ${preview(parts[wrong])} at ${wrong}`;
}

/** Whether the AI SDK can hand it to a model. Types that it does not know are left out there. */
function isPart(part: unknown): boolean {
  if (typeof part !== "object" || part === null) return false;
  const { type, text, url, mediaType, providerReference } = part as Record<string, unknown>;
  if (typeof type !== "string") return false;
  if (type === "text") return typeof text === "string";
  if (type !== "file") return true;
  if (typeof mediaType !== "string" || mediaType === "") return false;
  return providerReference != null || (typeof url === "string" && isReadable(url));
}

/** Whether the AI SDK can read it: of data URLs only those in Base64. */
function isReadable(url: string): boolean {
  const isData = /^data:/i.test(url);
  return isData ? /^data:[^,]*;base64,[\w+/-]*={0,2}$/i.test(url) : URL.canParse(url);
}

function textOf(field: string, value: unknown): string {
  const refuse = (message: string) => invalidSubmission(field, message);
  return jsonTextOf(field, value, { maxBytes: Number.POSITIVE_INFINITY, refuse });
}

/** A value that contains itself has an error of its own. */
function isCyclic(value: unknown): boolean {
  try {
    JSON.stringify(value);
    return false;
  } catch (error) {
    return error instanceof TypeError;
  }
}

const DEFAULT_LIMIT = 100;
/** Each value is a condition of the query, and SQLite takes 100 bindings. */
const MAX_METADATA = 20;

/** An id or a name to look for. It does not have to exist. */
const known = text({ empty: true });
const STATUSES = Object.keys(NEXT) as SubmissionStatus[];
const STATUS = someOf<SubmissionStatus, SubmissionStatus | SubmissionStatus[]>(STATUSES, {
  min: 0,
}).optional();

const FOUND = z.custom<NonNullable<ListSubmissionsOptions["metadata"]>>(
  (value) => isPlainObject(value) && Object.keys(value).length <= MAX_METADATA,
  { error: `expected an object with up to ${MAX_METADATA} values to find` },
);

const FILTER = {
  status: STATUS,
  thread: known.optional(),
  metadata: FOUND.optional(),
  createdAfter: instant({ forAlarm: true }).optional(),
  createdBefore: instant({ forAlarm: true }).optional(),
};
const LIST = optionsOf<ListSubmissionsOptions>()({
  ...FILTER,
  limit: count({ max: 1_000 }).default(DEFAULT_LIMIT),
  before: known.optional(),
});
export const SUBMISSION_FILTER = optionsOf<SubmissionFilter>()(FILTER);
const DELETE = optionsOf<DeleteSubmissionsOptions>()({
  status: STATUS,
  limit: count({ max: 10_000 }).default(DEFAULT_LIMIT),
  completedBefore: instant({ forAlarm: true }).optional(),
});
const WAIT = optionsOf<WaitForSubmissionOptions>()({
  timeoutMs: z
    .custom<number>((value) => typeof value === "number" && value >= 0, {
      error: "expected milliseconds, a number from 0",
    })
    .optional(),
});

/** @throws InvalidSubmissionError */
export function checkId(field: string, value: unknown): void {
  readOptions(known, value, field, invalidSubmission);
}

/** @throws InvalidSubmissionError */
export function readList(options: ListSubmissionsOptions) {
  const { status, ...query } = readOptions(LIST, options, "listSubmissions()", invalidSubmission);
  checkMetadata(query.metadata);
  return { ...query, statuses: status };
}

/** @throws InvalidSubmissionError for a value that no metadata can have */
export function checkMetadata(metadata: SubmissionFilter["metadata"] = {}): void {
  for (const [key, value] of Object.entries(metadata)) {
    checkId("metadata", key);
    if (typeof value === "boolean" || Number.isFinite(value)) continue;
    if (typeof value === "string") checkId(`metadata.${key}`, value);
    else {
      const expected = "expected a string, a finite number, true or false";
      throw invalidValue(`metadata.${key}`, value, expected);
    }
  }
}

/** @throws InvalidSubmissionError */
export function readDeletion(options: DeleteSubmissionsOptions) {
  const { status = STATUSES, ...deletion } = readOptions(
    DELETE,
    options,
    "deleteSubmissions()",
    invalidSubmission,
  );
  return { ...deletion, ended: status.filter(isTerminal) };
}

/** @throws InvalidSubmissionError for what no thread can be called */
export function checkThread(thread: unknown): void {
  readOptions(text(), thread, "thread", invalidSubmission);
}

/** @throws InvalidSubmissionError for a thread without a name of its own */
export function checkNamedThread(thread: unknown): void {
  checkThread(thread);
  if (thread !== MAIN && !isIsolated(String(thread))) return;
  const remedy =
    "Use clearMessages() for the main conversation; an isolated turn leaves no messages";
  throw invalidValue("thread", thread, `expected a named thread. ${remedy}`);
}

/** @throws InvalidSubmissionError: an invalid wait would return at once, and the caller would loop */
export function checkWait(options: WaitForSubmissionOptions): void {
  readOptions(WAIT, options, "waitForSubmission()", invalidSubmission);
}
