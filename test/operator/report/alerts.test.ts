/** What the report finds wrong with alerts. */

import { describe, expect, it } from "vitest";
import { alertProblems } from "../../../src/operator/alerts/problem.ts";
import { found, givenAgent, inside, reportOf } from "./support.ts";

describe("findings of alerts", () => {
  it("alerts-not-sent: a destination that cannot get alerts is found, with the secret that is missing", async () => {
    const agent = givenAgent();
    const problem = "Invalid alerts.to.token SLACK_BOT_TOKEN: expected the name of a secret.";
    await inside(agent, (_, { storage }) => void alertProblems.set(storage, problem));
    expect(await found(agent, "alerts-not-sent")).toMatchObject({
      severity: "error",
      cause: problem,
    });
    expect((await reportOf(agent)).verdicts.delivers).toBe(false);
  });
});
