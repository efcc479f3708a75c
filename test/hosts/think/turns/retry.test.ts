/** L8 on Think: a provider's transient failures defer its turns. */

import { describe, expect, it } from "vitest";
import { ask, modelCalls } from "../../../../src/testing/index.ts";
import { givenThink, message, until } from "../../../support/given.ts";

describe("provider errors on Think", () => {
  it("L8: a provider's 429 defers the turn, and its messages join the conversation once", async () => {
    const agent = givenThink();
    const limited = { fail: "slow down", status: 429, headers: { "retry-after-ms": "300" } };
    const text = ask({ ...limited, failTimes: 1, text: `after ${crypto.randomUUID()}` });
    const { submissionId } = await agent.submitMessages([message(text)]);
    await until(async () => (await agent.inspectSubmission(submissionId))?.failedAttempts);
    const ended = await agent.waitForSubmission(submissionId);
    expect(ended).toMatchObject({ status: "completed", attempts: 2 });
    expect(modelCalls.get(text)).toBe(2);
    expect((await agent.texts()).filter((line) => line.startsWith("user:"))).toHaveLength(1);
    const [failed] = (await agent.inspectSubmission(submissionId))?.failedAttempts ?? [];
    expect(failed).toMatchObject({ attempt: 1, error: "slow down", errorName: "AI_APICallError" });
  });

  it("L8: a provider's 401 ends the turn at once", async () => {
    const agent = givenThink();
    const text = ask({ fail: "bad key", status: 401, text: crypto.randomUUID() });
    const { submissionId } = await agent.submitMessages([message(text)]);
    expect(await agent.waitForSubmission(submissionId)).toMatchObject({
      status: "error",
      attempts: 1,
      error: "bad key",
      errorName: "AI_APICallError",
    });
  });
});
