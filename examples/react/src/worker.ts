/** Routes the page's WebSocket to the agent; the page itself is served from `public`. For local use: it does not authenticate users. */

import { routeAgentRequest } from "agents";
import type { Env } from "./agent.ts";

export { Desk } from "./agent.ts";
export { SendWorkflow } from "./workflow.ts";

export default {
  async fetch(request, env) {
    if (new URL(request.url).pathname === "/health") return Response.json({ ok: true });
    const response = await routeAgentRequest(request, env);
    return response ?? new Response("Not found", { status: 404 });
  },
} satisfies ExportedHandler<Env>;
