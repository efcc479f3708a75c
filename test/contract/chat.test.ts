import { env } from "cloudflare:workers";
import { contract } from "./contract.ts";
import type { Verbs } from "./host.ts";

contract({
  name: "perdure/chat",
  objects: env.ChatHost as unknown as DurableObjectNamespace<undefined>,
  at: async (name) => env.ChatHost.getByName(name) as unknown as Verbs,
  workflow: "CONTRACT_WORKFLOW",
  workflows: env.CONTRACT_WORKFLOW,
});
