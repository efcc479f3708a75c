/** Receives webhooks: verifies each request, and offers its delivery to an agent. */

import { systemClock } from "../core/clock.ts";
import { failureOf } from "../core/failures.ts";
import type { Json } from "../core/json.ts";
import { InvalidOptionError, invalidOption } from "../core/options.ts";
import { handlers, type Offered, offer } from "../inbound/offer.ts";
import type { AcceptsDeliveries, Arrival } from "../inbound/protocol.ts";
import type { Destination } from "../outbox/types.ts";
import { BodyReader, parse, parserOf, RefusedRequest } from "./body.ts";
import type { InboundDelivery } from "./delivery.ts";
import type { AgentCalls, Endpoint, Incoming, Outcome } from "./preset.ts";
import { RefusalLog } from "./refusal-log.ts";
import { sha256Hex, UnusableSecretError } from "./verify.ts";

/** Answers the requests of its endpoints' paths. Null: the path is none of them. */
export type Receiver = (
  request: Request,
  env: object,
  ctx: { waitUntil(work: Promise<unknown>): void },
) => Promise<Response | null>;

/** When a sender may try again, in seconds. */
const RETRY_AFTER = 30;
const RETRY = { "retry-after": String(RETRY_AFTER) };
const MAX_TYPE = 200;
/** Paths in the answer to a body that does not match its schema. */
const MAX_PATHS = 10;

const log = new RefusalLog();

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
export function webhooks(...endpoints: readonly Endpoint[]): Receiver {
  const byPath = new Map<string, Endpoint>();
  const names = new Set<string>();
  for (const endpoint of endpoints) {
    const { name, path, preset } = endpoint ?? {};
    if (!preset)
      throw invalidOption("endpoint", endpoint, "what a preset returns, e.g. github({ ... })");
    const repeated = names.has(name) ? "name" : byPath.has(path) ? "path" : undefined;
    if (repeated) {
      const message = `Two endpoints have the ${repeated} ${JSON.stringify(endpoint[repeated])}: give each one a ${repeated} of its own.`;
      throw new InvalidOptionError(repeated, message);
    }
    byPath.set(path, endpoint);
    names.add(name);
  }
  for (const endpoint of endpoints) {
    handlers.set(endpoint.name, {
      name: endpoint.name,
      handle: async (arrival, agent) => run(endpoint, await deliveryOf(endpoint, arrival), agent),
    });
  }
  return async (request, env, ctx) => {
    const endpoint = byPath.get(new URL(request.url).pathname);
    if (!endpoint) return null;
    if (typeof ctx?.waitUntil !== "function")
      throw invalidOption("ctx", ctx, "the third parameter of fetch(), or ctx of the agent");
    return new Reception(endpoint, request, env).answerInTime(ctx);
  };
}

/** One request. */
class Reception {
  readonly #reader = new BodyReader();
  readonly #clock;
  /** Set once the signature is verified and the body is parsed. */
  #body: Json | undefined;
  #delivery: InboundDelivery | undefined;
  #id: string | undefined;

  constructor(
    private readonly endpoint: Endpoint,
    private readonly request: Request,
    private readonly env: object,
  ) {
    this.#clock = endpoint.options.clock ?? systemClock;
  }

  /** Answers within the time limit. The work continues after it, and when the sender has closed the connection. */
  async answerInTime(ctx: Parameters<Receiver>[2]): Promise<Response> {
    const { promise: late, resolve } = Promise.withResolvers<undefined>();
    const timer = setTimeout(resolve, this.endpoint.timeLimit);
    const work = this.#answer();
    ctx.waitUntil(work);
    const response = await Promise.race([work, late]);
    clearTimeout(timer);
    if (response) return response;
    // A body that is still being read is refused by the work itself.
    if (this.#reader.cancel()) return work;
    return this.#refuse(new RefusedRequest(503, "The time limit has passed.", RETRY));
  }

  /** Never rejects. */
  async #answer(): Promise<Response> {
    try {
      return await this.#receive();
    } catch (error) {
      if (error instanceof RefusedRequest) return this.#refuse(error);
      // The app's `agent` or `schema`, or a preset.
      return this.#refuse(failed(isTransient(error) ? 503 : 500, error));
    }
  }

  async #receive(): Promise<Response> {
    const { preset, options } = this.endpoint;
    const { method, headers } = this.request;
    const isGet = method === "GET" && preset.onGet !== undefined;
    if (method !== "POST" && !isGet) {
      const allow = preset.onGet ? "POST, GET" : "POST";
      throw new RefusedRequest(405, `Invalid method: expected ${allow}.`, { allow });
    }
    const parser = isGet ? undefined : parserOf(preset, headers.get("content-type"));
    const incoming = await this.#read(isGet);
    if (!parser) return (await preset.onGet?.(incoming)) as Response;
    await this.#verify(incoming);
    const body = parse(incoming.raw, parser);
    this.#body = body;
    const handshake = preset.handshake?.(body, incoming);
    if (handshake) return handshake;
    const arrival = await this.#identify(body, incoming);
    if (options.events && !options.events.includes(arrival.type)) return this.#filtered();
    const delivery = await deliveryOf(this.endpoint, arrival);
    this.#delivery = delivery;
    const agent = await options.agent(delivery, this.env as Cloudflare.Env);
    if (!agent) return this.#filtered();
    const handle = async (_: Arrival, calls: object) => run(this.endpoint, delivery, calls);
    const handler = { name: this.endpoint.name, handle };
    return this.#answerOf(await offer(handler, arrival, agent as AcceptsDeliveries));
  }

  async #read(isGet: boolean): Promise<Incoming> {
    const { request, env, endpoint } = this;
    const raw = isGet ? new Uint8Array() : await this.#reader.read(request, endpoint.maxBytes);
    const found = await Promise.all(endpoint.secrets.map((name) => secretIn(env, name)));
    const secrets = found.filter((value) => value !== undefined);
    if (secrets.length === 0) throw missing(endpoint.secrets);
    return {
      method: request.method,
      url: new URL(request.url),
      headers: request.headers,
      raw,
      hash: await sha256Hex(raw),
      secrets,
      secretOf: async (name) => {
        const value = await secretIn(env, name);
        if (value === undefined) throw missing([name]);
        return value;
      },
      now: this.#clock.now(),
      tolerance: endpoint.tolerance,
    };
  }

  async #verify(incoming: Incoming): Promise<void> {
    const { preset, secrets } = this.endpoint;
    try {
      const verified = await preset.verify(incoming);
      if (verified === true) return;
      // The missing one may be the one that the sender uses.
      if (incoming.secrets.length < secrets.length) throw missing(secrets);
      throw new RefusedRequest(401, `Not verified: ${verified}.`);
    } catch (error) {
      if (!(error instanceof UnusableSecretError)) throw error;
      throw misconfigured(secrets, error.message);
    }
  }

  async #identify(body: Json, incoming: Incoming): Promise<Arrival> {
    const { preset, name } = this.endpoint;
    const { id, type } = orMalformed(() => preset.identify(body, incoming));
    if (typeof id !== "string" || id === "")
      throw new RefusedRequest(400, "Missing id of the delivery.");
    if (typeof type !== "string" || type.length > MAX_TYPE)
      throw new RefusedRequest(400, `Invalid type: expected at most ${MAX_TYPE} characters.`);
    this.#id = /^[\w-]{1,100}$/.test(id) ? id : await sha256Hex(id);
    return {
      source: name,
      id: this.#id,
      type,
      body,
      bytes: incoming.raw.length,
      hash: incoming.hash,
      receivedAt: incoming.now,
    };
  }

  #filtered(): Response {
    return this.#respond({ status: 200, verdict: "filtered" });
  }

  #answerOf({ verdict, result, error, retryAfter, isUnreachable }: Offered): Response {
    if (result instanceof Response) return result;
    if (verdict !== "refused") return this.#respond({ status: 200, verdict });
    const status = isUnreachable ? 503 : retryAfter === undefined ? 500 : 429;
    return this.#refuse(failed(status, error, retryAfter), verdict);
  }

  #refuse({ status, message, headers, reason }: RefusedRequest, verdict?: "refused"): Response {
    const line = { source: this.endpoint.name, status, message: reason, id: this.#id };
    log.write(line, this.#clock.now());
    return this.#respond({ status, ...(verdict && { verdict }), error: message }, headers);
  }

  #respond(outcome: Outcome, headers: Readonly<Record<string, string>> = {}): Response {
    const { status, ...rest } = outcome;
    const known = { ...rest, ...(this.#id !== undefined && { id: this.#id }) };
    const own =
      this.#body === undefined
        ? undefined
        : this.endpoint.preset.answer?.({ status, ...known }, this.#body, this.#delivery);
    return own ?? Response.json(known, { status, headers });
  }
}

/** The preset's own handling, e.g. of a click, or the app's. */
function run({ preset, options }: Endpoint, delivery: InboundDelivery, agent: object): unknown {
  return preset.handle?.(delivery, agent as AgentCalls) ?? options.handle?.(delivery, agent);
}

/** @throws RefusedRequest for a body that does not match the schema */
async function deliveryOf(endpoint: Endpoint, arrival: Arrival): Promise<InboundDelivery> {
  const { preset, options } = endpoint;
  const { source, id, type, body: given = null, receivedAt } = arrival;
  let body = given;
  if (options.schema) {
    const checked = await options.schema["~standard"].validate(given);
    if (checked.issues) throw mismatch(checked.issues);
    body = checked.value;
  }
  const { reply, click } = orMalformed(() => ({
    reply: preset.reply?.(given, type) as Destination | undefined,
    click: preset.click?.(given, type),
  }));
  return { source, id, type, body, receivedAt, reply, ...(click && { click }) };
}

type Issues = readonly {
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}[];

/** Names the paths. The messages of a schema may have values of the body. */
function mismatch(issues: Issues): RefusedRequest {
  const paths = issues.slice(0, MAX_PATHS).map(({ path = [] }) => {
    const keys = path.map((part) => String(typeof part === "object" ? part.key : part));
    return keys.join(".").slice(0, 100) || "the body itself";
  });
  return new RefusedRequest(400, `The body does not match its schema at ${paths.join(", ")}.`);
}

function orMalformed<T>(read: () => T): T {
  try {
    return read();
  } catch {
    throw new RefusedRequest(400, "Invalid body: not of the sender's form.");
  }
}

function failed(status: 429 | 500 | 503, error: unknown, retryAfter = RETRY_AFTER): RefusedRequest {
  const messages = {
    429: "The agent has no room.",
    500: "The handler failed.",
    503: "The agent could not be reached.",
  };
  const headers = status === 500 ? undefined : { "retry-after": String(retryAfter) };
  const { name, message } = failureOf(error);
  return new RefusedRequest(status, messages[status], headers, `${name}: ${message}`);
}

/** Errors of the platform's stubs: https://developers.cloudflare.com/durable-objects/best-practices/error-handling/ */
function isTransient(error: unknown): boolean {
  const { retryable, overloaded } = (error ?? {}) as Record<string, unknown>;
  return retryable === true || overloaded === true;
}

/** A secret of env: a string, or a binding of the Secrets Store. Undefined: missing or empty. */
async function secretIn(env: object, name: string): Promise<string | undefined> {
  const binding = (env as Record<string, unknown>)[name];
  const value = typeof binding === "string" ? binding : await stored(binding);
  return typeof value === "string" && value !== "" ? value : undefined;
}

async function stored(binding: unknown): Promise<unknown> {
  try {
    return await (binding as { get?(): Promise<unknown> } | undefined)?.get?.();
  } catch {
    // Answered and logged as a missing secret.
    return undefined;
  }
}

function missing(names: readonly string[]): RefusedRequest {
  return misconfigured(names, "expected a string that is not empty");
}

/** The log names the bindings, the answer does not. */
function misconfigured(names: readonly string[], expected: string): RefusedRequest {
  const reason = `Invalid secret env.${names.join(" or env.")}: ${expected}.`;
  return new RefusedRequest(503, "A secret is missing or invalid.", RETRY, reason);
}
