/** Requests to the receiver, which is outside of the runtime that is killed. */

import type { SoakApp } from "./agents.ts";

export interface Env extends Cloudflare.Env {
  SoakThink: DurableObjectNamespace<SoakApp>;
  SoakAgent: DurableObjectNamespace<SoakApp>;
  SoakChat: DurableObjectNamespace<SoakApp>;
  SoakObject: DurableObjectNamespace<SoakApp>;
  SOAK: Workflow;
  /** The URL of the receiver. */
  RECEIVER: string;
  HOOK_SECRET: string;
  /** The names of the agents, separated by commas. */
  AGENTS: string;
}

/** @throws Error unless the receiver accepts it */
export async function tell(env: Env, path: string, body: object): Promise<void> {
  const response = await fetch(`${env.RECEIVER}/${path}`, {
    method: "POST",
    body: JSON.stringify(body),
  });
  if (!response.ok) throw new Error(`The receiver answered ${response.status}`);
  await response.body?.cancel();
}
