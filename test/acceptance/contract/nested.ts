/** L1, L6, O2, S1, W1 and W2 for a sub-agent of a sub-agent, whose wakes its root keeps. */

import { method } from "perdure/outbox";
import { ask, virtualClock } from "perdure/testing";
import { expect, it } from "vitest";
import { givenAgent, until } from "../app/given.ts";
import { Hold } from "../app/hold.ts";
import type { Host } from "../app/hosts.ts";
import { charges, deliveries } from "../app/receivers.ts";

export function nestedContract(host: Host): void {
  const given = () => givenAgent(host);

  it("L1 O2: turns and deliveries that wait end after a crash of the root, woken by its alarm alone", async () => {
    const agent = given();
    const hold = new Hold();
    const notify = method("receive");
    const running = await agent.submit({ id: hold.id, text: "one" }, { notify });
    await until(() => hold.arrived > 0);
    const waiting = await agent.submit("two", { notify });
    await agent.crash();
    hold.release();
    // No verb is called: the alarm of the root wakes it.
    await until(async () => {
      await agent.ring();
      return deliveries.count(running) > 0 && deliveries.count(waiting) > 0;
    });
    for (const id of [running, waiting])
      expect(await agent.untilEnded(id)).toMatchObject({ status: "completed" });
  });

  it("L6: a crash of the root after a tool has returned does not run the tool again", async () => {
    const agent = given();
    const hold = new Hold({ from: 2 });
    const script = { id: hold.id, tool: { name: "charge", input: { account: hold.id } } };
    const submissionId = await agent.submit(script);
    await until(() => hold.arrived >= 2);
    await agent.crash();
    hold.release();
    expect(await agent.untilEnded(submissionId)).toMatchObject({ status: "completed" });
    expect(charges.count(hold.id)).toBe(1);
  });

  it("L1: a submission with a later start is woken at its time", async () => {
    using clock = virtualClock();
    const agent = given();
    const submissionId = await agent.submit("later", { notBefore: clock.now() + 3_600_000 });
    await agent.crash();
    await clock.advance("59 minutes", agent.root);
    expect(await agent.inspect(submissionId)).toMatchObject({ status: "pending" });
    await agent.crash();
    await clock.advance("2 minutes", agent.root);
    expect(await agent.untilEnded(submissionId)).toMatchObject({ output: "You said: later" });
  });

  it("W1 W2: a workflow gets the answer of a turn over a crash of the root", async () => {
    const agent = given();
    const hold = new Hold();
    const id = await agent.start({ step: "text", prompt: ask({ id: hold.id, text: "answered" }) });
    await until(() => hold.arrived > 0);
    await agent.restart();
    hold.release();
    expect(await agent.untilOutput(id)).toBe("answered");
  });

  it("W2: an approval is decided after a crash of the root", async () => {
    const agent = given();
    const id = await agent.start({ step: "approval" });
    const [approval] = await until(async () => {
      const { items } = await (await agent.capabilities()).approvals.list();
      return items.length > 0 && items;
    });
    await agent.crash();
    const { approvals } = await agent.capabilities();
    await approvals.grant(approval?.approvalId ?? "", { payload: { amount: 5 } });
    expect(await agent.untilOutput(id)).toMatchObject({ approved: true });
  });
}
