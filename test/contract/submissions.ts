/** The guarantees of submissions, for every host. */

import { expect, it } from "vitest";
import { method } from "../../src/kernel/outbox/index.ts";
import { modelCalls } from "../../src/testing/index.ts";
import { message, refusal, until } from "../support/given.ts";
import { type ContractHost, Given, recordsTools, supports } from "./host.ts";
import { charges, heard, steps } from "./hosts/app.ts";

/** A script that is counted on its own. */
const unique = () => ({ id: crypto.randomUUID() });

export function submissionsContract(host: ContractHost): void {
  const given = () => new Given(host);

  it("L1 L7: a submission completes with its output, and stays readable", async () => {
    const agent = given();
    const verbs = await agent.verbs();
    const { submissionId, status, accepted } = await verbs.submitMessages([message("Hello")]);
    expect({ status, accepted }).toEqual({ status: "pending", accepted: true });
    expect(await verbs.waitForSubmission(submissionId)).toMatchObject({
      status: "completed",
      output: "You said: Hello",
      attempts: 1,
    });
    expect(await agent.texts()).toEqual(["user: Hello", "assistant: You said: Hello"]);
  });

  it.runIf(supports(host, "usage"))(
    "L7: a submission has the usage of its model calls",
    async () => {
      const agent = given();
      const { submissionId } = await (await agent.verbs()).submitMessages([message("Hello")]);
      expect(await agent.ended(submissionId)).toMatchObject({
        usage: { inputTokens: 10, outputTokens: 5 },
      });
    },
  );

  it("L2 L5: a late answer does not overwrite the end of a cancelled turn", async () => {
    const agent = given();
    const verbs = await agent.verbs();
    const asksLate = { delayMs: 300, text: "late" };
    const asked = message({ ...asksLate, ...unique() });
    const { submissionId } = await verbs.submitMessages([asked]);
    await until(async () => (await verbs.inspectSubmission(submissionId))?.status === "running");
    const cancelled = await verbs.cancelSubmission(submissionId, "not needed");
    expect(cancelled.outcome).toBe("cancelled");
    // The next turn of the thread runs, and its answer comes after the late one.
    const next = await verbs.submitMessages([message({ ...asksLate, ...unique() })]);
    expect(await agent.ended(next.submissionId)).toMatchObject({ status: "completed" });
    expect(await verbs.inspectSubmission(submissionId)).toMatchObject({ status: "aborted" });
  });

  it("L3: the same key returns the first submission, and another payload is a conflict", async () => {
    const verbs = await given().verbs();
    const options = { idempotencyKey: "order-1" };
    const asked = message("Hello");
    const first = await verbs.submitMessages([asked], options);
    const again = await verbs.submitMessages([asked], options);
    expect(again).toMatchObject({ submissionId: first.submissionId, accepted: false });
    expect(again.conflict).toBeUndefined();
    const other = await verbs.submitMessages([message("Other")], options);
    expect(other).toMatchObject({
      submissionId: first.submissionId,
      accepted: false,
      conflict: true,
    });
    const thrown = verbs.submitMessages([message("Other")], { ...options, onConflict: "throw" });
    expect((await refusal(thrown)).name).toBe("IdempotencyConflictError");
  });

  it("L4: turns of a thread run one after the other, in the order of acceptance", async () => {
    const agent = given();
    const verbs = await agent.verbs();
    const said = ["a", "b", "c"].map((text) =>
      message({ ...unique(), text, delayMs: text === "a" ? 100 : 0 }),
    );
    const submitted = await verbs.submitMany(said.map((asked) => ({ messages: [asked] })));
    for (const { submissionId } of submitted) await agent.ended(submissionId);
    const replies = (await agent.texts()).filter((text) => text.startsWith("assistant"));
    expect(replies).toEqual(["assistant: a", "assistant: b", "assistant: c"]);
  });

  it("L4: another thread does not wait for the main one, and has messages of its own", async () => {
    const agent = given();
    const verbs = await agent.verbs();
    const slow = await verbs.submitMessages([message({ ...unique(), delayMs: 1_500 })]);
    const other = await verbs.submitMessages([message("aside")], { thread: "support" });
    expect(await agent.ended(other.submissionId)).toMatchObject({ output: "You said: aside" });
    expect(await verbs.inspectSubmission(slow.submissionId)).not.toMatchObject({
      status: "completed",
    });
    expect(await agent.texts("support")).toEqual(["user: aside", "assistant: You said: aside"]);
    await agent.ended(slow.submissionId);
    expect(await agent.texts()).toHaveLength(2);
  });

  const { isolatedRows = 7 } = host;
  it(`L4: an isolated turn leaves no message, and writes at most ${isolatedRows} rows`, async () => {
    const agent = given();
    const isolated = async () => {
      const verbs = await agent.verbs();
      const { submissionId } = await verbs.submitMessages([message("Hello")], {
        thread: "isolated",
        notify: method("hear"),
      });
      expect(await agent.ended(submissionId)).toMatchObject({ output: "You said: Hello" });
      await until(() => heard.has(submissionId));
    };
    await isolated();
    const { rowsWritten } = await agent.counted(isolated);
    // A sub-agent has storage of its own: only its wakes are counted here, which are rows of the root agent.
    expect(rowsWritten).toBeLessThanOrEqual(isolatedRows);
    expect(await agent.texts()).toEqual([]);
  });

  it("L5: cancelling a pending submission appends no message", async () => {
    const agent = given();
    const verbs = await agent.verbs();
    const first = await verbs.submitMessages([message({ ...unique(), delayMs: 300 })]);
    const second = await verbs.submitMessages([message("never")]);
    expect((await verbs.cancelSubmission(second.submissionId)).outcome).toBe("cancelled");
    await agent.ended(first.submissionId);
    expect(await verbs.inspectSubmission(second.submissionId)).toMatchObject({ status: "aborted" });
    expect((await agent.texts()).join()).not.toContain("never");
  });

  it("L5: clearing the conversation ends what runs and what is pending", async () => {
    const agent = given();
    const verbs = await agent.verbs();
    const running = await verbs.submitMessages([message({ ...unique(), delayMs: 60_000 })]);
    await until(
      async () => (await verbs.inspectSubmission(running.submissionId))?.status === "running",
    );
    const pending = await verbs.submitMessages([message("pending")]);
    await verbs.clearMessages();
    expect(await agent.ended(running.submissionId)).toMatchObject({ status: "aborted" });
    expect(await agent.ended(pending.submissionId)).toMatchObject({ status: "skipped" });
    const next = await verbs.submitMessages([message("next")]);
    expect(await agent.ended(next.submissionId)).toMatchObject({ status: "completed" });
    expect(await agent.texts()).toEqual(["user: next", expect.stringMatching("^assistant: ")]);
  });

  it("L5: clearing a thread ends what runs in it", async () => {
    const agent = given();
    const verbs = await agent.verbs();
    const asked = message({ ...unique(), delayMs: 60_000 });
    const { submissionId } = await verbs.submitMessages([asked], { thread: "support" });
    await until(async () => (await verbs.inspectSubmission(submissionId))?.status === "running");
    await verbs.clearThread("support");
    expect(await agent.ended(submissionId)).toMatchObject({ status: "aborted" });
    const next = await verbs.submitMessages([message("next")], { thread: "support" });
    await agent.ended(next.submissionId);
    expect(await agent.texts("support")).toEqual([
      "user: next",
      expect.stringMatching("^assistant: "),
    ]);
  });

  it.runIf(recordsTools(host))(
    "L6: a crash after a tool has run does not run the tool again",
    async () => {
      const agent = given();
      const account = crypto.randomUUID();
      const script = { ...unique(), tool: { name: "charge", input: { account } }, delayMs: 150 };
      const verbs = await agent.verbs();
      const { submissionId } = await verbs.submitMessages([message(script)]);
      await until(() => charges.get(account) === 1);
      await agent.crash();
      expect(await agent.ended(submissionId)).toMatchObject({ status: "completed" });
      expect(charges.get(account)).toBe(1);
    },
  );

  it.runIf(supports(host, "tools"))(
    "L6: an interrupted durable tool runs again, and its finished steps do not",
    async () => {
      const agent = given();
      const account = crypto.randomUUID();
      const script = { ...unique(), tool: { name: "ship", input: { account } }, delayMs: 150 };
      const { submissionId } = await (await agent.verbs()).submitMessages([message(script)]);
      const names = () => (steps.get(account) ?? []).map((step) => step.split(" ")[0]);
      await until(() => names().includes("pay"));
      await agent.crash();
      expect(await agent.ended(submissionId)).toMatchObject({ status: "completed" });
      expect(names()).toEqual(["reserve", "pay", "pay", "notify"]);
      // The step that was interrupted runs again under its key.
      expect(new Set(steps.get(account)).size).toBe(3);
    },
  );

  it.runIf(supports(host, "tools"))(
    "L6: an interrupted durable tool runs again if other calls of its step have ended",
    async () => {
      const agent = given();
      const account = crypto.randomUUID();
      const accounts = [account, `${account}-2`, `${account}-3`];
      const charged = accounts.map((one) => ({ name: "charge", input: { account: one } }));
      const script = { ...unique(), tools: [[...charged, { name: "ship", input: { account } }]] };
      const { submissionId } = await (await agent.verbs()).submitMessages([message(script)]);
      await until(() => steps.get(account)?.length === 2);
      await agent.crash();
      expect(await agent.ended(submissionId)).toMatchObject({ status: "completed" });
      expect(new Set(steps.get(account)).size).toBe(3);
      expect(accounts.map((one) => charges.get(one))).toEqual([1, 1, 1]);
    },
  );

  it("L6: a crash before the answer ends in one answer", async () => {
    const agent = given();
    const script = { ...unique(), delayMs: 200, text: "answered" };
    const { submissionId } = await (await agent.verbs()).submitMessages([message(script)]);
    await until(() => (modelCalls.get(JSON.stringify(script)) ?? 0) > 0);
    await agent.crash();
    expect(await agent.ended(submissionId)).toMatchObject({
      status: "completed",
      output: "answered",
    });
    const replies = (await agent.texts()).filter((text) => text.includes("answered"));
    expect(replies).toHaveLength(2);
  });

  // A harness runs other tools itself.
  it.each(supports(host, "tools") ? ["weigh", "measure"] : ["measure"])(
    "L6: a result of the tool %s that JSON cannot hold is a tool error, and the turn goes on",
    async (name) => {
      const agent = given();
      const verbs = await agent.verbs();
      const script = { ...unique(), tool: { name, input: {} }, text: "sent" };
      const { submissionId } = await verbs.submitMessages([message(script)]);
      const ended = { status: "completed", output: "sent" };
      expect(await agent.ended(submissionId)).toMatchObject(ended);
      const reply = JSON.stringify((await verbs.threadMessages("main")).at(-1));
      expect(reply).toContain(`Invalid result of tool \\"${name}\\": JSON cannot hold it`);
    },
  );

  it("L7: a failed turn ends in an error with its name and message", async () => {
    const agent = given();
    const script = { ...unique(), fail: "The model refuses", status: 400 };
    const { submissionId } = await (await agent.verbs()).submitMessages([message(script)]);
    const ended = await agent.ended(submissionId);
    expect(ended).toMatchObject({ status: "error" });
    // AiSdkHarness does not pass on what the model says.
    expect(ended?.error).toContain(
      host.harness === "AiSdkHarness" ? "An error occurred" : "The model refuses",
    );
    // The thread goes on.
    const next = await (await agent.verbs()).submitMessages([message("next")]);
    expect(await agent.ended(next.submissionId)).toMatchObject({ status: "completed" });
  });

  it.runIf(supports(host, "retry"))("L8: a turn that was refused with 429 is retried", async () => {
    const agent = given();
    const script = { ...unique(), fail: "Slow down", failTimes: 1, status: 429, text: "at last" };
    const { submissionId } = await (await agent.verbs()).submitMessages([message(script)]);
    expect(await agent.ended(submissionId)).toMatchObject({
      status: "completed",
      output: "at last",
      attempts: 2,
    });
  });

  it.runIf(supports(host, "output"))("L7: an output matches its schema", async () => {
    const agent = given();
    const schema = {
      type: "object",
      properties: { title: { type: "string" } },
      required: ["title"],
    } as const;
    const asked = message({ ...unique(), answer: { title: "Printer" } });
    const verbs = await agent.verbs();
    const { submissionId } = await verbs.submitMessages([asked], { output: schema });
    expect(await agent.ended(submissionId)).toMatchObject({ output: { title: "Printer" } });
  });

  it.runIf(supports(host, "budget"))(
    "L9: a turn without tokens left ends in an error",
    async () => {
      const agent = given();
      const script = { ...unique(), tool: { name: "charge", input: { account: "budget" } } };
      const { submissionId } = await (await agent.verbs()).submitMessages([message(script)], {
        budget: { tokens: 12 },
      });
      expect(await agent.ended(submissionId)).toMatchObject({
        status: "error",
        errorName: "BudgetExceededError",
      });
    },
  );

  it.runIf(supports(host, "steer"))(
    "L4: a steering submission joins the running turn",
    async () => {
      const agent = given();
      const verbs = await agent.verbs();
      const script = {
        ...unique(),
        tools: [
          { name: "charge", input: { account: "a" } },
          { name: "charge", input: { account: "b" } },
        ],
        delayMs: 250,
      };
      const first = await verbs.submitMessages([message(script)]);
      await until(
        async () => (await verbs.inspectSubmission(first.submissionId))?.status === "running",
      );
      const joining = await verbs.submitMessages([message("More")], { whenBusy: "steer" });
      expect(await agent.ended(joining.submissionId)).toMatchObject({
        status: "completed",
        mergedInto: first.submissionId,
      });
    },
  );

  it("O1 O2: the end is delivered, also after a crash", async () => {
    const agent = given();
    const asked = message({ ...unique(), delayMs: 100 });
    const verbs = await agent.verbs();
    const { submissionId } = await verbs.submitMessages([asked], { notify: method("hear") });
    await agent.crash();
    await agent.ended(submissionId);
    const ids = await until(() => heard.get(submissionId));
    expect(new Set(ids).size).toBe(1);
  });

  it.skipIf(supports(host, "channel"))(
    "a channel is refused at the call, and nothing is stored",
    async () => {
      const verbs = await given().verbs();
      const refused = await refusal(verbs.submitMessages([message("x")], { channel: "email" }));
      expect(refused).toMatchObject({ name: "NotSupportedByHostError", host: host.name });
      expect(refused.message).toContain("channel");
      expect(await verbs.listSubmissions()).toEqual([]);
    },
  );

  it("a refused submission stores nothing", async () => {
    const verbs = await given().verbs();
    const refused = await refusal(verbs.submitMessages([], {}));
    expect(refused.name).toBe("InvalidSubmissionError");
    expect(await verbs.listSubmissions()).toEqual([]);
  });
}
