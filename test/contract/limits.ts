/** What a gate does to turns, for every host. */

import { expect, it } from "vitest";
import { message, until } from "../support/given.ts";
import { plans } from "../support/limits/host-gate.ts";
import { type ContractHost, Given, supports } from "./host.ts";
import { charges } from "./hosts/app.ts";

export function limitsContract(host: ContractHost): void {
  const given = (plan: { waits?: number; callsThatWait?: number[] }) => {
    const gate = crypto.randomUUID();
    const planned = { ...plan, calls: 0 };
    plans.set(gate, planned);
    return { agent: new Given(host), options: { metadata: { gate } }, planned };
  };
  const unique = () => ({ id: crypto.randomUUID() });

  it("L5: a submission that waits for a limit appends nothing, and completes when it is let in", async () => {
    const { agent, options } = given({ waits: 2 });
    const verbs = await agent.verbs();
    const { submissionId } = await verbs.submitMessages([message("Hello")], options);
    const waiting = await until(
      async () => (await verbs.inspectSubmission(submissionId))?.waitingFor,
    );
    expect(waiting).toMatchObject({ limit: "openai", why: "full" });
    expect(await agent.texts()).toEqual([]);
    expect(await agent.ended(submissionId)).toMatchObject({ status: "completed", attempts: 1 });
    expect(await agent.texts()).toEqual(["user: Hello", "assistant: You said: Hello"]);
  });

  it("L1: a submission that waits for a limit survives a crash", async () => {
    const { agent, options } = given({ waits: 3 });
    const verbs = await agent.verbs();
    const { submissionId } = await verbs.submitMessages([message("Hello")], options);
    await until(async () => (await verbs.inspectSubmission(submissionId))?.waitingFor);
    await agent.crash();
    expect(await agent.ended(submissionId)).toMatchObject({ status: "completed", attempts: 1 });
    expect(await agent.texts()).toEqual(["user: Hello", "assistant: You said: Hello"]);
  });

  // A harness calls its model itself.
  const it_ = it.runIf(supports(host, "budget"));

  it_.each(["main", "support"])(
    "L8: a turn whose first model call has to wait is not counted, in the thread %s",
    async (thread) => {
      const { agent, options, planned } = given({ callsThatWait: [1, 2] });
      const verbs = await agent.verbs();
      const all = { ...options, thread, retry: { maxAttempts: 1 } };
      const { submissionId } = await verbs.submitMessages([message("Hello")], all);
      const behind = await verbs.submitMessages([message("behind")], { thread });
      const ended = await agent.ended(submissionId);
      expect(ended).toMatchObject({ status: "completed", attempts: 3 });
      expect(ended).not.toHaveProperty("failedAttempts");
      expect(planned.calls).toBe(3);
      await agent.ended(behind.submissionId);
      expect(await agent.texts(thread)).toEqual([
        "user: Hello",
        "assistant: You said: Hello",
        "user: behind",
        "assistant: You said: behind",
      ]);
    },
  );

  it_.each(["main", "support"])(
    "L6: tools of a turn whose second model call has to wait do not run twice, in the thread %s",
    async (thread) => {
      const account = crypto.randomUUID();
      const { agent, options } = given({ callsThatWait: [2] });
      const verbs = await agent.verbs();
      const script = { ...unique(), tool: { name: "charge", input: { account } }, text: "charged" };
      const all = { ...options, thread };
      const { submissionId } = await verbs.submitMessages([message(script)], all);
      expect(await agent.ended(submissionId)).toMatchObject({
        status: "completed",
        attempts: 2,
        output: "charged",
      });
      expect(charges.get(account)).toBe(1);
      const texts = await agent.texts(thread);
      expect(texts.filter((text) => text.startsWith("user"))).toHaveLength(1);
      expect(texts.at(-1)).toBe("assistant: charged");
    },
  );

  it_("L1: a turn that waits in the middle survives a crash", async () => {
    const { agent, options } = given({ callsThatWait: [1] });
    const verbs = await agent.verbs();
    const { submissionId } = await verbs.submitMessages([message("Hello")], options);
    await until(async () => (await verbs.inspectSubmission(submissionId))?.waitingFor);
    await agent.crash();
    expect(await agent.ended(submissionId)).toMatchObject({ status: "completed" });
    expect(await agent.texts()).toEqual(["user: Hello", "assistant: You said: Hello"]);
  });
}
