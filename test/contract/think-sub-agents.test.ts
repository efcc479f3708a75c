import { env } from "cloudflare:workers";
import { getSubAgentByName } from "agents";
import { contract } from "./contract.ts";
import type { Verbs } from "./host.ts";
import { ThinkHost } from "./hosts/think-host.ts";

contract({
  name: "perdure/think",
  isSubAgent: true,
  objects: env.ThinkHost as unknown as DurableObjectNamespace<undefined>,
  at: async (name) =>
    (await getSubAgentByName(
      env.ThinkHost.getByName(name) as never,
      ThinkHost,
      name,
    )) as unknown as Verbs,
  workflow: "CONTRACT_WORKFLOW",
  workflows: env.CONTRACT_WORKFLOW,
});
