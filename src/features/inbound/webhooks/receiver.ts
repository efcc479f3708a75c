/** Receives webhooks: verifies each request, and offers its arrival to an agent. */

import type { Json } from "../../../core/json.ts";
import { secretIn } from "../../../core/secrets.ts";
import type { Destination } from "../../../outbox/destinations/index.ts";
import { handlers, isNameless, offer, receiverSecrets } from "../offer.ts";
import type { AcceptsArrivals, RawArrival } from "../protocol.ts";
import type { AgentCalls, Arrival } from "./arrival.ts";
import { endReading, parse, parserOf, type Reading, RefusedRequest, readBody } from "./body.ts";
import { invalid } from "./invalid-option.ts";
import { MAX_TYPE } from "./limits.ts";
import type { Endpoint, Incoming, Outcome, SelfAnswering } from "./preset.ts";
import { logRefusal } from "./refusal-log.ts";
import { countRefused, tellRefused } from "./refusals.ts";
import { misconfigured, unavailable } from "./secrets.ts";
import { sha256Hex, type Verified } from "./verify.ts";

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
  const byKey = new Map<string, Responder>();
  for (const endpoint of endpoints) {
    if (!endpoint?.path)
      throw invalid("endpoint", endpoint, "what a preset returns, each as an argument");
    const respond = "respond" in endpoint ? endpoint.respond : responderOf(endpoint);
    for (const key of [endpoint.name, endpoint.path]) {
      if (byKey.has(key)) throw invalid("endpoint", key, "a name and a path of its own");
      byKey.set(key, respond);
    }
    receiverSecrets.set(endpoint.name, endpoint.bindings);
  }
  return async (request, env, ctx) =>
    (await byKey.get(new URL(request.url).pathname)?.(request, env, ctx)) ?? null;
}

type Responder = (...request: Parameters<Receiver>) => Promise<Response>;

function responderOf(endpoint: Endpoint): Responder {
  handlers.set(endpoint.name, {
    ...endpoint,
    handle: async (received, agent) => (await open(endpoint, received)).handle(received, agent),
  });
  return (request, env, ctx) =>
    answerInTime({
      ...endpoint,
      request,
      env,
      ctx,
      url: new URL(request.url),
      headers: request.headers,
      now: (endpoint.options.clock ?? Date).now(),
    } as Reception);
}

/** One request to an endpoint. What a preset sees of it is an Incoming. */
type Reception = { -readonly [Field in keyof Incoming]: Incoming[Field] } & Reading &
  Endpoint & {
    readonly request: Request;
    /** Set once the signature is verified and the body is parsed. */
    body?: Json;
    id?: string;
    arrival?: Arrival;
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
      bindings.filter((_, at) => values[at]),
      error,
    );
  }
  if (verified !== true) {
    // The sender may use the secret that is missing.
    if (found.length < bindings.length) misconfigured(bindings.filter((_, at) => !values[at]));
    const isLate = verified === "timestamp outside of the tolerance";
    reception.ctx.waitUntil(countRefused(reception, isLate ? "clock" : "signature"));
    throw new RefusedRequest(401, `Not verified: ${verified}.`);
  }
  const body = parse(raw, parser);
  reception.body = body;
  const offerPart = (part: Partial<Reception>) => {
    const own = { ...reception, ...part };
    return deliver(own).catch((error) => refuse(own, error));
  };
  return (
    preset.handshake?.(body, reception) ??
    orMalformed(() => preset.offerAll?.(body, offerPart)) ??
    deliver(reception)
  );
}

/** Offers the arrival to its agent. */
async function deliver(reception: Reception): Promise<Response> {
  const { name: source, preset, options, raw, now: receivedAt, ctx } = reception;
  const body = reception.body as Json;
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
  const opened = await open(reception, received);
  const { arrival } = opened;
  reception.arrival = arrival;
  const agent = await options.agent(arrival, reception.env as Cloudflare.Env);
  if (!agent) return respond(reception, FILTERED);
  const { untold, countedBy } = reception;
  const isUntold = untold.signature + untold.clock > 0;
  // A call that is planned may find an agent of its own.
  if (isUntold && !countedBy && Date.now() > untold.calledAt)
    ctx.waitUntil(tellRefused(reception, () => agent));
  const offered = await offer(opened, received, agent as AcceptsArrivals);
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

/**
 * The arrival, and what handles it: the approval whose button was clicked, or the app.
 *
 * @throws RefusedRequest for a body that does not match the schema
 */
async function open(endpoint: Endpoint, received: RawArrival) {
  const { preset, options } = endpoint;
  const { bytes: _, hash: __, body: given = null, ...known } = received;
  let body = given;
  if (options.schema) {
    const checked = await options.schema["~standard"].validate(given);
    if (checked.issues) throw mismatch(checked.issues);
    body = checked.value;
  }
  const clicked = clickIn(endpoint, given);
  const reply = orMalformed(() => preset.reply?.(given, known.type)) as Destination | undefined;
  const arrival: Arrival = { ...known, body, reply, ...(clicked && { click: clicked.click }) };
  const handle = async (_: RawArrival, agent: object): Promise<unknown> =>
    clicked ? clicked.decide(agent as AgentCalls, arrival) : options.handle?.(arrival, agent);
  return { arrival, handle };
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
  { preset, id, body, arrival }: Reception,
  { status, ...rest }: Outcome,
  headers: Readonly<Record<string, string>> = {},
): Response {
  const outcome = { ...rest, id };
  const own = body !== undefined && preset.answer?.({ status, ...outcome }, body, arrival);
  return own || Response.json(outcome, { status, headers });
}
