/** An MCP server for assistants that operate agents. It keeps no state: each call goes through the operator API. */

import { type CreateMcpHandlerOptions, createMcpHandler } from "agents/mcp/server";
import { checkNames, invalidOption } from "../../core/options/options.ts";
import { httpErrorOf } from "../api/errors.ts";
import { identityOf } from "../api/guard.ts";
import { answerAs, bytesOf } from "../api/handler.ts";
import { checkOptions, type Identity, type OperatorOptions } from "../api/options.ts";
import { OperatorClient } from "../client.ts";
import { operatorServerOf } from "./operator-tools.ts";

export interface OperatorMcpOptions<Env = Cloudflare.Env>
  extends OperatorOptions<Env>,
    Pick<CreateMcpHandlerOptions, "allowedHostnames" | "allowedOriginHostnames"> {
  /** @default "/perdure/mcp" */
  readonly path?: string;
  /**
   * Whether the tools that change something are there, for callers who may act. No tool decides an approval: an assistant
   * that is an agent could approve what it has asked for itself.
   * @default false
   */
  readonly write?: boolean;
}

export type OperatorMcpHandler<Env = Cloudflare.Env> = (
  request: Request,
  env: Env,
  ctx: ExecutionContext,
) => Promise<Response | null>;

const NAMES = [
  "agents",
  "authorize",
  "path",
  "write",
  "allowedHostnames",
  "allowedOriginHostnames",
];
/** Of a request, and of an answer. */
const MAX_BYTES = 262_144;

/**
 * Makes an MCP server with the tools `report`, `list`, `get`, `trace` and others for what agents have. Needs
 * `@modelcontextprotocol/server` and the flag `nodejs_compat`.
 *
 * @throws InvalidOptionError
 * @example
 * const tools = operatorMcp<Env>({
 *   agents: { Support: { namespace: (env) => env.Support, names: ["main"] } },
 *   authorize: (request, env) =>
 *     request.headers.get("authorization") === `Bearer ${env.ADMIN_TOKEN}` ? { id: "assistant", can: "read" } : null,
 * });
 */
export function operatorMcp<Env = Cloudflare.Env>(
  options: OperatorMcpOptions<Env>,
): OperatorMcpHandler<Env> {
  const where = "operatorMcp()";
  checkNames(`the options of ${where}`, options ?? null, NAMES);
  const { agents, authorize, path = "/perdure/mcp", write = false } = options;
  if (typeof write !== "boolean") throw invalidOption("write", write, "true or false");
  const checked = checkOptions(where, { agents, authorize, path });
  const { allowedHostnames, allowedOriginHostnames } = options;
  const handlerOptions = {
    route: path,
    ...(allowedHostnames !== undefined && { allowedHostnames }),
    ...(allowedOriginHostnames !== undefined && { allowedOriginHostnames }),
  };
  const serverFor = (identity: Identity, env: Env) => () =>
    operatorServerOf({
      server: { name: "perdure-operator", version: "1.0.0" },
      client: clientOf((request) => answerAs(identity, request, env, checked), path),
      write: write && identity.can === "act",
      maxOutputBytes: MAX_BYTES,
    });
  return async (request, env, ctx) => {
    if (new URL(request.url).pathname !== path) return null;
    try {
      const identity = await identityOf(request, env, checked);
      if (identity instanceof Response) return identity;
      const { url, method, headers, signal } = request;
      const body = await bytesOf(request, MAX_BYTES);
      const read = { method, headers, signal, ...(body.byteLength > 0 && { body }) };
      const handler = createMcpHandler(serverFor(identity, env), handlerOptions);
      return await handler(new Request(url, read), env, ctx);
    } catch (error) {
      const { status, message, headers } = httpErrorOf(error);
      return Response.json({ error: message }, { status, headers });
    }
  };
}

/** A client of the API in this Worker, as this caller. */
function clientOf(answer: (request: Request) => Promise<Response>, path: string): OperatorClient {
  return new OperatorClient({
    url: `http://operator${path}`,
    fetch: async (url, init) => {
      try {
        return await answer(new Request(url as string, init));
      } catch (error) {
        const { status, name, message } = httpErrorOf(error);
        return Response.json({ error: { name, message } }, { status });
      }
    },
  });
}
