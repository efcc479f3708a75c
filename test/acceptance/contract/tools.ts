/** L6: crashes in a turn, and its tool calls. */

import { modelCalls } from "perdure/testing";
import { expect, it } from "vitest";
import { givenAgent, until } from "../app/given.ts";
import { Hold } from "../app/hold.ts";
import type { Host } from "../app/hosts.ts";
import { charges, shipments, toolResults } from "../app/receivers.ts";

const unique = () => ({ id: crypto.randomUUID() });

export function toolsContract(host: Host): void {
  const given = () => givenAgent(host);

  it("L6: a crash before the answer ends in one answer", async () => {
    const agent = given();
    const hold = new Hold();
    const submissionId = await agent.submit({ id: hold.id, text: "answered" });
    await until(() => hold.arrived > 0);
    await agent.crash();
    hold.release();
    expect(await agent.untilEnded(submissionId)).toMatchObject({
      status: "completed",
      output: "answered",
    });
    const texts = await agent.texts();
    expect(texts.filter((text) => text === "assistant: answered")).toHaveLength(1);
  });

  it("L6: a crash after a tool has returned does not run the tool again", async () => {
    const agent = given();
    // The second model call, which has the result of the tool.
    const hold = new Hold({ from: 2 });
    const account = hold.id;
    const script = { id: hold.id, tool: { name: "charge", input: { account } }, text: "paid" };
    const submissionId = await agent.submit(script);
    await until(() => hold.arrived >= 2);
    expect(charges.count(account)).toBe(1);
    await agent.crash();
    hold.release();
    expect(await agent.untilEnded(submissionId)).toMatchObject({ status: "completed" });
    expect(charges.count(account)).toBe(1);
  });

  it("L6 L9: usage has the tokens of every call that the model has answered, over a crash in a tool and one in the next call", async () => {
    const agent = given();
    const [inTool, inModel] = [new Hold(), new Hold({ from: 2 })];
    const input = { account: inModel.id, hold: inTool.id };
    const script = { id: inModel.id, tool: { name: "lookUp", input }, text: "read" };
    const submissionId = await agent.submit(script);
    await until(() => inTool.arrived > 0);
    await agent.restart();
    inTool.release();
    await until(() => inModel.arrived >= 2);
    await agent.restart();
    inModel.release();
    const ended = await agent.untilEnded(submissionId);
    expect(ended).toMatchObject({ status: "completed" });
    // A call uses 15 tokens. One that a crash interrupts has not reached the model here.
    const calls = modelCalls.get(JSON.stringify(script)) ?? 0;
    expect(calls).toBeGreaterThan(1);
    expect(ended?.usage).toMatchObject({ totalTokens: 15 * calls });
  });

  it("L6: after a crash the model gets the result of a tool that has returned", async () => {
    const agent = given();
    const hold = new Hold({ from: 2 });
    const script = { id: hold.id, tool: { name: "charge", input: { account: hold.id } } };
    const submissionId = await agent.submit(script);
    await until(() => hold.arrived >= 2);
    await agent.crash();
    hold.release();
    expect(await agent.untilEnded(submissionId)).toMatchObject({ status: "completed" });
    expect(toolResults.get(hold.id).at(-1)).toContain(`Charged ${hold.id}`);
  });

  it("L6: a tool that a crash has interrupted is not run again, and the submission ends", async () => {
    const agent = given();
    const hold = new Hold();
    const input = { account: hold.id, hold: hold.id };
    const submissionId = await agent.submit({ ...unique(), tool: { name: "charge", input } });
    await until(() => hold.arrived > 0);
    await agent.crash();
    hold.release();
    await agent.untilEnded(submissionId);
    await agent.untilEnded(await agent.submit("next"));
    expect(charges.count(hold.id)).toBe(1);
  });

  it("L6: a turn with an interrupted tool that is safe to repeat completes", async () => {
    const agent = given();
    const hold = new Hold();
    const input = { account: hold.id, hold: hold.id };
    const script = { ...unique(), tool: { name: "lookUp", input }, text: "found" };
    const submissionId = await agent.submit(script);
    await until(() => hold.arrived > 0);
    await agent.crash();
    hold.release();
    expect(await agent.untilEnded(submissionId)).toMatchObject({
      status: "completed",
      output: "found",
    });
    // Think gives the interrupted call to the model, which decides. Other hosts run it again.
    expect(charges.count(hold.id)).toBe(host.entry === "perdure/think" ? 1 : 2);
  });

  it("L6: an interrupted durable tool continues after its finished steps, and finished calls of its step are not repeated", async () => {
    const agent = given();
    const hold = new Hold();
    const account = hold.id;
    const accounts = [1, 2, 3].map((number) => `${account}-${number}`);
    const charged = accounts.map((one) => ({ name: "charge", input: { account: one } }));
    const ship = { name: "ship", input: { account, hold: hold.id } };
    const script = { ...unique(), tools: [[...charged, ship]] };
    const submissionId = await agent.submit(script);
    await until(() => hold.arrived > 0 && accounts.every((one) => charges.count(one) === 1));
    await agent.crash();
    hold.release();
    expect(await agent.untilEnded(submissionId)).toMatchObject({ status: "completed" });
    const names = shipments.get(account).map((step) => step.split(" ")[0]);
    expect(names).toEqual(["reserve", "pay", "pay", "notify"]);
    // The interrupted step runs again under its key.
    expect(new Set(shipments.get(account)).size).toBe(3);
    expect(accounts.map((one) => charges.count(one))).toEqual([1, 1, 1]);
  });

  it("L2 L5: a durable tool runs no further step after its turn was cancelled", async () => {
    const agent = given();
    const hold = new Hold({ ignoresAbort: true });
    const input = { account: hold.id, hold: hold.id };
    const submissionId = await agent.submit({ ...unique(), tool: { name: "ship", input } });
    await until(() => hold.arrived > 0);
    await (await agent.verbs()).cancelSubmission(submissionId);
    hold.release();
    await until(() => hold.passed > 0);
    const next = await agent.submit("next");
    expect(await agent.untilEnded(next)).toMatchObject({ status: "completed" });
    const steps = shipments.get(hold.id).map((step) => step.split(" ")[0]);
    expect(steps).toEqual(["reserve", "pay"]);
  });

  it.each(["weigh", "measure"])(
    "L6: a result of the tool %s that JSON cannot hold is a tool error, and the turn goes on",
    async (name) => {
      const agent = given();
      const submissionId = await agent.submit({
        ...unique(),
        tool: { name, input: {} },
        text: "sent",
      });
      expect(await agent.untilEnded(submissionId)).toMatchObject({
        status: "completed",
        output: "sent",
      });
      const reply = JSON.stringify((await (await agent.verbs()).threadMessages("main")).at(-1));
      expect(reply).toContain(`Invalid result of tool \\"${name}\\": JSON cannot hold it`);
    },
  );

  it("L6 L8: a turn that fails after a tool is retried without running the tool again", async () => {
    const agent = given();
    const account = crypto.randomUUID();
    const tool = { name: "charge", input: { account } };
    // The first call fails, so the tool runs in the second attempt, and the third call answers.
    const failure = { fail: "Overloaded", failTimes: 1, status: 503 };
    const script = { ...unique(), tool, text: "paid", ...failure };
    const submissionId = await agent.submit(script);
    expect(await agent.untilEnded(submissionId)).toMatchObject({ status: "completed" });
    expect(charges.count(account)).toBe(1);
    expect(modelCalls.get(JSON.stringify(script))).toBe(3);
  });
}
