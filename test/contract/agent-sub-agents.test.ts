import { env } from "cloudflare:workers";
import { getSubAgentByName } from "agents";
import { contract } from "./contract.ts";
import type { Verbs } from "./host.ts";
import { AgentHost } from "./hosts/agent-host.ts";

contract({
  name: "perdure/agent",
  isSubAgent: true,
  objects: env.AgentHost as unknown as DurableObjectNamespace<undefined>,
  at: async (name) =>
    (await getSubAgentByName(
      env.AgentHost.getByName(name) as never,
      AgentHost,
      name,
    )) as unknown as Verbs,
  workflow: "CONTRACT_WORKFLOW",
  workflows: env.CONTRACT_WORKFLOW,
});
