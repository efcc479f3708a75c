/** The verbs that are grouped by capability: in the agent's class, and by `capabilitiesOf()` for every kind of stub. */

import { runInDurableObject } from "cloudflare:test";
import { Think } from "@cloudflare/think";
import { getSubAgentByName } from "agents";
import { expect, it } from "vitest";
import { capabilitiesOf } from "../../../src/hosts/public.ts";
import { AgentVerbs } from "../../../src/hosts/verbs.ts";
import { givenThink, refusal } from "../../support/given.ts";
import { ThinkAgent } from "../../support/think-agent.ts";

it("an agent has few members beside those that Think and agents document", () => {
  const inherited = (name: string) => name in Think.prototype;
  const own = Object.getOwnPropertyNames(AgentVerbs.prototype).filter((name) => !inherited(name));
  expect(own.toSorted()).toEqual([
    "approvals",
    "callKernel", // not in the types that are published
    "clearThread",
    "followApproval",
    "followSubmission",
    "followThread",
    "inbound",
    "limits",
    "operations",
    "outbox",
    "retrySubmission",
    "schedules",
    "submissionStats",
    "submitMany",
    "threadMessages",
  ]);
});

it("an agent calls itself by the methods of its classes, which the object does not replace", async () => {
  const found = await runInDurableObject<ThinkAgent, unknown>(givenThink(), async (agent) => {
    // Starts it.
    await agent.outbox.stats();
    return ["keepAlive", "keepAliveWhile", "saveMessages", "chat"].filter((name) =>
      Object.hasOwn(agent, name),
    );
  });
  expect(found).toEqual([]);
});

it("L7: a sub-agent has them, which only a method can reach", async () => {
  const parent = givenThink();
  const child = await getSubAgentByName(parent, ThinkAgent, "child");
  const { outbox, approvals } = capabilitiesOf(child);
  expect(await outbox.stats()).toMatchObject({ waiting: 0, deadLetters: 0 });
  expect(await approvals.list()).toEqual({ items: [] });
  expect(await approvals.inspect("none")).toBeNull();
  const error = await refusal(approvals.link("none", "grant"));
  expect(error).toMatchObject({ name: "InvalidApprovalError", field: "approvalId" });
});

it("the agent's own code has them as properties", async () => {
  const found = await runInDurableObject<ThinkAgent, unknown>(givenThink(), async (agent) => [
    await agent.outbox.stats(),
    (await agent.schedules.list()).items.length,
    (await agent.inbound.list()).items,
    (await agent.operations.healthReport()).findings,
  ]);
  expect(found).toEqual([expect.objectContaining({ waiting: 0 }), 0, [], []]);
});

it.each([
  "outbox.install",
  "outbox.constructor",
  "outbox.",
  "approvals.waits",
  "toString.call",
  ".",
])("callKernel() does not have %s", async (verb) => {
  const error = await refusal(
    runInDurableObject<ThinkAgent, unknown>(givenThink(), (agent) => agent.callKernel(verb)),
  );
  expect(error.message).toContain(`does not know the call ${JSON.stringify(verb)}`);
});

it("operators use what the app's class overrides", async () => {
  const reason = await runInDurableObject<ThinkAgent, unknown>(givenThink(), async (agent) => {
    const { approvals } = agent;
    const own = { ...approvals, list: async () => ({ items: [], cursor: "own" }) };
    Object.defineProperty(agent, "approvals", { value: own });
    return agent.callKernel("approvals.list");
  });
  expect(reason).toEqual({ items: [], cursor: "own" });
});
