import { env } from "cloudflare:workers";
import { contract } from "./contract.ts";
import type { Verbs } from "./host.ts";

contract({
  name: "perdure/object",
  objects: env.ObjectHost as unknown as DurableObjectNamespace<undefined>,
  at: async (name) => env.ObjectHost.getByName(name) as unknown as Verbs,
  workflow: "OBJECT_WORKFLOW",
  workflows: env.OBJECT_WORKFLOW,
});
