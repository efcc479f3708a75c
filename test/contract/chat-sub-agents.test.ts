import { env } from "cloudflare:workers";
import { getSubAgentByName } from "agents";
import { contract } from "./contract.ts";
import type { Verbs } from "./host.ts";
import { ChatHost } from "./hosts/chat-host.ts";

contract({
  name: "perdure/chat",
  isSubAgent: true,
  objects: env.ChatHost as unknown as DurableObjectNamespace<undefined>,
  at: async (name) =>
    (await getSubAgentByName(
      env.ChatHost.getByName(name) as never,
      ChatHost,
      name,
    )) as unknown as Verbs,
  workflow: "CONTRACT_WORKFLOW",
  workflows: env.CONTRACT_WORKFLOW,
});
