/** The calls of a handler: which methods it may call, the keys that they get by default, and what is recorded of them. */

import { byteLength, type Json, jsonOf, preview } from "../../core/json.ts";
import { isPlainObject } from "../../core/options/options.ts";
import { digest } from "../../core/text.ts";
import { InvalidCallError } from "./errors.ts";
import { MAX_CALLS } from "./options.ts";
import type { RawArrival } from "./protocol.ts";
import type { LoggedCall, LoggedWait, Started, WaitMatch } from "./types.ts";

/** Bytes of a result that is recorded. */
const MAX_RESULT_BYTES = 16_384;
/** Bytes of all calls of an arrival: they share a row with its body. */
const MAX_CALLS_BYTES = 262_144;
/** Submissions of one call that the log names. */
const MAX_IDS = 100;

/** Names that the platform does not call over RPC, or that would accept an arrival within one. */
const RESERVED = new Set([
  ...["alarm", "callKernel", "connect", "constructor", "dup", "fetch", "id", "name", "then"],
  ...["webSocketClose", "webSocketError", "webSocketMessage"],
]);

export type Method = (this: object, ...args: readonly unknown[]) => unknown;

/** A method of the agent's class; fields of the agent are none. @throws InvalidCallError for anything else, and for a call above the limit */
export function methodOf(agent: object, verb: unknown, ordinal: number): Method {
  if (ordinal >= MAX_CALLS) {
    throw new InvalidCallError(
      `Invalid call ${ordinal + 1} of an arrival, ${preview(verb)}: a handler may make ${MAX_CALLS} calls. Pass many items to one call, e.g. submitMany().`,
    );
  }
  const { callKernel } = agent as {
    callKernel?: (verb: string, ...args: unknown[]) => Promise<unknown>;
  };
  // Of a capability, such as `approvals.grant`. The agent refuses those that it does not have.
  if (typeof verb === "string" && verb.includes(".") && callKernel)
    return async (...args) => callKernel.call(agent, verb, ...args);
  const isName = typeof verb === "string" && !RESERVED.has(verb) && !(verb in Object.prototype);
  if (isName) {
    for (
      let at = Object.getPrototypeOf(agent) as object | null;
      at !== null && at !== Object.prototype;
      at = Object.getPrototypeOf(at) as object | null
    ) {
      // A getter is not run.
      const found = Object.getOwnPropertyDescriptor(at, verb);
      if (typeof found?.value === "function") return found.value as Method;
      if (found) break;
    }
  }
  const name = typeof verb === "symbol" ? String(verb) : preview(verb);
  throw new InvalidCallError(
    `Invalid method ${name} of ${agent.constructor.name}: expected the name of a method of its class that RPC can call. Add the method, or call another.`,
  );
}

/** Arguments of a call, with the arrival's id as its key where the app has set none. */
export function withDefaultKey(
  verb: string,
  args: readonly unknown[],
  arrival: Pick<RawArrival, "source" | "id">,
  ordinal: number,
): readonly unknown[] {
  const [first, second, third] = args;
  const key = keyOf(arrival, ordinal);
  if (verb === "submitMessages") return [first, keyed(second, key), ...args.slice(2)];
  if (verb === "submitMany" && Array.isArray(first)) {
    const prefix = ordinal === 0 ? `${key}:0` : key;
    const items = first.map((item: unknown, index) =>
      isPlainObject(item) ? { ...item, options: keyed(item.options, `${prefix}:${index}`) } : item,
    );
    return [items, ...args.slice(1)];
  }
  if (verb !== "runWorkflow" || !hasNone(third, ["id"])) return args;
  const options = { ifExists: "return", ...(third as object), id: workflowIdOf(arrival, ordinal) };
  return [first, second, options, ...args.slice(3)];
}

/** Ids contain no colon, and neither do names of sources here. */
function keyOf({ source, id }: Pick<RawArrival, "source" | "id">, ordinal: number): string {
  const name = source.includes(":") ? digest(source) : source;
  return `${name}:${id}${ordinal === 0 ? "" : `:${ordinal}`}`;
}

function keyed(options: unknown, idempotencyKey: string): unknown {
  const isKeyed = !hasNone(options, ["idempotencyKey", "submissionId", "debounce"]);
  return isKeyed ? options : { ...(options as object | undefined), idempotencyKey };
}

function hasNone(options: unknown, names: readonly string[]): boolean {
  if (options === undefined) return true;
  return isPlainObject(options) && names.every((name) => options[name] === undefined);
}

/** An id that the platform accepts, another for each arrival and call. */
function workflowIdOf({ source, id }: Pick<RawArrival, "source" | "id">, ordinal: number): string {
  const readable = ordinal === 0 ? `${source}-${id}` : `${source}_${ordinal}_${id}`;
  // The first separator ends the source, so that no two arrivals have the same id.
  const isUnique = /^[A-Za-z0-9]+$/.test(source) && readable.length <= 100;
  return isUnique ? readable : `delivery-${digest(JSON.stringify([source, id, ordinal]))}`;
}

/** The work that a call has started, by its result. */
export function startedBy(verb: string, args: readonly unknown[], result: unknown): Started {
  const [name] = args;
  if (verb === "runWorkflow" && isShort(name) && isShort(result)) {
    return { kind: "workflow", workflow: name, workflowId: result };
  }
  if (verb === "submitMessages" || verb === "submitMany") {
    const submissionIds = [result].flat().flatMap((one) => {
      const id: unknown = isPlainObject(one) ? one.submissionId : undefined;
      return typeof id === "string" ? [id] : [];
    });
    return { kind: "submission", submissionIds: submissionIds.slice(0, MAX_IDS) };
  }
  return { kind: "method" };
}

function isShort(value: unknown): value is string {
  return typeof value === "string" && value.length <= 256;
}

/** A result as JSON, which is also what the first caller gets, so that a duplicate gets the same. */
export function resultOf(verb: string, value: unknown): Json | undefined {
  try {
    return jsonOf(value);
  } catch (error) {
    console.warn(
      `[perdure] the result of ${verb}() for an arrival is lost, because JSON cannot hold it:`,
      error,
    );
    return undefined;
  }
}

/** The calls with one more, whose result and ids are left out where they are too large. */
export function withCall(
  calls: readonly (LoggedCall | LoggedWait)[],
  call: LoggedCall,
): (LoggedCall | LoggedWait)[] {
  const { result, ...rest } = call;
  const isSmall = result !== undefined && byteLength(JSON.stringify(result)) <= MAX_RESULT_BYTES;
  const whole = [...calls, isSmall ? call : rest];
  if (byteLength(JSON.stringify(whole)) <= MAX_CALLS_BYTES) return whole;
  return [...calls, rest.kind === "submission" ? { ...rest, submissionIds: [] } : rest];
}

/** With waits that have received the arrival, as far as there is room. */
export function withWaits(
  calls: readonly (LoggedCall | LoggedWait)[],
  waits: readonly WaitMatch[],
): (LoggedCall | LoggedWait)[] {
  const { length } = calls.filter(({ kind }) => kind === "wait");
  const added = waits.slice(0, Math.max(0, MAX_CALLS - length));
  return [
    ...calls,
    ...added.map(({ waitId, workflow: { name, id } }) => {
      return { kind: "wait", waitId, workflow: { name, id } } as const;
    }),
  ];
}

/** A recorded result, as a later caller gets it. */
export function repeatedResult(result: Json | undefined): Json | undefined {
  if (Array.isArray(result)) return result.map((one) => repeatedResult(one) ?? null);
  return isPlainObject(result) && "accepted" in result ? { ...result, accepted: false } : result;
}

/** The id of a replay of an accepted arrival. */
export function replayIdOf(id: string, number: number): string {
  const readable = `${id}-replay-${number}`;
  return readable.length <= 100 ? readable : `${digest(id)}-replay-${number}`;
}
