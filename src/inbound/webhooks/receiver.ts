/** Receives webhooks: verifies each request, and offers its arrival to an agent. */

import type { Json } from "../../core/json.ts";
import { secretIn } from "../../core/secrets.ts";
import type { Destination } from "../../kernel/outbox/index.ts";
import { handlers, isNameless, offer, receiverSecrets } from "../offer.ts";
import type { AcceptsArrivals, RawArrival, Verdict } from "../protocol.ts";
import type { Arrival } from "./arrival.ts";
import { endReading, parse, parserOf, type Reading, RefusedRequest, readBody } from "./body.ts";
import { MAX_TYPE } from "./limits.ts";
import {
  type AgentCalls,
  type Endpoint,
  type Incoming,
  invalid,
  type Outcome,
  type SelfAnswering,
} from "./preset.ts";
import { logRefusal } from "./refusal-log.ts";
import { countedByAny } from "./refusals.ts";
import { misconfigured, unavailable } from "./secrets.ts";
import { type Bytes, sha256Hex, type Verified } from "./verify.ts";

/** Answers the requests of its endpoints' paths. Null if no endpoint matches. */
export type Receiver = (
  request: Request,
  env: object,
  ctx: Incoming["ctx"],
) => Promise<Response | null>;

const FILTERED = { status: 200, verdict: "filtered" } as const;

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
  for (const given of endpoints) {
    if (!given?.path)
      throw invalid("endpoint", given, "what a preset returns, each as an argument");
    const endpoint = "respond" in given || given.tell ? given : countedByAny(given);
    for (const key of [endpoint.name, endpoint.path]) {
      if (byKey.has(key)) throw invalid("endpoint", key, "a name and a path of its own");
      byKey.set(key, endpoint);
    }
    receiverSecrets.set(endpoint.name, endpoint.bindings);
    if ("respond" in endpoint) continue;
    handlers.set(endpoint.name, {
      ...endpoint,
      handle: async (received, agent) =>
        run(endpoint, received, await arrivalOf(endpoint, received), agent),
    });
  }
  return async (request, env, ctx) => {
    const url = new URL(request.url);
    const endpoint = byKey.get(url.pathname);
    if (!endpoint) return null;
    if ("respond" in endpoint) return endpoint.respond(request, env);
    return answerInTime({
      ...endpoint,
      request,
      env,
      ctx,
      url,
      headers: request.headers,
      now: (endpoint.options.clock ?? Date).now(),
    } as Reception);
  };
}

/** One request to an endpoint. What a preset sees of it is an Incoming. */
type Reception = { -readonly [Field in keyof Incoming]: Incoming[Field] } & Reading &
  Endpoint & {
    readonly request: Request;
    /** Set once the signature is verified and the body is parsed. */
    body?: Json;
    id?: string;
    arrival?: Arrival;
    verdict?: Verdict | undefined;
  };

/** The work continues after the time limit, and when the sender closes the connection. */
function answerInTime(reception: Reception): Promise<Response> {
  const work = receive(reception).catch((error) => refuse(reception, error));
  reception.ctx.waitUntil(work);
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      // The work itself refuses a body that is still being read.
      if (!endReading(reception))
        resolve(refuse(reception, unavailable("The time limit has passed.")));
    }, reception.timeLimit);
    work.finally(() => clearTimeout(timer)).then(resolve, reject);
  });
}

/** Reads and verifies the request, and answers handshakes. */
async function receive(reception: Reception): Promise<Response> {
  const { request, headers, env, preset, maxBytes, bindings } = reception;
  if (request.method === "GET" && preset.onGet) return preset.onGet(reception);
  if (request.method !== "POST")
    throw new RefusedRequest(405, "Invalid method.", undefined, {
      allow: preset.onGet ? "POST, GET" : "POST",
    });
  const parser = parserOf(preset, headers.get("content-type"));
  const raw = await readBody(reception, request, maxBytes);
  reception.raw = raw;
  reception.hash = await sha256Hex(raw);
  const values = await Promise.all(bindings.map((name) => secretIn(env, name)));
  const found = values.filter(Boolean) as string[];
  reception.secrets = found;
  let verified: Verified | false;
  try {
    verified = found.length > 0 && (await preset.verify(reception));
  } catch (error) {
    // Because of the secret.
    misconfigured(
      bindings.filter((_, index) => values[index]),
      error,
    );
  }
  if (verified !== true) {
    // The sender may use the secret that is missing.
    if (found.length < bindings.length)
      misconfigured(bindings.filter((_, index) => !values[index]));
    throw new RefusedRequest(401, `Not verified: ${verified}.`);
  }
  const body = parse(raw, parser);
  reception.body = body;
  return preset.handshake?.(body, reception) ?? deliverAll(reception, body);
}

/** Offers the arrivals of a body, one after the other: those of one conversation keep their order. */
async function deliverAll(reception: Reception, body: Json): Promise<Response> {
  const parts = orMalformed(() => reception.preset.split?.(body));
  if (!parts?.length) return deliver(reception, body);
  let worst: { readonly rank: number; readonly response: Response } | undefined;
  for (const part of parts) {
    const raw = new TextEncoder().encode(JSON.stringify(part)) as Bytes;
    const own: Reception = { ...reception, raw, hash: await sha256Hex(raw), body: part };
    const response = await deliver(own, part).catch((error) => refuse(own, error));
    // Where one is refused, the sender repeats all of them: the others are duplicates then.
    const rank = !response.ok ? 2 : own.verdict === FILTERED.verdict ? 0 : 1;
    if (!worst || rank > worst.rank) worst = { rank, response };
  }
  return (worst as NonNullable<typeof worst>).response;
}

/** Offers the arrival to its agent. */
async function deliver(reception: Reception, body: Json): Promise<Response> {
  const { name: source, preset, options, raw, now: receivedAt } = reception;
  const { id, type, content, ...own } = orMalformed(() => preset.identify(body, reception));
  if (typeof id !== "string" || !id || typeof type !== "string" || type.length > MAX_TYPE)
    throw new RefusedRequest(400, "Invalid id or type.");
  // As the id of a workflow, it begins with no hyphen.
  reception.id = /^\w[\w-]{0,99}$/.test(id) ? id : await sha256Hex(id);
  const bytes = raw.length;
  const hash = content ? await sha256Hex(JSON.stringify(content)) : reception.hash;
  const received = { source, id: reception.id, type, body, ...own, bytes, hash, receivedAt };
  if (!clickIn(reception, body) && options.events?.includes(type) === false)
    return respond(reception, FILTERED);
  const arrival = await arrivalOf(reception, received);
  reception.arrival = arrival;
  const agent = await options.agent(arrival, reception.env as Cloudflare.Env);
  if (!agent) return respond(reception, FILTERED);
  reception.tell?.(agent, reception.ctx);
  const handle = async (_: RawArrival, calls: object) => run(reception, received, arrival, calls);
  const offered = await offer({ handle }, received, agent as AcceptsArrivals);
  const { verdict, result, error, retryAfter } = offered;
  if (result instanceof Response && !result.bodyUsed) return result;
  if (verdict !== "refused") return respond(reception, { status: 200, verdict });
  if (offered.isUnreachable) throw error;
  // The message may quote the body. It is in the agent's log of arrivals.
  const { name } = Object(error) as Error;
  throw retryAfter
    ? new RefusedRequest(429, "The agent has no room.", name, { "retry-after": `${retryAfter}` })
    : new RefusedRequest(500, "The handler failed.", name);
}

/** @throws RefusedRequest for a body that does not match the schema */
async function arrivalOf(endpoint: Endpoint, received: RawArrival): Promise<Arrival> {
  const { preset, options } = endpoint;
  const { bytes: _, hash: __, body: given = null, ...known } = received;
  let body = given;
  if (options.schema) {
    const checked = await options.schema["~standard"].validate(given);
    if (checked.issues) throw mismatch(checked.issues);
    body = checked.value;
  }
  const click = clickIn(endpoint, given)?.click;
  const reply = orMalformed(() => preset.reply?.(given, known.type)) as Destination | undefined;
  return { ...known, body, reply, ...(click && { click }) };
}

/** Decides the approval whose button was clicked, or calls the app's handler. */
function run(
  endpoint: Endpoint,
  { body = null }: RawArrival,
  arrival: Arrival,
  agent: object,
): unknown {
  const clicked = clickIn(endpoint, body);
  return clicked
    ? clicked.decide(agent as AgentCalls, arrival)
    : endpoint.options.handle?.(arrival, agent);
}

const clickIn = ({ options }: Endpoint, body: Json) => orMalformed(() => options.approvals?.(body));

type Issues = readonly {
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}[];

/** Names the paths. The messages of a schema may have values of the body. */
function mismatch(issues: Issues): RefusedRequest {
  const paths = issues.map(({ path }) =>
    path?.map((part) => (Object(part) as { key?: PropertyKey }).key ?? part).join("."),
  );
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

/** @param error a RefusedRequest, or what the app's `agent` or `schema`, or the agent itself, has thrown */
function refuse(reception: Reception, error: unknown): Response {
  const refused =
    error instanceof RefusedRequest
      ? error
      : isNameless(error)
        ? // A retry of the sender would name the same agent.
          new RefusedRequest(400, "Invalid agent.", error)
        : unavailable("The agent could not be reached.", error);
  const { status, message, reason, headers } = refused;
  const { name, id, now } = reception;
  logRefusal({ source: name, status, reason, id }, now);
  return respond(reception, { status, error: message }, headers);
}

function respond(
  reception: Reception,
  { status, ...rest }: Outcome,
  headers: Readonly<Record<string, string>> = {},
): Response {
  const { preset, id, body, arrival } = reception;
  reception.verdict = rest.verdict;
  const outcome = { ...rest, id };
  const own = body === undefined || preset.answer?.({ status, ...outcome }, body, arrival);
  return own instanceof Response ? own : Response.json(outcome, { status, headers });
}
