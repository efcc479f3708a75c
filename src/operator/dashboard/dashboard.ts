/** `dashboard()`: the operator API with a page. */

import { handlerOf, type OperatorHandler } from "../api/handler.ts";
import type { OperatorOptions } from "../api/options.ts";
import { SCRIPT, STYLE } from "./page.generated.ts";

/**
 * Serves the operators' page at `/perdure`, and the operator API below it. The page needs no build and loads nothing from
 * elsewhere. Who gets in is what `authorize` says.
 *
 * @throws InvalidOptionError
 * @example
 * const operators = dashboard<Env>({
 *   agents: { Support: { namespace: (env) => env.Support, names: ["main"] } },
 *   authorize: (request, env) => accessOf(request, env), // { id, can: "read" | "act" }, or null
 * });
 * export default {
 *   fetch: async (request, env) =>
 *     (await operators(request, env)) ?? new Response("Not found", { status: 404 }),
 * };
 */
export function dashboard<Env = Cloudflare.Env>(
  options: OperatorOptions<Env>,
): OperatorHandler<Env> {
  return handlerOf("dashboard()", options, page);
}

function page(request: Request, path: string): Response {
  if (request.method !== "GET" && request.method !== "HEAD") {
    return new Response("Method not allowed", { status: 405, headers: { allow: "GET, HEAD" } });
  }
  const nonce = crypto.randomUUID();
  const body = `<!doctype html>
<html lang="en" data-base="${path}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<title>Perdure</title>
<link rel="icon" href="data:,">
<style nonce="${nonce}">${STYLE}</style>
</head>
<body><noscript>This page needs JavaScript.</noscript><script type="module" nonce="${nonce}">${SCRIPT}</script></body>
</html>`;
  return new Response(request.method === "HEAD" ? null : body, { headers: headersOf(nonce) });
}

/** Scripts and styles of this answer alone run, and requests go to this origin alone. */
function headersOf(nonce: string): HeadersInit {
  const policy = [
    "default-src 'none'",
    `script-src 'nonce-${nonce}'`,
    `style-src 'nonce-${nonce}'`,
    "connect-src 'self'",
    "img-src data:",
    ...["base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"],
  ];
  return {
    "content-type": "text/html; charset=utf-8",
    "content-security-policy": policy.join("; "),
    "cache-control": "no-store",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
  };
}
