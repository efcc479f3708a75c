import { env } from "cloudflare:workers";
import { contract } from "./contract.ts";
import type { Verbs } from "./host.ts";

contract({
  name: "perdure/think",
  objects: env.ThinkHost as unknown as DurableObjectNamespace<undefined>,
  at: async (name) => env.ThinkHost.getByName(name) as unknown as Verbs,
  workflow: "CONTRACT_WORKFLOW",
  workflows: env.CONTRACT_WORKFLOW,
});
