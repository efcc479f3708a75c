/** Which agents operators see, and who is an operator. */

import { createHash, timingSafeEqual } from "node:crypto";
import type { OperatorOptions } from "perdure/operator";
import type { Env } from "./agent.ts";

export const operators: OperatorOptions<Env> = {
  agents: {
    TriageAgent: {
      namespace: (env) => env.TriageAgent,
      names: (env, page) => env.Directory.getByName("all").page(page),
    },
  },
  authorize: (request, env) => (isOperator(request, env) ? { id: "operator", can: "act" } : null),
};

export function isOperator(request: Request, { ADMIN_TOKEN, OPEN_DASHBOARD }: Env): boolean {
  if (OPEN_DASHBOARD && new URL(request.url).hostname === "127.0.0.1") return true;
  // Comparing hashes takes constant time.
  const hash = (text: string) => createHash("sha256").update(text).digest();
  const given = request.headers.get("Authorization") ?? "";
  return !!ADMIN_TOKEN && timingSafeEqual(hash(given), hash(`Bearer ${ADMIN_TOKEN}`));
}
