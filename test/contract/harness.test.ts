import { env } from "cloudflare:workers";
import { contract } from "./contract.ts";
import type { Verbs } from "./host.ts";

contract({
  name: "perdure/harness",
  harness: "AiSdkHarness",
  isolatedRows: 9,
  objects: env.HarnessHost as unknown as DurableObjectNamespace<undefined>,
  at: async (name) => env.HarnessHost.getByName(name) as unknown as Verbs,
  workflow: "CONTRACT_WORKFLOW",
  workflows: env.CONTRACT_WORKFLOW,
});
