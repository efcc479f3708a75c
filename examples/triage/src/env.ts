/** The bindings of wrangler.jsonc, and secrets that are set outside of it. */

import type { TriageAgent } from "./agent.ts";

export interface Env extends Cloudflare.Env {
  TriageAgent: DurableObjectNamespace<TriageAgent>;
  TRIAGE_WORKFLOW: Workflow;
  /** `offline-rules`, `openai/<model>` or `anthropic/<model>`. */
  MODEL?: string;
  /** The secret that GitHub signs its deliveries with. Without it every delivery is refused. */
  WEBHOOK_SECRET?: string;
  /** The bearer token of the operator's routes. Without it these routes refuse every request. */
  ADMIN_TOKEN?: string;
  OPENAI_API_KEY?: string;
  ANTHROPIC_API_KEY?: string;
}
