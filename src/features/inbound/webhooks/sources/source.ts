/** What all sources share: the arrival, the choice of the agent, and the handler that replays use. Without Zod. */

import type { StandardSchemaV1 } from "@standard-schema/spec";
import { systemClock, withTimeout } from "../../../../core/clock.ts";
import { failureOf } from "../../../../core/failures.ts";
import { byteLength, type Json } from "../../../../core/json.ts";
import {
  checkNames,
  DURATION_FORMS,
  invalidOption,
  millisecondsOf,
} from "../../../../core/options/options.ts";
import { handlers, type Offered, offer } from "../../offer.ts";
import type { AcceptsArrivals, RawArrival } from "../../protocol.ts";
import type { Arrival } from "../arrival.ts";
import { type Bytes, sha256Hex } from "../verify.ts";

/** What the app says about a source: which agent accepts an arrival, and what the agent does with it. */
export interface SourceOptions<Body, Target> {
  /**
   * The agent that gets the arrival, as a stub. Write it before `handle`, which infers the agent's type from it. Null or
   * undefined: no agent gets the arrival, and nothing is stored.
   */
  agent(arrival: Arrival<Body>, env: Cloudflare.Env): Target;
  /**
   * Starts what the arrival is for, by calls of the agent's methods: each commits with the arrival, and is not run again for
   * a duplicate. Without it, the arrival is only for workflows that wait for it.
   */
  handle?(arrival: Arrival<Body>, agent: NonNullable<Awaited<Target>>): unknown;
}

export type SchemaOption<Body> = {
  /**
   * Validates the body. The handler receives what the schema returns. Any library that follows Standard Schema.
   * @default none
   */
  readonly schema?: StandardSchemaV1<unknown, Body>;
};

/** The body does not match the schema of its source. */
export class InvalidBodyError extends Error {
  override readonly name = "InvalidBodyError";
}

/** Paths in the message about a body that does not match its schema. */
const MAX_PATHS = 10;

/** The part of an arrival that depends on its sender. */
export type SenderParts = Pick<Arrival, "reply" | "click">;

/**
 * Offers an arrival to its agent. Never rejects.
 *
 * @param timeoutMs after this, the agent counts as unreachable. It may still accept the arrival: a later one is a duplicate
 * @param options.waitUntil gets the work, which continues after the time limit
 * @param options.held why nothing shows who sent it: its handler does not run
 */
export type Receive = (
  received: RawArrival,
  env: object,
  timeoutMs: number,
  options?: {
    readonly waitUntil?: (work: Promise<unknown>) => void;
    readonly held?: string | undefined;
  },
) => Promise<Offered>;

/**
 * Registers a source for replays, and returns the function that receives its arrivals.
 *
 * @param partsOf the sender's parts of an arrival, from its body before the schema
 */
export function sourceOf<Body, Target>(
  name: string,
  options: SourceOptions<Body, Target> & SchemaOption<Body>,
  partsOf: (body: Json) => SenderParts = () => ({ reply: undefined }),
): Receive {
  const { schema } = options;
  const arrivalOf = async ({ source, id, type, body = null, receivedAt }: RawArrival) => ({
    ...{ source, id, type, receivedAt },
    body: schema ? await validated(schema, body) : (body as Body),
    ...partsOf(body),
  });
  handlers.set(name, {
    name,
    handle: async (received, agent) =>
      options.handle?.(await arrivalOf(received), agent as NonNullable<Awaited<Target>>),
  });
  const receive = async (
    received: RawArrival,
    env: object,
    held: string | undefined,
  ): Promise<Offered> => {
    let arrival: Arrival<Body>;
    try {
      arrival = await arrivalOf(received);
    } catch (error) {
      return { verdict: "refused", error };
    }
    let agent: Awaited<Target>;
    try {
      agent = await options.agent(arrival, env as Cloudflare.Env);
    } catch (error) {
      return { verdict: "refused", error, isUnreachable: true };
    }
    if (agent === null || agent === undefined) return { verdict: "filtered" };
    if (held !== undefined) return hold(received, held, agent as unknown as AcceptsArrivals);
    const handle = async (_: RawArrival, caller: object) =>
      options.handle?.(arrival, caller as NonNullable<Awaited<Target>>);
    return offer({ handle }, received, agent as unknown as AcceptsArrivals);
  };
  return async (received, env, timeoutMs, { waitUntil, held } = {}) => {
    const work = receive(received, env, held);
    waitUntil?.(work);
    return withTimeout(work, timeoutMs).catch((error: unknown) => {
      return { verdict: "refused", error, isUnreachable: true };
    });
  };
}

async function hold(arrival: RawArrival, held: string, agent: AcceptsArrivals): Promise<Offered> {
  try {
    const { verdict } = await agent.callKernel("acceptArrival", { arrival, held });
    // A duplicate was accepted by a replay.
    return { verdict: verdict === "duplicate" ? verdict : "held" };
  } catch (error) {
    return { verdict: "refused", error, isUnreachable: true };
  }
}

async function validated<Body>(schema: StandardSchemaV1<unknown, Body>, body: Json): Promise<Body> {
  const result = await schema["~standard"].validate(body);
  if (!result.issues) return result.value;
  // The messages of a schema may have values of the body.
  const paths = result.issues.slice(0, MAX_PATHS).map(({ path = [] }) => {
    const keys = path.map((part) => String(typeof part === "object" ? part.key : part));
    return keys.join(".").slice(0, 100) || "the body itself";
  });
  throw new InvalidBodyError(`The body does not match its schema at ${paths.join(", ")}.`);
}

/** @param raw the body as it came, or its JSON where it came as values */
export async function rawArrivalOf(
  { source, id, type }: Pick<RawArrival, "source" | "id" | "type">,
  body: Json,
  raw: string | Bytes,
): Promise<RawArrival> {
  return {
    source,
    id: await idOf(id),
    type: type.slice(0, 200).toWellFormed(),
    body,
    bytes: typeof raw === "string" ? byteLength(raw) : raw.byteLength,
    hash: await sha256Hex(raw),
    receivedAt: systemClock.now(),
  };
}

/** The sender's id, or its SHA-256 where it is not fit to be the id of a workflow. */
async function idOf(id: string): Promise<string> {
  return /^\w[\w-]{0,99}$/.test(id) ? id : sha256Hex(id);
}

/** Logs one line of JSON. Never the body. */
export function logRefused(source: string, id: string, error: unknown): void {
  const { name, message } = failureOf(error);
  const text = `${name}: ${message}`.slice(0, 500).toWellFormed();
  console.error(JSON.stringify({ perdure: "inbound:refused", source, id, message: text }));
}

/** @throws InvalidOptionError for an unknown option, or an `agent` or `handle` that is no function */
export function checkSource(
  what: string,
  options: { readonly agent?: unknown; readonly handle?: unknown },
  names: readonly string[],
): void {
  checkNames(what, options, ["name", "agent", "handle", ...names]);
  const { agent, handle = agent } = options;
  if (typeof agent !== "function") throw invalidOption("agent", agent, "a function");
  if (typeof handle !== "function") throw invalidOption("handle", handle, "a function");
}

/**
 * Checks what a handler of a Worker takes and passes on.
 *
 * @param only the one queue or cron expression that it handles
 * @throws InvalidOptionError
 */
export function checkOnly(option: string, only: unknown, expected: string, next: unknown): void {
  if (only !== undefined && (typeof only !== "string" || only === ""))
    throw invalidOption(option, only, expected);
  if (next !== undefined && typeof next !== "function")
    throw invalidOption("next", next, "a function");
}

/** The name of a source. @throws InvalidOptionError */
export function nameOf(name: string): string {
  if (typeof name === "string" && /^[!-~]{1,100}$/.test(name)) return name;
  throw invalidOption("name", name, "1 to 100 characters of ASCII without spaces");
}

/** A duration in milliseconds, from 1 to `most`. @throws InvalidOptionError */
export function durationOf(option: string, duration: unknown, most: number): number {
  const ms = millisecondsOf(duration);
  if (ms !== undefined && ms <= most) return ms;
  throw invalidOption(option, duration, `${DURATION_FORMS}, at most ${most} ms`);
}
