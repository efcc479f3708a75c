/** O1 to O5: the outbox. */

import { method } from "perdure/outbox";
import { virtualClock } from "perdure/testing";
import { expect, it } from "vitest";
import { BOUND_MS, givenAgent, refusal, until } from "../app/given.ts";
import { Hold } from "../app/hold.ts";
import type { Host } from "../app/hosts.ts";
import { deliveries, refusals } from "../app/receivers.ts";

/** Retries follow at once. */
const BACKOFF = { base: 1, cap: 1 };

export function deliveriesContract(host: Host): void {
  const given = () => givenAgent(host);

  it("O1 O2: the end of a submission is delivered under one id, also after a crash", async () => {
    const agent = given();
    const hold = new Hold();
    const submissionId = await agent.submit({ id: hold.id }, { notify: method("receive") });
    await until(() => hold.arrived > 0);
    await agent.crash();
    hold.release();
    await agent.untilEnded(submissionId);
    await until(() => deliveries.count(submissionId) > 0);
    expect(new Set(deliveries.get(submissionId).map(({ id }) => id)).size).toBe(1);
    expect(deliveries.get(submissionId)[0]?.event).toMatchObject({
      type: "submission.completed",
      data: { submissionId, status: "completed" },
    });
  });

  it("O1: an event of a transaction that is rolled back is not delivered", async () => {
    const agent = given();
    const verbs = await agent.verbs();
    const [lost, sent] = [crypto.randomUUID(), crypto.randomUUID()];
    expect((await refusal(verbs.putThenThrow(lost))).message).toContain("rolled back");
    await verbs.put(sent);
    await until(() => deliveries.count(sent) > 0);
    expect(deliveries.count(lost)).toBe(0);
    expect(await (await agent.capabilities()).outbox.stats()).toMatchObject({ waiting: 0 });
  });

  it("O2: a delivery waits for no turn and for no other destination", async () => {
    const agent = given();
    const turn = new Hold();
    const slow = new Hold();
    const verbs = await agent.verbs();
    const running = await agent.submit({ id: turn.id });
    await until(() => turn.arrived > 0);
    await verbs.put(slow.id);
    await until(() => slow.arrived > 0);
    const key = crypto.randomUUID();
    await verbs.put(key, {}, "receiveAside");
    await until(() => deliveries.count(key) > 0);
    expect(await agent.inspect(running)).toMatchObject({ status: "running" });
    expect(deliveries.count(slow.id)).toBe(0);
    turn.release();
    slow.release();
    await until(() => deliveries.count(slow.id) > 0);
    await agent.untilEnded(running);
  });

  it("O2: a delivery that a crash has interrupted is repeated under its id", async () => {
    const agent = given();
    const hold = new Hold();
    const id = await (await agent.verbs()).put(hold.id);
    await until(() => hold.arrived > 0);
    await agent.crash();
    hold.release();
    await (await agent.verbs()).submissionStats();
    await until(() => deliveries.count(hold.id) > 0);
    for (const delivery of deliveries.get(hold.id)) expect(delivery.id).toBe(id);
  });

  it("O3: a failing delivery is retried under its id, and delays no other", async () => {
    const agent = given();
    const verbs = await agent.verbs();
    const [failing, other] = [crypto.randomUUID(), crypto.randomUUID()];
    refusals.set(failing, 2);
    const id = await verbs.put(failing, { backoff: BACKOFF });
    await verbs.put(other, { backoff: BACKOFF });
    await until(() => deliveries.count(other) > 0 && deliveries.count(failing) > 0);
    expect(deliveries.get(failing)).toMatchObject([{ id, attempt: 3 }]);
    expect(deliveries.get(other)).toMatchObject([{ attempt: 1 }]);
  });

  it("O3: a delivery that fails as often as its policy allows is a dead letter, and is delivered by redrive()", async () => {
    const agent = given();
    const verbs = await agent.verbs();
    const { outbox } = await agent.capabilities();
    const key = crypto.randomUUID();
    refusals.set(key, 2);
    const id = await verbs.put(key, { maxAttempts: 2, backoff: BACKOFF });
    const [letter] = await until(async () => {
      const { items } = await outbox.listDeadLetters();
      return items.length > 0 && items;
    });
    expect(letter).toMatchObject({ id, attempts: 2 });
    expect(refusals.get(key)).toBe(0);
    expect(await outbox.read(id)).toMatchObject({ data: { key } });
    await outbox.redrive(id);
    await until(() => deliveries.count(key) > 0);
    expect(deliveries.get(key)).toMatchObject([{ id }]);
    expect(await outbox.countDeadLetters()).toBe(0);
  });

  it("O4: an answer above the limit of an event reaches its workflow whole", async () => {
    const agent = given();
    const title = { text: "abcdefghij", times: 120_000 };
    const prompt = JSON.stringify({ id: crypto.randomUUID(), answer: {}, long: { title } });
    const id = await agent.start({ step: "answer", prompt, measures: true });
    expect(await agent.untilOutput(id)).toBe(1_200_000);
  });

  it("O5: an object without open work has no alarm", async () => {
    const agent = given();
    const submissionId = await agent.submit("Hello", { notify: method("receive") });
    await agent.untilEnded(submissionId);
    await until(() => deliveries.count(submissionId) > 0);
    using clock = virtualClock({ patience: BOUND_MS });
    // The last alarm finds nothing to do.
    await until(async () => {
      await clock.advance("1 minute", agent.root);
      return (await agent.readAlarm()) === null;
    });
    const { outbox } = await agent.capabilities();
    expect(await outbox.stats()).toMatchObject({ waiting: 0 });
    expect(await agent.readAlarm()).toBeNull();
  });
}
