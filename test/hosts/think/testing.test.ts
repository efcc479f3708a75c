/** The kit on a DurableThink agent: the crash matrix of a whole turn, and its time. */

import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { ask, crashAtEveryWrite, invariantsOf, virtualClock } from "../../../src/testing/index.ts";
import { message } from "../../support/given.ts";
import { hold } from "../../support/held-model.ts";
import { silence } from "../../support/scheduler.ts";
import { HANG_MS, sizeOf } from "../../support/sizes.ts";
import { ended, givenAgent, running, submit } from "../../support/think.ts";

/** Of the points of a turn, every so manieth. */
const STRIDE = sizeOf("CRASH_STRIDE", 5);

it(
  "L1 L2 L4 L6: a turn of a Think agent survives a crash at its writes",
  async () => {
    const report = await crashAtEveryWrite({
      name: "a turn of a Think agent",
      objects: env.ThinkAgent,
      prepare: (agent) => agent.listSubmissions(),
      steps: [
        (agent, { id }) =>
          agent.submitMessages([message({ delayMs: 5, text: id }, id)], { idempotencyKey: id }),
      ],
      check: async (agent) => {
        const submissions = await agent.listSubmissions();
        return submissions.length === 1 && submissions[0]?.status === "completed"
          ? []
          : [`the submissions are ${JSON.stringify(submissions)}`];
      },
      stride: STRIDE,
      moments: ["before", "soon after"],
      timeout: "2 minutes",
    });
    console.log(String(report));
    expect(report.wrong, String(report)).toEqual([]);
    expect(report.crashed).toBeGreaterThan(report.points / 2);
  },
  10 * HANG_MS,
);

it("L1: invariantsOf() reports the open work of an agent, and nothing for an idle one", async () => {
  const agent = givenAgent();
  const plain = agent as unknown as DurableObjectStub;
  const { script, release } = hold();
  const { submissionId } = await submit(agent, script, { submissionId: "s" });
  await running(agent, submissionId);
  expect(await invariantsOf(plain)).toContain("L1 submission s is still running");
  release();
  await ended(agent, submissionId);
  expect(await invariantsOf(plain)).toEqual([]);
});

it("L8: a model's Retry-After elapses with the virtual clock", async () => {
  silence();
  using clock = virtualClock({ patience: HANG_MS });
  const agent = givenAgent();
  const text = crypto.randomUUID();
  const script = {
    fail: "busy",
    failTimes: 1,
    status: 429,
    headers: { "retry-after": "600" },
    text,
  };
  await agent.submitMessages([message(ask(script))], { submissionId: "s" });
  await expect.poll(async () => (await agent.inspectSubmission("s"))?.attempts).toBe(1);
  await expect.poll(async () => (await agent.inspectSubmission("s"))?.status).toBe("pending");
  await clock.advance("11 minutes", agent);
  expect(await ended(agent, "s")).toMatchObject({ status: "completed", attempts: 2 });
});
