/**
 * The HTTP routes of the examples, for local use: they do not authenticate users.
 *
 *   POST /run/<example>          starts it with the body as its params, and returns the id
 *   GET  /run/<example>/<id>     returns its status, output and error
 *   GET  /approvals              lists the pending approvals
 *   POST /approvals/<id>         grants it, with the body: { payload, by, reason }
 *   GET  /health
 */

import { getAgentByName } from "agents";
import { capabilitiesOf } from "perdure/think";
import type { Env } from "./agents.ts";

export { CodemodeRuntime } from "@cloudflare/codemode";
export { Desk, Researcher } from "./agents.ts";
export { AgentToolExample } from "./workflows/agent-tool.ts";
export { ApprovalExample } from "./workflows/approval.ts";
export { CodemodeExample } from "./workflows/codemode.ts";
export { PromptExample } from "./workflows/prompt.ts";
export { PromptAllExample } from "./workflows/prompt-all.ts";
export { SleepUntilNextExample } from "./workflows/sleep-until-next.ts";

/** Bindings of the workflows, by the examples' names. */
const EXAMPLES: Readonly<Record<string, string>> = {
  prompt: "PROMPT",
  "prompt-all": "PROMPT_ALL",
  approval: "APPROVAL",
  "agent-tool": "AGENT_TOOL",
  codemode: "CODEMODE",
  "sleep-until-next": "SLEEP_UNTIL_NEXT",
};

export default {
  async fetch(request, env) {
    const [what = "", name = "", id] = new URL(request.url).pathname.slice(1).split("/");
    const desk = await getAgentByName(env.Desk, "front");
    if (what === "health") return Response.json({ ok: true });
    if (what === "approvals" && name === "")
      return Response.json(await capabilitiesOf(desk).approvals.list());
    if (what === "approvals") {
      return Response.json(await capabilitiesOf(desk).approvals.grant(name, await request.json()));
    }
    const binding = EXAMPLES[name];
    if (what !== "run" || binding === undefined) {
      const known = Object.keys(EXAMPLES).join(", ");
      return Response.json(
        { error: `There is no such example; there are ${known}.` },
        { status: 404 },
      );
    }
    if (id === undefined)
      return Response.json({ id: await desk.run(binding, await request.json()) });
    return Response.json(await desk.statusOf(binding, id));
  },
} satisfies ExportedHandler<Env>;
