/** What all sources share: the arrival, the choice of the agent, and the handler that replays use. Without Zod. */

import type { StandardSchemaV1 } from "@standard-schema/spec";
import { systemClock } from "../../core/clock.ts";
import { DURATION_FORMS, millisecondsOf } from "../../core/duration.ts";
import { failureOf } from "../../core/failures.ts";
import type { Json } from "../../core/json.ts";
import { checkNames, invalidOption } from "../../core/options.ts";
import { withTimeout } from "../../core/timeout.ts";
import { handlers, type Offered, offer } from "../../inbound/offer.ts";
import type { AcceptsDeliveries, Arrival } from "../../inbound/protocol.ts";
import type { InboundDelivery } from "../delivery.ts";

/** What the app says about a source: which agent accepts a delivery, and what the agent does with it. */
export interface SourceOptions<Body, Agent> {
  /** The agent that accepts the delivery, as a stub. With null or undefined, the delivery is filtered: nothing is stored. */
  agent(delivery: InboundDelivery<Body>, env: Cloudflare.Env): Agent | Promise<Agent>;
  /** Calls methods of the agent. It commits each call together with the delivery, and never runs it again for a duplicate. */
  handle(delivery: InboundDelivery<Body>, agent: NonNullable<Agent>): unknown;
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

/** The part of a delivery that depends on its sender. */
export type SenderParts = Pick<InboundDelivery, "reply" | "click">;

/**
 * Offers an arrival to its agent. Never rejects.
 *
 * @param timeoutMs after this, the agent counts as unreachable. It may still accept the delivery: a later one is a duplicate
 */
export type Receive = (arrival: Arrival, env: object, timeoutMs: number) => Promise<Offered>;

/**
 * Registers a source for replays, and returns the function that receives its arrivals.
 *
 * @param partsOf the sender's parts of a delivery, from its body before the schema
 */
export function sourceOf<Body, Agent>(
  name: string,
  options: SourceOptions<Body, Agent> & SchemaOption<Body>,
  partsOf: (body: Json) => SenderParts = () => ({ reply: undefined }),
): Receive {
  const { schema } = options;
  const deliveryOf = async ({ source, id, type, body = null, receivedAt }: Arrival) => ({
    ...{ source, id, type, receivedAt },
    body: schema ? await validated(schema, body) : (body as Body),
    ...partsOf(body),
  });
  handlers.set(name, {
    name,
    handle: async (arrival, agent) =>
      options.handle(await deliveryOf(arrival), agent as NonNullable<Agent>),
  });
  const receive = async (arrival: Arrival, env: object): Promise<Offered> => {
    let delivery: InboundDelivery<Body>;
    try {
      delivery = await deliveryOf(arrival);
    } catch (error) {
      return { verdict: "refused", error };
    }
    let agent: Agent;
    try {
      agent = await options.agent(delivery, env as Cloudflare.Env);
    } catch (error) {
      return { verdict: "refused", error, isUnreachable: true };
    }
    if (agent === null || agent === undefined) return { verdict: "filtered" };
    const handle = async (_: Arrival, caller: object) =>
      options.handle(delivery, caller as NonNullable<Agent>);
    return offer({ name, handle }, arrival, agent as unknown as AcceptsDeliveries);
  };
  return (arrival, env, timeoutMs) =>
    withTimeout(receive(arrival, env), timeoutMs).catch((error: unknown) => {
      return { verdict: "refused", error, isUnreachable: true };
    });
}

async function validated<Body>(schema: StandardSchemaV1<unknown, Body>, body: Json): Promise<Body> {
  const result = await schema["~standard"].validate(body);
  if (!result.issues) return result.value;
  const [issue] = result.issues;
  const path = issue?.path?.map((step) => String(typeof step === "object" ? step.key : step));
  const where = path?.length ? `body.${path.join(".")}` : "body";
  throw new InvalidBodyError(
    `Invalid ${where}: ${issue?.message ?? "it does not match the schema"}`,
  );
}

/** @param raw the body as it came, or its JSON where it came as values */
export async function arrivalOf(
  { source, id, type }: Pick<Arrival, "source" | "id" | "type">,
  body: Json,
  raw: Uint8Array,
): Promise<Arrival> {
  return {
    source,
    id: await idOf(id),
    type: type.slice(0, 200).toWellFormed(),
    body,
    bytes: raw.byteLength,
    hash: await sha256(raw),
    receivedAt: systemClock.now(),
  };
}

/** The sender's id, or its SHA-256 where it is not fit to be the id of a workflow. */
async function idOf(id: string): Promise<string> {
  return /^[\w-]{1,100}$/.test(id) ? id : sha256(new TextEncoder().encode(id));
}

/** In hex. */
export async function sha256(bytes: Uint8Array): Promise<string> {
  const digest = await crypto.subtle.digest("SHA-256", bytes);
  return [...new Uint8Array(digest)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Logs one line of JSON. Never the body. */
export function logRefused(source: string, id: string, error: unknown): void {
  const { name, message } = failureOf(error);
  const text = `${name}: ${message}`.slice(0, 500).toWellFormed();
  console.error(JSON.stringify({ perdure: "inbound:refused", source, id, message: text }));
}

/** @throws InvalidOptionError for an unknown option, or for `agent` or `handle` that is no function */
export function checkSource(
  what: string,
  options: { readonly agent?: unknown; readonly handle?: unknown },
  names: readonly string[],
): void {
  checkNames(what, options, ["name", "agent", "handle", ...names]);
  for (const name of ["agent", "handle"] as const) {
    if (typeof options[name] !== "function") throw invalidOption(name, options[name], "a function");
  }
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
