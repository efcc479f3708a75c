import { expect, it } from "vitest";
import { givenAgent, refusal } from "../app/given.ts";
import { findHost } from "../app/hosts.ts";
import { contract } from "./contract.ts";

const host = findHost("durable()");

contract(host);

it.each(["pauseWorkflow", "resumeWorkflow", "restartWorkflow", "getWorkflow"] as const)(
  "%s() of a plain object refuses an id that is not a string",
  async (verb) => {
    const verbs = await givenAgent(host).verbs();
    expect(await refusal(Promise.resolve(verbs[verb](5 as never)))).toMatchObject({
      name: "InvalidOptionError",
      message: "Invalid workflowId 5: expected a string.",
    });
  },
);
