/** Answers requests of those that follow a submission, a thread or an approval, as server-sent events or as lines of JSON. */

import { TimeoutError, withTimeout } from "../../core/clock.ts";
import { failureOf } from "../../core/failures.ts";
import { checkNames, invalidOption, isPlainObject } from "../../core/options/options.ts";
import { eventsOf as readEvents } from "./events.ts";

/** The target of a request. */
export type Followed = {
  /** A key of `agents`. */
  readonly agent: string;
  /** The name of the instance. */
  readonly name: string;
  readonly kind: "submission" | "thread" | "approval";
  /** The id, or the name of the thread. */
  readonly id: string;
};

/** The methods that are called, as the stub of every host has them. */
type FollowedAgent = {
  followSubmission(
    id: string,
    options: { from?: string },
  ): Promise<ReadableStream<Uint8Array> | null>;
  followThread(thread: string, options: { from?: string }): Promise<ReadableStream<Uint8Array>>;
  followApproval(id: string): Promise<ReadableStream<Uint8Array> | null>;
};

export type StreamsOptions<Env = Cloudflare.Env> = {
  /** The agents, each under its name in URLs: functions that return the stub of an instance. */
  readonly agents: Readonly<Record<string, (env: Env, name: string) => object | Promise<object>>>;
  /**
   * Whether the caller may follow this. Called for each request, before a stub is made. A Response is sent as it is.
   * What it throws is logged, and answered with 500.
   */
  authorize(request: Request, env: Env, followed: Followed): Allowed | Promise<Allowed>;
  /** The path of the streams. @default "/streams" */
  readonly path?: string;
};

type Allowed = boolean | Response | null | undefined;

const KINDS = {
  submissions: "submission",
  threads: "thread",
  approvals: "approval",
} as const satisfies Record<string, Followed["kind"]>;

/** Between two signs of life, in milliseconds: proxies close silent connections, some after 30 seconds. */
const ALIVE_MS = 15_000;
/** What an EventSource waits before it connects again, in milliseconds. */
const RETRY_MS = 1_000;

const FORMATS = {
  sse: {
    start: `retry: ${RETRY_MS}\n\n`,
    alive: ": alive\n\n",
    event: ({ id, json }: { id: string; json: string }) =>
      `id: ${id.replaceAll(/[\r\n\0]/g, "")}\ndata: ${json}\n\n`,
  },
  // An empty line is no event.
  lines: { start: "\n", alive: "\n", event: ({ json }: { json: string }) => `${json}\n` },
} as const;

/** Of `authorize`, which may ask another server. */
const TIME_LIMIT_MS = 10_000;
const MOST_ID = 1_000;

/**
 * A handler for `GET <path>/<agent>/<name>/submissions/<id>`, and the same with `threads` or `approvals`. It answers with
 * server-sent events, which `EventSource` reads and resumes, and with lines of JSON for `Accept: application/x-ndjson`.
 *
 * @returns null for a request to another path
 * @throws InvalidOptionError for an invalid option
 * @example
 * const followed = streams<Env>({
 *   agents: { Support: (env, name) => env.Support.getByName(name) },
 *   authorize: async (request, env, { name }) => (await userOf(request, env)) === name,
 * });
 * export default {
 *   fetch: async (request: Request, env: Env) =>
 *     (await followed(request, env)) ?? new Response("Not found", { status: 404 }),
 * };
 */
export function streams<Env = Cloudflare.Env>(
  options: StreamsOptions<Env>,
): (request: Request, env: Env) => Promise<Response | null> {
  const { agents, authorize, path } = checked(options);
  return async (request, env) => {
    const url = new URL(request.url);
    if (!url.pathname.startsWith(`${path}/`)) return null;
    if (request.method !== "GET") {
      return refusal(405, "MethodNotAllowed", "Use GET.", { allow: "GET" });
    }
    const followed = followedOf(url.pathname.slice(path.length + 1), agents);
    if (!followed) return refusal(404, "NotFound", "There is nothing to follow at this address.");
    const refused = await refusalOf(authorize, request, env, followed);
    if (refused) return refused;
    const from = request.headers.get("last-event-id") ?? url.searchParams.get("from");
    // The status that ends an EventSource: https://html.spec.whatwg.org/multipage/server-sent-events.html
    if (from === "end") return new Response(null, { status: 204 });
    try {
      const stub = await agents[followed.agent]?.(env, followed.name);
      const events = await eventsOf(stub as FollowedAgent, followed, from ?? undefined);
      if (!events) return refusal(404, "NotFound", `Unknown ${followed.kind} ${followed.id}.`);
      return answer(request, events);
    } catch (error) {
      return refusalFor(error);
    }
  };
}

function eventsOf(
  stub: FollowedAgent,
  { kind, id }: Followed,
  from: string | undefined,
): Promise<ReadableStream<Uint8Array> | null> {
  const options = from === undefined ? {} : { from };
  if (kind === "approval") return stub.followApproval(id);
  if (kind === "thread") return stub.followThread(id, options);
  return stub.followSubmission(id, options);
}

function answer(request: Request, events: ReadableStream<Uint8Array>): Response {
  const isLines = request.headers.get("accept")?.includes("application/x-ndjson") === true;
  return new Response(textOfEvents(events, isLines ? "lines" : "sse"), {
    headers: {
      "content-type": isLines ? "application/x-ndjson" : "text/event-stream",
      "cache-control": "no-store",
      // Proxies such as nginx must not gather events.
      "x-accel-buffering": "no",
    },
  });
}

/** When the source fails, e.g. because the agent went down, the body ends: the client connects again. */
function textOfEvents(
  source: ReadableStream<Uint8Array>,
  format: keyof typeof FORMATS,
): ReadableStream<Uint8Array> {
  const { start, alive, event: textOf } = FORMATS[format];
  const encoder = new TextEncoder();
  const reader = source.getReader();
  const events = readEvents(reader);
  let timer: ReturnType<typeof setInterval> | undefined;
  let hasLeft = false;
  return new ReadableStream<Uint8Array>({
    start(controller) {
      controller.enqueue(encoder.encode(start));
      timer = setInterval(() => {
        // Nothing is added for a reader that is behind.
        if ((controller.desiredSize ?? 0) > 0) controller.enqueue(encoder.encode(alive));
      }, ALIVE_MS);
    },
    async pull(controller) {
      try {
        const { done, value } = await events.next();
        if (!done) {
          const json = JSON.stringify(value);
          return controller.enqueue(encoder.encode(textOf({ id: value.id, json })));
        }
      } catch (error) {
        if (hasLeft) return;
        console.warn("[perdure] a stream has ended early, and its client connects again:", error);
      }
      clearInterval(timer);
      controller.close();
    },
    async cancel(reason) {
      hasLeft = true;
      clearInterval(timer);
      // The agent forgets the follower.
      await reader.cancel(reason).catch(() => {});
    },
  });
}

/** The target of a path below that of the handler. */
function followedOf(path: string, agents: object): Followed | undefined {
  const parts = path.split("/");
  const [agent = "", name = "", list = "", id = ""] = parts.map(decoded);
  const kind = Object.hasOwn(KINDS, list) ? KINDS[list as keyof typeof KINDS] : undefined;
  const isValid = [name, id].every((text) => text !== "" && text.length <= MOST_ID);
  if (parts.length !== 4 || !kind || !isValid || !Object.hasOwn(agents, agent)) return undefined;
  return { agent, name, kind, id };
}

/** An empty text for what is not encoded correctly. */
function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return "";
  }
}

async function refusalOf<Env>(
  authorize: StreamsOptions<Env>["authorize"],
  request: Request,
  env: Env,
  followed: Followed,
): Promise<Response | undefined> {
  let allowed: unknown;
  try {
    const asked = Promise.resolve(authorize(request, env, followed));
    allowed = await withTimeout(asked, TIME_LIMIT_MS);
  } catch (error) {
    const { name, message } = failureOf(error);
    const reason =
      error instanceof TimeoutError
        ? "authorize() took over 10 seconds"
        : `authorize() threw ${name}: ${message}`;
    console.error(JSON.stringify({ perdure: "streams:authorize", reason }));
    return refusal(500, "InternalError", "The caller could not be checked. See the Worker's log.");
  }
  if (allowed instanceof Response) return allowed;
  if (allowed === true) return undefined;
  return refusal(403, "Forbidden", "The app's authorize() does not let the caller follow this.");
}

/** The answer for an error of the agent. Over RPC an error keeps its name, and not its class. */
function refusalFor(error: unknown): Response {
  const { name, message } = failureOf(error);
  if (name.startsWith("Invalid")) return refusal(400, name, message);
  if (name === "TooManyFollowersError") return refusal(503, name, message, { "retry-after": "5" });
  console.error(JSON.stringify({ perdure: "streams:unreachable", name, message }));
  return refusal(503, "Unreachable", "The agent could not be reached.", { "retry-after": "1" });
}

function refusal(
  status: number,
  name: string,
  message: string,
  headers: Readonly<Record<string, string>> = {},
): Response {
  return Response.json(
    { error: { name, message } },
    { status, headers: { "cache-control": "no-store", ...headers } },
  );
}

/** @throws InvalidOptionError */
function checked<Env>(options: StreamsOptions<Env>): Required<StreamsOptions<Env>> {
  checkNames("options of streams()", options ?? null, ["agents", "authorize", "path"]);
  const { agents, authorize, path = "/streams" } = options;
  if (typeof authorize !== "function") {
    throw invalidOption("authorize", authorize, "a function that returns whether to let it pass");
  }
  const isPath = typeof path === "string" && /^(\/(?!\.\.?(\/|$))[\w.~-]+){1,10}$/.test(path);
  if (!isPath || path.length > 200) {
    throw invalidOption("path", path, 'a path such as "/streams", without a slash at its end');
  }
  if (!isPlainObject(agents) || Object.keys(agents).length === 0) {
    throw invalidOption("agents", agents, "an object with at least one agent");
  }
  for (const [key, stubOf] of Object.entries(agents)) {
    if (!/^[\w.-]{1,100}$/.test(key)) {
      throw invalidOption("agents", key, "names of 1 to 100 letters, digits, dots, `-` and `_`");
    }
    if (typeof stubOf !== "function") {
      const expected = `a function such as (env, name) => env.${key}.getByName(name)`;
      throw invalidOption(`agents.${key}`, stubOf, expected);
    }
  }
  return { agents, authorize, path };
}
