import { env } from "cloudflare:workers";
import { contract } from "./contract.ts";
import type { Verbs } from "./host.ts";

contract({
  name: "perdure/harness",
  harness: "ThinkHarness",
  isolatedRows: 36,
  objects: env.ThinkHarnessHost as unknown as DurableObjectNamespace<undefined>,
  at: async (name) => env.ThinkHarnessHost.getByName(name) as unknown as Verbs,
  workflow: "CONTRACT_WORKFLOW",
  workflows: env.CONTRACT_WORKFLOW,
});
