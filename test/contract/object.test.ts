import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { refusal } from "../support/given.ts";
import { contract } from "./contract.ts";
import type { Verbs } from "./host.ts";

contract({
  name: "perdure/object",
  objects: env.ObjectHost as unknown as DurableObjectNamespace<undefined>,
  at: async (name) => env.ObjectHost.getByName(name) as unknown as Verbs,
  workflow: "OBJECT_WORKFLOW",
  workflows: env.OBJECT_WORKFLOW,
});

it.each(["pauseWorkflow", "resumeWorkflow", "restartWorkflow", "getWorkflow"] as const)(
  "%s() of a plain object refuses an id that is no string",
  async (verb) => {
    const object = env.ObjectHost.getByName(crypto.randomUUID());
    expect(await refusal(Promise.resolve(object[verb](5 as never)))).toMatchObject({
      name: "InvalidOptionError",
      message: "Invalid workflowId 5: expected a string.",
    });
  },
);
