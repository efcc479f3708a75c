/** Limits that agents share, in turns of Think: each call of the model reserves, and what it costs is counted. */

import { runInDurableObject } from "cloudflare:test";
import { expect, it, onTestFinished } from "vitest";
import { limit } from "../../../../src/features/limits/index.ts";
import { installGate } from "../../../../src/submissions/install-gate.ts";
import type { Feature } from "../../../../src/workflow/agent/kernel.ts";
import { realGate } from "../../../features/limits/support.ts";
import { ALL } from "../../../support/features.ts";
import { message } from "../../../support/given.ts";
import { ended, givenAgent, submit } from "../../../support/think.ts";
import { ThinkAgent } from "../../../support/think-agent.ts";

const prices = { "perdure/*": { input: 1, output: 100 } };
/** 10 tokens in and 5 out. */
const CALL = (10 + 500) / 1e6;

/** A new agent, with a limit of requests. */
function givenLimited(requests: "100 per minute" | "1 per hour") {
  const limits = [limit("all", { requests })];
  const given = realGate({ limits, prices });
  const limited: Feature<"limits"> = {
    feature: "limits",
    install: ({ submissions }) => {
      installGate(submissions, given.gate);
      return {};
    },
  };
  Object.assign(ThinkAgent, { features: [...ALL, limited] });
  onTestFinished(() => void Object.assign(ThinkAgent, { features: ALL }));
  const used = () => given.keepers.bookOf("all").inspect([""])[0]?.used.requests;
  return { agent: givenAgent(), used };
}

it.each(["main", "side", "isolated"])(
  "each call of a turn of the thread %s is reserved, and counted in dollars",
  async (thread) => {
    const { agent, used } = givenLimited("100 per minute");
    const script = { id: crypto.randomUUID(), tool: { name: "charge", input: { account: "a" } } };
    const { submissionId } = await submit(agent, script, { thread });
    const { status, usage } = await ended(agent, submissionId);
    expect(status).toBe("completed");
    expect(usage?.cost).toBeCloseTo(2 * CALL, 9);
    expect(used()).toBeGreaterThanOrEqual(2);
  },
);

it.each(["main", "side"])("a turn of the thread %s waits in the middle", async (thread) => {
  const { agent } = givenLimited("1 per hour");
  const script = { id: crypto.randomUUID(), tool: { name: "charge", input: { account: "a" } } };
  const { submissionId } = await submit(agent, script, { thread });
  await expect
    .poll(() => agent.inspectSubmission(submissionId))
    .toMatchObject({ status: "pending", waitingFor: { limit: "all", why: "full" } });
  await agent.cancelSubmission(submissionId);
});

it("a turn of the chat that is no submission is reserved as well", async () => {
  const { agent, used } = givenLimited("100 per minute");
  await runInDurableObject<ThinkAgent, unknown>(agent, (object) =>
    object.saveMessages([message("Hello")]),
  );
  expect(used()).toBe(1);
});
