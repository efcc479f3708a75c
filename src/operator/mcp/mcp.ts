/** An MCP server that lets other agents and models submit work to an agent. */

import { type CreateMcpHandlerOptions, createMcpHandler } from "agents/mcp/server";
import { bytesUpTo } from "../../core/bytes-up-to.ts";
import { systemClock } from "../../core/clock.ts";
import { failureOf } from "../../core/failures.ts";
import {
  checkNames,
  countOf,
  DURATION_FORMS,
  type Duration,
  invalidOption,
  millisecondsOf,
} from "../../core/options/options.ts";
import { logRefusal } from "../../features/inbound/webhooks/refusal-log.ts";
import { type McpAgent, type McpIdentity, serverOf } from "./tools.ts";

/** Answers MCP requests to its path. Null: the path is another one. */
export type McpReceiver = (
  request: Request,
  env: Cloudflare.Env,
  ctx: ExecutionContext,
) => Promise<Response | null>;

export interface McpOptions
  extends Pick<
    CreateMcpHandlerOptions,
    "allowedHostnames" | "allowedOriginHostnames" | "corsOptions"
  > {
  /**
   * The caller's identity. False or undefined: the request is answered with 401. Check a token here; requests of
   * `OAuthProvider` are checked already. Without this option there is no server. An identity whose `id` is not a text of 1 to
   * 200 characters is answered with 401, too, and logged. When this throws, the answer is 503.
   */
  authorize(
    request: Request,
    env: Cloudflare.Env,
    ctx: ExecutionContext,
  ): McpIdentity | false | undefined | Promise<McpIdentity | false | undefined>;
  /**
   * The agent that the identity may use, as a stub. The caller chooses threads, and any thread of this agent: select another
   * agent for callers that must not share a conversation.
   */
  agent(identity: McpIdentity, env: Cloudflare.Env): object | Promise<object>;
  /** @default "/mcp" */
  readonly path?: string;
  /**
   * The name of the server, which clients show.
   * @default "perdure"
   */
  readonly name?: string;
  /** @default "1.0.0" */
  readonly version?: string;
  /**
   * What `inspect` and `cancel` find: what the same identity has submitted by this server, or everything in the agent.
   * @default "own"
   */
  readonly visibility?: "own" | "all";
  /**
   * How long `submit` and `inspect` may wait for the end of a submission, at most 5 minutes.
   * @default "30 seconds"
   */
  readonly maxWait?: Duration;
  /**
   * Bytes of an output as JSON, at most 10 MiB. A result with a larger one has `outputBytes` in place of `output`.
   * @default 262_144
   */
  readonly maxOutputBytes?: number;
  /**
   * Bytes of a request, at most 10 MiB.
   * @default 1_048_576
   */
  readonly maxBytes?: number;
}

const NAMES = [
  ...["authorize", "agent", "path", "name", "version", "visibility", "maxWait", "maxOutputBytes"],
  ...["maxBytes", "allowedHostnames", "allowedOriginHostnames", "corsOptions"],
];
const MIB = 1_048_576;
const MAX_WAIT_MS = 5 * 60_000;
/** Of the id of an identity. */
const MAX_ID = 200;

/**
 * Makes an MCP server with the tools `submit`, `inspect` and `cancel`. It keeps no state: the agent has the submissions. Needs
 * `@modelcontextprotocol/server` and the flag `nodejs_compat`.
 *
 * @throws InvalidOptionError
 * @example
 * const tools = mcp({
 *   authorize: (request, env) =>
 *     request.headers.get("authorization") === `Bearer ${env.MCP_TOKEN}` && { id: "ops" },
 *   agent: ({ id }, env) => getAgentByName(env.Assistant, id),
 * });
 * export default {
 *   fetch: async (request, env, ctx) =>
 *     (await tools(request, env, ctx)) ?? new Response("Not found", { status: 404 }),
 * };
 */
export function mcp(options: McpOptions): McpReceiver {
  const { path, maxBytes, ...limits } = settingsOf(options);
  const { allowedHostnames, allowedOriginHostnames, corsOptions } = options;
  const handlerOptions = {
    route: path,
    ...(allowedHostnames !== undefined && { allowedHostnames }),
    ...(allowedOriginHostnames !== undefined && { allowedOriginHostnames }),
    ...(corsOptions !== undefined && { corsOptions }),
  };
  const source = `mcp:${limits.server.name}`;
  return async (request, env, ctx) => {
    if (new URL(request.url).pathname !== path) return null;
    const serve = (identity: McpIdentity, checked: Request) => {
      const agent = async () => (await options.agent(identity, env)) as McpAgent;
      const handler = createMcpHandler(
        () => serverOf({ ...limits, agent, identity }),
        handlerOptions,
      );
      return handler(checked, env, ctx);
    };
    // A browser's question about CORS has no token, and its answer has no data.
    if (request.method === "OPTIONS") return serve({ id: "" }, request);
    const log = (status: number, reason: string) =>
      logRefusal({ source, status, reason, id: undefined }, systemClock.now());
    let identity: Awaited<ReturnType<McpOptions["authorize"]>>;
    try {
      identity = await options.authorize(request, env, ctx);
    } catch (error) {
      const { name, message } = failureOf(error);
      log(503, `authorize() threw ${name}: ${message}`);
      const text = "The caller could not be checked now. Try again later.";
      return Response.json({ error: text }, { status: 503 });
    }
    const problem = problemOfIdentity(identity);
    if (problem !== undefined) log(401, problem);
    if (problem !== undefined || !identity) {
      const headers = { "www-authenticate": "Bearer" };
      return Response.json({ error: "Not authorized" }, { status: 401, headers });
    }
    const body = await bytesUpTo(request.body, maxBytes);
    if (body === undefined) {
      return Response.json({ error: `Expected at most ${maxBytes} bytes` }, { status: 413 });
    }
    const { url, method, headers, signal } = request;
    const hasBody = body.byteLength > 0;
    return serve(identity, new Request(url, { method, headers, signal, ...(hasBody && { body }) }));
  };
}

function settingsOf(options: McpOptions) {
  checkNames("the options of mcp()", options, NAMES);
  const { authorize, agent, path = "/mcp", name = "perdure", version = "1.0.0" } = options;
  const { visibility = "own", maxWait = "30 seconds" } = options;
  const { maxOutputBytes = MIB / 4, maxBytes = MIB } = options;
  if (typeof authorize !== "function") throw invalidOption("authorize", authorize, "a function");
  if (typeof agent !== "function") throw invalidOption("agent", agent, "a function");
  if (typeof path !== "string" || !/^\/[^?#\s]{0,199}$/.test(path)) {
    throw invalidOption("path", path, 'a path such as "/mcp"');
  }
  for (const [option, value] of Object.entries({ name, version })) {
    const isText = typeof value === "string" && value.length > 0 && value.length <= 100;
    if (!isText) throw invalidOption(option, value, "1 to 100 characters");
  }
  if (visibility !== "own" && visibility !== "all") {
    throw invalidOption("visibility", visibility, '"own" or "all"');
  }
  const maxWaitMs = millisecondsOf(maxWait);
  if (maxWaitMs === undefined || maxWaitMs > MAX_WAIT_MS) {
    throw invalidOption("maxWait", maxWait, `${DURATION_FORMS}, at most 5 minutes`);
  }
  return {
    path,
    server: { name, version },
    isOwnOnly: visibility === "own",
    maxWaitSeconds: maxWaitMs / 1_000,
    maxOutputBytes: countOf("maxOutputBytes", maxOutputBytes, 10 * MIB),
    maxBytes: countOf("maxBytes", maxBytes, 10 * MIB),
  };
}

/** Why an identity is not accepted, without the id. Undefined also without an identity. */
function problemOfIdentity(identity: unknown): string | undefined {
  if (identity === undefined || identity === null || identity === false) return undefined;
  const given = () => {
    if (typeof identity !== "object") return `a ${typeof identity}`;
    const { id } = identity as Partial<Record<"id", unknown>>;
    if (typeof id !== "string") return `an id of type ${typeof id}`;
    if (id.length === 0 || id.length > MAX_ID) return `an id of ${id.length} characters`;
    return id.isWellFormed() ? undefined : "an id with half a character";
  };
  const problem = given();
  if (problem === undefined) return undefined;
  const remedy = `Return { id } with a text of 1 to ${MAX_ID} characters, or false to refuse the request.`;
  return `authorize() returned ${problem}. ${remedy}`;
}
