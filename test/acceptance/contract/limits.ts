/** M1 to M5: limits that agents share. */

import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { modelCalls } from "perdure/testing";
import { expect, it, vi } from "vitest";
import { LIMITED, SCARCE_MODEL } from "../app/features.ts";
import { givenAgent, until } from "../app/given.ts";
import { Hold } from "../app/hold.ts";
import type { Host } from "../app/hosts.ts";
import { type ChatClient, message } from "../app/messages.ts";
import { charges } from "../app/receivers.ts";

export function limitsContract(host: Host): void {
  const given = () => givenAgent(host);
  const unique = () => ({ id: crypto.randomUUID() });

  it("M1 M2: of two agents that share a slot one runs, and the other waits without an attempt, over a crash", async () => {
    const [first, second] = [given(), given()];
    const metadata = { slot: crypto.randomUUID() };
    const [running, waiting] = [new Hold(), new Hold()];
    const one = await first.submit({ id: running.id }, { metadata });
    await until(() => running.arrived > 0);
    const two = await second.submit({ id: waiting.id, text: "at last" }, { metadata });
    const { waitingFor } = await until(async () => {
      const found = await second.inspect(two);
      return found?.status === "pending" && found.waitingFor && found;
    });
    expect(waitingFor).toMatchObject({ limit: "slot", key: metadata.slot, why: "full" });
    expect(await second.texts()).toEqual([]);
    await second.crash();
    expect(await second.inspect(two)).toMatchObject({ status: "pending", attempts: 0 });
    expect(waiting.arrived).toBe(0);
    running.release();
    waiting.release();
    expect(await first.untilEnded(one)).toMatchObject({ status: "completed" });
    expect(await second.untilEnded(two)).toMatchObject({
      status: "completed",
      output: "at last",
      attempts: 1,
    });
  });

  it("M2 L5: a submission that waits for a limit can be cancelled, and has run nothing", async () => {
    const [first, second] = [given(), given()];
    const metadata = { slot: crypto.randomUUID() };
    const hold = new Hold();
    const running = await first.submit({ id: hold.id }, { metadata });
    await until(() => hold.arrived > 0);
    const script = unique();
    const waiting = await second.submit(script, { metadata });
    await until(async () => {
      const found = await second.inspect(waiting);
      return found?.status === "pending" && found.waitingFor;
    });
    await (await second.verbs()).cancelSubmission(waiting);
    expect(await second.untilEnded(waiting)).toMatchObject({ status: "aborted", attempts: 0 });
    hold.release();
    await first.untilEnded(running);
    expect(modelCalls.get(JSON.stringify(script))).toBeUndefined();
    expect(await second.texts()).toEqual([]);
  });

  it("M2: a wait ends with an error at the timeout of the limit", async () => {
    const [first, second] = [given(), given()];
    const metadata = { brief: crypto.randomUUID() };
    const hold = new Hold();
    const running = await first.submit({ id: hold.id }, { metadata });
    await until(() => hold.arrived > 0);
    const waiting = await second.submit("never", { metadata });
    expect(await second.untilEnded(waiting)).toMatchObject({
      status: "error",
      errorName: "LimitTimeoutError",
    });
    hold.release();
    await first.untilEnded(running);
  });

  // The keeper decides, whatever the host is, so one host is enough for a test of seconds.
  it.runIf(host.entry === "perdure/object")(
    "M3: an agent with one turn does not wait for all turns of another one",
    async () => {
      const [busy, other] = [given(), given()];
      let calls = 0;
      const hold = new Hold({ onCall: () => calls++ });
      const models = [SCARCE_MODEL];
      // Ten windows, of which the other agent waits for three at most.
      const items = Array.from({ length: 100 }, (_, index) =>
        JSON.stringify({ id: hold.id, text: `${index}` }),
      );
      const many = await busy.start({ step: "all", items, models });
      await until(() => hold.arrived > 0);
      hold.release();
      const one = await other.start({ step: "text", prompt: "mine", models });
      expect(await other.untilOutput(one)).toBe("You said: mine");
      expect(calls).toBeLessThan(items.length);
      await (await busy.verbs()).terminateWorkflow(many);
    },
  );

  it("M4: the worst case of a call is reserved before it, and its difference is given back", async () => {
    const [first, second] = [given(), given()];
    const metadata = { money: crypto.randomUUID() };
    const hold = new Hold();
    const running = await first.submit({ id: hold.id }, { metadata });
    await until(() => hold.arrived > 0);
    const script = unique();
    const refused = await second.submit(script, { metadata });
    expect(await second.untilEnded(refused)).toMatchObject({
      status: "error",
      errorName: "LimitReachedError",
    });
    expect(modelCalls.get(JSON.stringify(script))).toBeUndefined();
    hold.release();
    expect(await first.untilEnded(running)).toMatchObject({ status: "completed" });
    const last = await second.submit("again", { metadata });
    expect(await second.untilEnded(last)).toMatchObject({ status: "completed" });
  });

  it("M4: a crash in a model call charges its worst case to the budget in dollars", async () => {
    const agent = given();
    const hold = new Hold();
    const submissionId = await agent.submit({ id: hold.id }, { budget: { usd: 1.5 } });
    await until(() => hold.arrived > 0);
    await agent.crash();
    hold.release();
    expect(await agent.untilEnded(submissionId)).toMatchObject({
      status: "error",
      errorName: "BudgetExceededError",
      usage: { cost: 1 },
    });
    expect(hold.passed).toBe(0);
  });

  it("L9: a crash in a model call charges what it may have used to the budget of tokens", async () => {
    const agent = given();
    const hold = new Hold();
    const submissionId = await agent.submit({ id: hold.id }, { budget: { tokens: 10 } });
    await until(() => hold.arrived > 0);
    await agent.crash();
    hold.release();
    expect(await agent.untilEnded(submissionId)).toMatchObject({
      status: "error",
      errorName: "BudgetExceededError",
    });
    expect(hold.passed).toBe(0);
  });

  it.runIf(["perdure/think", "perdure/chat"].includes(host.entry) && host.depth === 0)(
    "M1: a turn of a chat client shares the limit with submissions",
    async () => {
      const agent = givenAgent(host, `${LIMITED}${crypto.randomUUID()}`);
      const hold = new Hold();
      const running = await agent.submit({ id: hold.id }, { thread: "side" });
      await until(() => hold.arrived > 0);
      const saving = runInDurableObject(agent.root, (object) =>
        (object as unknown as ChatClient).saveMessages([message("Hello")]),
      );
      const { limits } = await agent.capabilities();
      await until(async () => {
        const { items } = await limits.list({ name: "named", key: agent.name });
        return items.some(({ waiting }) => waiting > 0);
      });
      hold.release();
      await saving;
      await agent.untilEnded(running);
      expect(await agent.texts()).toEqual(["user: Hello", "assistant: You said: Hello"]);
    },
  );

  it("M5: turns wait while the keeper of their limit cannot be reached, and run when it can", async () => {
    const agent = given();
    const metadata = { slot: crypto.randomUUID() };
    const { LIMIT_KEEPER: keepers } = env as unknown as { LIMIT_KEEPER: DurableObjectNamespace };
    const unreachable = vi.spyOn(keepers, "getByName").mockImplementation(() => {
      throw new Error("The keeper does not answer");
    });
    const submissionId = await agent.submit("Hello", { metadata });
    const { waitingFor } = await until(async () => {
      const found = await agent.inspect(submissionId);
      return found?.status === "pending" && found.waitingFor && found;
    });
    expect(waitingFor).toMatchObject({ why: "unreachable" });
    expect(await agent.inspect(submissionId)).toMatchObject({ attempts: 0 });
    unreachable.mockRestore();
    expect(await agent.untilEnded(submissionId)).toMatchObject({
      status: "completed",
      attempts: 1,
    });
  });

  it("M2 L6: tools of a turn that waits for a later model call do not run twice", async () => {
    const agent = given();
    const account = crypto.randomUUID();
    const metadata = { slot: crypto.randomUUID() };
    const tool = { name: "charge", input: { account } };
    const submissionId = await agent.submit({ ...unique(), tool, text: "paid" }, { metadata });
    expect(await agent.untilEnded(submissionId)).toMatchObject({ output: "paid" });
    expect(charges.count(account)).toBe(1);
  });
}
