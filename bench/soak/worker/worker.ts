/**
 * The HTTP routes of the soak, for its driver only: they do not authenticate callers.
 *
 *   POST /<agent>/<verb>   calls the verb with the body as its argument, and returns its result
 *   POST /-/wake           resumes the workflows with the ids of the body, without a call of their agents
 *   POST /-/terminate      terminates them, without a call of their agents
 *   POST /-/statuses       returns their status of the platform
 *   GET  /health
 */

import { getAgentByName } from "agents";
import type { Ask, Plan } from "../words.ts";
import type { Env, SoakApp } from "./agents.ts";

export { Helper, SoakAgent, SoakChat, SoakObject, SoakThink } from "./agents.ts";
export { SoakWorkflow } from "./workflow.ts";

type Verb = (agent: DurableObjectStub<SoakApp>, body: unknown) => Promise<unknown>;

const VERBS: Readonly<Record<string, Verb>> = {
  begin: (agent, plan) => agent.begin(plan as Plan),
  submit: (agent, ask) => agent.submit(ask as Ask),
  cancel: (agent, id) => agent.cancel(id as string),
  grantAll: (agent) => agent.grantAll(),
  clearMain: (agent) => agent.clearMain(),
  clearSide: (agent) => agent.clearSide(),
  reset: (agent) => agent.reset(),
  submitMalformed: (agent) => agent.submitMalformed(),
  pauseTasks: (agent) => agent.pauseTasks(),
  look: (agent) => agent.look(),
};

export default {
  async fetch(request, env) {
    const [name = "", verb = ""] = new URL(request.url).pathname.slice(1).split("/");
    if (name === "health") return Response.json({ ok: true });
    if (name === "-") {
      const ids: string[] = await request.json();
      if (verb === "terminate") await terminate(env, ids);
      return Response.json(await statuses(env, ids, verb === "wake"));
    }
    const call = VERBS[verb];
    if (call === undefined) return new Response(`There is no verb ${verb}`, { status: 404 });
    // The end of the name is the host.
    const host = name.slice(name.indexOf("-") + 1);
    const namespace =
      host === "agent" ? env.SoakAgent : host === "chat" ? env.SoakChat : env.SoakThink;
    const agent =
      host === "object" ? env.SoakObject.getByName(name) : await getAgentByName(namespace, name);
    return Response.json((await call(agent, await request.json())) ?? null);
  },
} satisfies ExportedHandler<Env>;

/**
 * Cloudflare resumes workflows after a machine failure. The local engine resumes a workflow only when it receives an event.
 * No workflow waits for this event.
 */
async function statuses(env: Env, ids: readonly string[], wakes: boolean) {
  const found = ids.map(async (id) => {
    try {
      const instance = await env.SOAK.get(id);
      const { status, error } = await instance.status();
      const isOver = ["complete", "errored", "terminated"].includes(status);
      if (wakes && !isOver) await instance.sendEvent({ type: "wake", payload: {} });
      return [id, error ? `${status}: ${error.name}: ${error.message}` : status] as const;
    } catch (error) {
      return [id, String(error)] as const;
    }
  });
  return Object.fromEntries(await Promise.all(found));
}

async function terminate(env: Env, ids: readonly string[]): Promise<void> {
  for (const id of ids) {
    const instance = await env.SOAK.get(id);
    const { status } = await instance.status();
    if (!["complete", "errored", "terminated"].includes(status)) await instance.terminate();
  }
}
