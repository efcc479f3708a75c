/** Receives webhooks: verifies each request, and offers its delivery to an agent. */

import type { Json } from "../core/json.ts";
import { handlers, offer, thrownText } from "../inbound/offer.ts";
import type { AcceptsDeliveries, Arrival } from "../inbound/protocol.ts";
import type { Destination } from "../outbox/types.ts";
import { endReading, parse, parserOf, type Reading, RefusedRequest, readBody } from "./body.ts";
import type { InboundDelivery } from "./delivery.ts";
import {
  type AgentCalls,
  type Endpoint,
  type Incoming,
  invalid,
  type Outcome,
  type SelfAnswering,
} from "./preset.ts";
import { logRefusal } from "./refusal-log.ts";
import { sha256Hex, type Verified } from "./verify.ts";

/** Answers the requests of its endpoints' paths. Null: the path is none of them. */
export type Receiver = (
  request: Request,
  env: object,
  ctx: { waitUntil(work: Promise<unknown>): void },
) => Promise<Response | null>;

/** When a sender may try again after 503, in seconds. */
const RETRY_AFTER = 30;
const FILTERED = { status: 200, verdict: "filtered" } as const;
const UNREACHABLE = "The agent could not be reached.";
/** Characters. */
const MAX_TYPE = 200;

/**
 * A receiver of these endpoints, for a Worker's `fetch` and an agent's `onRequest`:
 *
 *     const hooks = webhooks(github({ secret: "GITHUB_SECRET", agent, handle }));
 *
 *     export default {
 *       fetch: async (request, env, ctx) =>
 *         (await hooks(request, env, ctx)) ?? new Response("Not found", { status: 404 }),
 *     };
 *
 * Create it once, at the top level of a module: replays find its handlers by their names.
 *
 * @param endpoints what presets return, e.g. `github()`, `stripe()` and `custom()`
 * @throws InvalidOptionError for two endpoints of the same name or path
 */
export function webhooks(...endpoints: readonly (Endpoint | SelfAnswering)[]): Receiver {
  // Paths begin with "/", and names do not.
  const byKey = new Map<string, Endpoint | SelfAnswering>();
  for (const endpoint of endpoints) {
    if (!endpoint?.path) throw invalid("endpoint", endpoint, "what a preset returns");
    for (const key of [endpoint.name, endpoint.path]) {
      if (byKey.has(key)) throw invalid("endpoint", key, "a name and a path of its own");
      byKey.set(key, endpoint);
    }
    if ("respond" in endpoint) continue;
    handlers.set(endpoint.name, {
      name: endpoint.name,
      handle: async (arrival, agent) => run(endpoint, await deliveryOf(endpoint, arrival), agent),
    });
  }
  return async (request, env, ctx) => {
    const url = new URL(request.url);
    const endpoint = byKey.get(url.pathname);
    if (!endpoint) return null;
    if ("respond" in endpoint) return endpoint.respond(request, env);
    const reception = {
      endpoint,
      request,
      env,
      url,
      headers: request.headers,
      raw: new Uint8Array(),
      hash: "",
      secrets: [],
      secretOf: async (name: string) => (await secretIn(env, name)) ?? misconfigured([name]),
      now: (endpoint.options.clock ?? Date).now(),
      tolerance: endpoint.tolerance,
    };
    return answerInTime(reception, ctx);
  };
}

/** One request. What a preset sees of it is an Incoming. */
type Reception = { -readonly [Field in keyof Incoming]: Incoming[Field] } & Reading & {
    readonly endpoint: Endpoint;
    readonly request: Request;
    readonly env: object;
    /** Set once the signature is verified and the body is parsed. */
    body?: Json;
    id?: string;
    delivery?: InboundDelivery;
  };

/** The work continues after the time limit, and when the sender closes the connection. */
async function answerInTime(reception: Reception, ctx: Parameters<Receiver>[2]): Promise<Response> {
  const work = answer(reception);
  ctx.waitUntil(work);
  const { promise: late, resolve } = Promise.withResolvers<undefined>();
  const timer = setTimeout(resolve, reception.endpoint.timeLimit);
  const response = await Promise.race([work, late]);
  clearTimeout(timer);
  if (response) return response;
  // The work itself refuses a body that is still being read.
  if (endReading(reception)) return work;
  return refuse(reception, unavailable("The time limit has passed."));
}

/** Never rejects. */
async function answer(reception: Reception): Promise<Response> {
  try {
    return await receive(reception);
  } catch (error) {
    if (error instanceof RefusedRequest) return refuse(reception, error);
    // Of the app's `agent` or `schema`.
    return refuse(reception, unavailable(UNREACHABLE, thrownText(error)));
  }
}

async function receive(reception: Reception): Promise<Response> {
  const { endpoint, request, headers, env } = reception;
  const { preset, options } = endpoint;
  const isGet = request.method === "GET" && preset.onGet;
  if (request.method !== "POST" && !isGet) throw new RefusedRequest(405, "Invalid method.");
  const parser = isGet ? undefined : parserOf(preset, headers.get("content-type"));
  if (parser) reception.raw = await readBody(reception, request, endpoint.maxBytes);
  reception.hash = await sha256Hex(reception.raw);
  const secrets = await Promise.all(endpoint.secrets.map((name) => secretIn(env, name)));
  reception.secrets = secrets.filter((value) => value !== undefined);
  if (!parser) return (await preset.onGet?.(reception)) as Response;
  await verify(reception);
  const body = parse(reception.raw, parser);
  reception.body = body;
  const handshake = preset.handshake?.(body, reception);
  if (handshake) return handshake;
  const arrival = await arrivalOf(reception, body);
  if (options.events && !options.events.includes(arrival.type)) return respond(reception, FILTERED);
  const delivery = await deliveryOf(endpoint, arrival);
  reception.delivery = delivery;
  const agent = await options.agent(delivery, env as Cloudflare.Env);
  if (!agent) return respond(reception, FILTERED);
  const handle = async (_: Arrival, calls: object) => run(endpoint, delivery, calls);
  const offered = await offer({ name: endpoint.name, handle }, arrival, agent as AcceptsDeliveries);
  const { verdict, result, error, retryAfter } = offered;
  if (result instanceof Response) return result;
  if (verdict !== "refused") return respond(reception, { status: 200, verdict });
  throw retryAfter
    ? new RefusedRequest(429, "The agent has no room.", thrownText(error), retryAfter)
    : offered.isUnreachable
      ? unavailable(UNREACHABLE, thrownText(error))
      : new RefusedRequest(500, "The handler failed.", thrownText(error));
}

async function verify(reception: Reception): Promise<void> {
  const { preset, secrets } = reception.endpoint;
  const found = reception.secrets.length;
  let verified: Verified | false;
  try {
    verified = found > 0 && (await preset.verify(reception));
  } catch (error) {
    if (error instanceof RefusedRequest) throw error;
    // WebCrypto or the preset refuses the secret.
    return misconfigured(secrets, thrownText(error));
  }
  if (verified === true) return;
  // The sender may use the secret that is missing.
  if (found < secrets.length) misconfigured(secrets);
  throw new RefusedRequest(401, `Not verified: ${verified}.`);
}

async function arrivalOf(reception: Reception, body: Json): Promise<Arrival> {
  const { endpoint, raw, hash, now } = reception;
  const { id, type, ...own } = orMalformed(() => endpoint.preset.identify(body, reception));
  if (typeof id !== "string" || !id || typeof type !== "string" || type.length > MAX_TYPE)
    throw new RefusedRequest(400, "The id or the type is missing or invalid.");
  reception.id = /^[\w-]{1,100}$/.test(id) ? id : await sha256Hex(id);
  return {
    source: endpoint.name,
    id: reception.id,
    type,
    body,
    ...own,
    bytes: raw.length,
    hash,
    receivedAt: now,
  };
}

/** @throws RefusedRequest for a body that does not match the schema */
async function deliveryOf(
  { preset, options }: Endpoint,
  arrival: Arrival,
): Promise<InboundDelivery> {
  const { bytes: _, hash: __, body: given = null, ...known } = arrival;
  let body = given;
  if (options.schema) {
    const checked = await options.schema["~standard"].validate(given);
    if (checked.issues) throw mismatch(checked.issues);
    body = checked.value;
  }
  return orMalformed(() => {
    const reply = preset.reply?.(given, known.type) as Destination | undefined;
    const click = preset.click?.(given, known.type);
    return { ...known, body, reply, ...(click && { click }) };
  });
}

/** Calls the preset's own handling, e.g. of a click, or the app's. */
function run({ preset, options }: Endpoint, delivery: InboundDelivery, agent: object): unknown {
  return preset.handle?.(delivery, agent as AgentCalls) ?? options.handle?.(delivery, agent);
}

type Issues = readonly {
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}[];

/** Names the paths. The messages of a schema may have values of the body. */
function mismatch(issues: Issues): RefusedRequest {
  const keyOf = (part: PropertyKey | { readonly key: PropertyKey }) =>
    typeof part === "object" ? part.key : part;
  const paths = issues.map(({ path }) => path?.map(keyOf).join("."));
  const message = `The body does not match its schema at: ${paths.join(", ")}`;
  return new RefusedRequest(400, message.slice(0, 500));
}

function orMalformed<T>(read: () => T): T {
  try {
    return read();
  } catch {
    throw new RefusedRequest(400, "Invalid body.");
  }
}

function unavailable(message: string, reason?: string): RefusedRequest {
  return new RefusedRequest(503, message, reason, RETRY_AFTER);
}

/** The log names the bindings, the answer does not. @throws RefusedRequest */
function misconfigured(names: readonly string[], problem = "missing"): never {
  throw unavailable(
    "A secret is missing or invalid.",
    `Secret env.${names.join(", env.")}: ${problem}`,
  );
}

/** A string, or what a binding of the Secrets Store has. Undefined: missing or empty. */
async function secretIn(env: object, name: string): Promise<string | undefined> {
  try {
    const binding = (env as Record<string, { get?(): Promise<unknown> } | undefined>)[name];
    const value: unknown = (await binding?.get?.()) ?? binding;
    return typeof value === "string" && value ? value : undefined;
  } catch {
    // Answered and logged as a missing secret.
    return undefined;
  }
}

function refuse(reception: Reception, refused: RefusedRequest): Response {
  const { status, message, reason, retryAfter } = refused;
  const { endpoint, id, now } = reception;
  logRefusal({ source: endpoint.name, status, reason, id }, now);
  return respond(
    reception,
    { status, error: message },
    {
      ...(retryAfter && { "retry-after": `${retryAfter}` }),
      ...(status === 405 && { allow: endpoint.preset.onGet ? "POST, GET" : "POST" }),
    },
  );
}

function respond(
  { endpoint, id, body, delivery }: Reception,
  { status, ...rest }: Outcome,
  headers?: Readonly<Record<string, string>>,
): Response {
  const outcome = id ? { ...rest, id } : rest;
  const own =
    body === undefined || endpoint.preset.answer?.({ status, ...outcome }, body, delivery);
  return own instanceof Response
    ? own
    : Response.json(outcome, { status, ...(headers && { headers }) });
}
