/** What the fix of a finding changes: what the finding has counted, and nothing of another cause. */

import { describe, expect, it } from "vitest";
import { capabilitiesOf } from "../../../src/hosts/public.ts";
import { CAPABILITIES } from "../../../src/hosts/verbs.ts";
import type { DeliveryGroup } from "../../../src/outbox/facts.ts";
import type { Destination } from "../../../src/outbox/index.ts";
import { webhook } from "../../../src/outbox/index.ts";
import { OUTBOX_RULES } from "../../../src/outbox/operated/rules.ts";
import { message, refusal, until } from "../../support/given.ts";
import { arrival, call } from "../../support/inbound.ts";
import { receiverUrl } from "../../support/receivers/client.ts";
import { type Agent, ended, submit } from "../../support/think.ts";
import { apply, found, givenAgent, inside, reportOf, rowsOf } from "./support.ts";

/** A submission that ends with an error. */
async function failing(agent: Agent, fail: string, status?: number): Promise<string> {
  const script = { id: crypto.randomUUID(), fail, failTimes: 1, ...(status && { status }) };
  const { submissionId } = await submit(agent, script, { retry: { maxAttempts: 1 } });
  await ended(agent, submissionId);
  return submissionId;
}

const retried = async (agent: Agent) =>
  inside(agent, (_, { storage }) =>
    storage.sql
      .exec<{ id: string }>(
        "SELECT submission_id AS id FROM perdure_submissions WHERE retried_by IS NOT NULL",
      )
      .toArray()
      .map(({ id }) => id)
      .sort(),
  );

describe("the fix of a finding", () => {
  it("retries the submissions of its cause, and none that failed with another text of the same error", async () => {
    const agent = givenAgent();
    const down = [await failing(agent, "Host 7 is down"), await failing(agent, "Host 12 is down")];
    const captured = await failing(agent, "Payment p_81 was captured, and its receipt failed");
    const { findings } = await reportOf(agent);
    expect(findings.map(({ code, evidence }) => [code, evidence.count])).toEqual([
      ["failing-submissions", 2],
      ["failing-submissions", 1],
    ]);
    const [finding] = findings;
    if (!finding) throw new Error("There is no finding");
    expect(finding.fix.text).toMatch(/^First correct .*, then retry them\.$/);
    expect(await rowsOf(agent, finding)).toEqual(down.toSorted());
    await apply(agent, finding.fix.action);
    expect(await retried(agent)).toEqual(down.toSorted());
    expect(await retried(agent)).not.toContain(captured);
  });

  it("retries what a rate limit has ended, and no other failure of the same hours", async () => {
    const agent = givenAgent();
    const first = await failing(agent, "Too many requests, try again", 429);
    await failing(agent, "Payment p_81 was captured, and its receipt failed");
    const second = await failing(agent, "The quota of project 9 is used up", 429);
    const finding = await found(agent, "model-rate-limited");
    expect(finding.fix.text).toMatch(/^First .*, then retry those that ended\./);
    expect(await rowsOf(agent, finding)).toEqual([first, second].sort());
    await apply(agent, finding.fix.action);
    expect(await retried(agent)).toEqual([first, second].sort());
  });

  it("retries nothing for several submissions that were interrupted: each is a decision", async () => {
    const agent = givenAgent();
    await failing(agent, "one");
    await failing(agent, "two");
    const query = "UPDATE perdure_submissions SET error_name = 'TurnInterruptedError'";
    await inside(agent, (_, { storage }) => void storage.sql.exec(query));
    const finding = await found(agent, "poison-turn");
    expect(finding.fix).toEqual({ text: expect.stringMatching(/^First look at .* each did/) });
  });

  it("redrives the dead letters of its cause, and none of another answer of the same receiver", async () => {
    const agent = givenAgent({ outbox: { allowPrivateAddresses: true } });
    const to: Destination = webhook(receiverUrl("/status/422/nobody"), {
      secret: "HOOK_SECRET",
      policy: { backoff: { base: 10, cap: 10 } },
    });
    await inside(agent, ({ [CAPABILITIES]: { outbox } }) => {
      for (const id of ["a", "b", "c"]) outbox.enqueue(id, to, '{"n":1}');
      outbox.flush();
    });
    await until(async () => (await capabilitiesOf(agent).outbox.countDeadLetters()) === 3);
    const query = `UPDATE perdure_outbox_ended SET reason =
      iif(id = 'b', 'host answered 409: already charged', 'host answered 422: request ' || id || '1')`;
    await inside(agent, (_, { storage }) => void storage.sql.exec(query));
    const finding = await found(agent, "dead-letters");
    expect(finding).toMatchObject({ evidence: { count: 2 }, fix: { action: { do: "redrive" } } });
    expect(await rowsOf(agent, finding)).toEqual(["a", "c"]);
    await apply(agent, finding.fix.action);
    await until(async () => (await capabilitiesOf(agent).outbox.countDeadLetters()) === 3);
    const kept = (await capabilitiesOf(agent).outbox.listDeadLetters()).items.find(
      ({ id }) => id === "b",
    );
    expect(kept?.lastError).toBe("host answered 409: already charged");
  });

  it("sends all deliveries of its destination that wait for their next attempt, and none of another cause", async () => {
    const agent = givenAgent();
    const later = { base: 3_600_000, cap: 3_600_000 };
    const to: Destination = { kind: "queue", queue: "GONE_QUEUE", policy: { backoff: later } };
    await inside(agent, ({ [CAPABILITIES]: { outbox } }) => {
      for (const id of ["a", "b", "c"]) outbox.enqueue(id, to, '{"n":1}');
      outbox.flush();
    });
    const { outbox } = capabilitiesOf(agent);
    const tries = async () =>
      (await outbox.listDeliveries({ state: "waiting" })).items.map(({ attempt }) => attempt);
    await until(async () => (await tries()).join() === "2,2,2");
    const query = "UPDATE perdure_outbox SET last_error = 'full' WHERE id = 'b'";
    await inside(agent, (_, { storage }) => void storage.sql.exec(query));
    const finding = await found(agent, "binding-missing");
    expect(finding.evidence.count).toBe(2);
    expect(await rowsOf(agent, finding)).toEqual(["a", "c"]);
    await apply(agent, finding.fix.action);
    await until(async () => (await tries()).toSorted().join() === "2,3,3");
    const filter = { state: "waiting" } as const;
    const deleted = { action: { do: "delete-dead-letter", filter }, by: "ada", reason: "look" };
    await expect(
      capabilitiesOf(agent).operations.operate({ ...deleted, dryRun: true } as never),
    ).rejects.toThrow(/filter\.state/);
  });

  it("has no action for several dead letters whose destination no filter can name", () => {
    const of = (count: number): DeliveryGroup => ({
      ...{ key: "slack", state: "dead", error: "gone", cause: "gone", failure: undefined },
      destination: {
        kind: "slack",
        responseUrl: "https://hooks.slack.com/commands/T/1/x",
      } as never,
      ...{ remedy: undefined, since: 1, attempts: 1, isPoison: false, isUncertain: false },
      ...{ count, ids: ["a", "b"].slice(0, count) },
    });
    const facts = { waiting: 0, deadLetters: 2, endpoints: [], gone: [], maxWaiting: 10 };
    const actionOf = (count: number) =>
      OUTBOX_RULES.flatMap((rule) => rule({ ...facts, groups: [of(count)] }, 2))[0]?.fix.action;
    expect(actionOf(1)).toEqual({ do: "redrive", deliveryId: "a" });
    expect(actionOf(2)).toBeUndefined();
  });

  it("replays the deliveries of its cause, and none of another error or verdict of the same source", async () => {
    const agent = givenAgent();
    for (const id of ["r1", "r2"])
      await agent.callKernel("acceptArrival", call(arrival(id), "notThere"));
    await agent.callKernel("acceptArrival", call(arrival("other"), "retrySubmission", [7]));
    const finding = await found(agent, "inbound-refused");
    expect(finding.evidence.count).toBe(2);
    expect(await rowsOf(agent, finding)).toEqual(["github/r1", "github/r2"]);
  });

  it("does not offer to disable the endpoint that has most deliveries, where it takes them", async () => {
    const agent = givenAgent({ outbox: { allowPrivateAddresses: true, maxWaiting: 4 } });
    const to = webhook(receiverUrl("/ok/waits"), { secret: "HOOK_SECRET" });
    await inside(agent, ({ [CAPABILITIES]: { outbox } }) => {
      for (const id of ["a", "b", "c", "d"]) outbox.enqueue(id, to, '{"n":1}');
    });
    const finding = await found(agent, "outbox-near-limit");
    expect(finding.fix.action).toBeUndefined();
  });

  it("refuses a cause for what has not failed, and an empty one", async () => {
    const agent = givenAgent();
    await agent.submitMessages([message("hi")]);
    const request = { by: "ada", reason: "look", dryRun: true };
    for (const action of [
      { do: "cancel", filter: { cause: "Error: x" } },
      { do: "retry", filter: { cause: undefined } },
      { do: "retry", filter: { cause: [] } },
    ] as const) {
      const { message: text } = await inside(agent, (object) =>
        refusal(object.operations.operate({ action: action as never, ...request })),
      );
      expect(text).toMatch(/cause/);
    }
  });
});
