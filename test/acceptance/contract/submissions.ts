/** L1 to L5, L7 to L9: accepted turns. */

import { method } from "perdure/outbox";
import { modelCalls } from "perdure/testing";
import { expect, it } from "vitest";
import { MAX_PENDING } from "../app/features.ts";
import { givenAgent, refusal, until } from "../app/given.ts";
import { Hold } from "../app/hold.ts";
import { type Host, supports } from "../app/hosts.ts";
import { message } from "../app/messages.ts";
import { deliveries } from "../app/receivers.ts";

const unique = () => ({ id: crypto.randomUUID() });

export function submissionsContract(host: Host): void {
  const given = () => givenAgent(host);

  it("L1 L7: a submission completes with its output, and stays readable", async () => {
    const agent = given();
    const verbs = await agent.verbs();
    const submitted = await verbs.submitMessages([message("Hello")]);
    expect(submitted).toMatchObject({ status: "pending", accepted: true });
    expect(await verbs.waitForSubmission(submitted.submissionId)).toMatchObject({
      status: "completed",
      output: "You said: Hello",
      attempts: 1,
    });
    expect(await agent.texts()).toEqual(["user: Hello", "assistant: You said: Hello"]);
    await agent.crash();
    expect(await agent.inspect(submitted.submissionId)).toMatchObject({
      status: "completed",
      output: "You said: Hello",
    });
  });

  it("L1: accepted submissions that wait behind a running turn complete in order after a crash", async () => {
    const agent = given();
    const hold = new Hold();
    const running = await agent.submit({ id: hold.id, text: "one" });
    await until(() => hold.arrived > 0);
    const waiting = [await agent.submit("two"), await agent.submit("three")];
    await agent.crash();
    hold.release();
    for (const id of [running, ...waiting])
      expect(await agent.untilEnded(id)).toMatchObject({ status: "completed" });
    const replies = (await agent.texts()).filter((text) => text.startsWith("assistant"));
    expect(replies.slice(-3)).toEqual([
      "assistant: one",
      "assistant: You said: two",
      "assistant: You said: three",
    ]);
  });

  it("L1 O2: after a crash the alarm alone continues the turn and delivers its end", async () => {
    const agent = given();
    const hold = new Hold();
    const submissionId = await agent.submit({ id: hold.id }, { notify: method("receive") });
    await until(() => hold.arrived > 0);
    await agent.crash();
    hold.release();
    // No verb is called before the delivery.
    await until(async () => {
      await agent.ring();
      return deliveries.count(submissionId) > 0;
    });
    expect(await agent.inspect(submissionId)).toMatchObject({ status: "completed" });
  });

  it("L2 L5: a model that ignores its abort changes nothing after the turn was cancelled", async () => {
    const agent = given();
    const hold = new Hold({ ignoresAbort: true });
    const submissionId = await agent.submit(
      { id: hold.id, text: "late" },
      { notify: method("receive") },
    );
    await until(() => hold.arrived > 0);
    const verbs = await agent.verbs();
    const cancelled = await verbs.cancelSubmission(submissionId, "not needed");
    expect(cancelled.outcome).toBe("cancelled");
    hold.release();
    await until(() => hold.passed > 0);
    // The thread continues, so the late attempt has returned.
    const next = await agent.submit("next");
    expect(await agent.untilEnded(next)).toMatchObject({ status: "completed" });
    const ended = await agent.untilEnded(submissionId);
    expect(ended).toMatchObject({ status: "aborted", attempts: 1 });
    expect(ended).not.toHaveProperty("output");
    await until(() => deliveries.count(submissionId) > 0);
    expect(deliveries.get(submissionId)).toMatchObject([
      { event: { type: "submission.aborted", data: { status: "aborted" } } },
    ]);
  });

  it("L2 L5: a model that fails after its turn was cancelled does not bring it back", async () => {
    const agent = given();
    const hold = new Hold({ ignoresAbort: true });
    const script = { id: hold.id, fail: "Overloaded", failTimes: 1, status: 503 };
    const submissionId = await agent.submit(script, { retry: { maxAttempts: 3 } });
    await until(() => hold.arrived > 0);
    await (await agent.verbs()).cancelSubmission(submissionId);
    const aborted = await agent.untilEnded(submissionId);
    hold.release();
    await until(() => hold.passed > 0);
    const next = await agent.submit("next");
    expect(await agent.untilEnded(next)).toMatchObject({ status: "completed" });
    expect(await agent.inspect(submissionId)).toEqual(aborted);
    expect(hold.arrived).toBe(1);
  });

  it("L2: a tool that ignores its abort changes nothing after the turn was cancelled", async () => {
    const agent = given();
    const hold = new Hold({ ignoresAbort: true });
    const input = { account: hold.id, hold: hold.id };
    const submissionId = await agent.submit({
      ...unique(),
      tool: { name: "charge", input },
      text: "late",
    });
    await until(() => hold.arrived > 0);
    await (await agent.verbs()).cancelSubmission(submissionId);
    const aborted = await agent.untilEnded(submissionId);
    hold.release();
    await until(() => hold.passed > 0);
    const next = await agent.submit("next");
    expect(await agent.untilEnded(next)).toMatchObject({ status: "completed" });
    expect(await agent.inspect(submissionId)).toEqual(aborted);
  });

  it("L3: a key that comes again with other metadata is a conflict, and the order of its fields is none", async () => {
    const agent = given();
    const verbs = await agent.verbs();
    const send = (metadata?: Record<string, string | null>) =>
      verbs.submitMessages([message("Hello")], {
        idempotencyKey: "one",
        ...(metadata && { metadata }),
      });
    await send({ order: "7", tenant: "a" });
    const conflicts = [];
    for (const metadata of [
      { tenant: "a", order: "7" },
      { order: "8", tenant: "a" },
      { order: "7", tenant: null },
      undefined,
    ])
      conflicts.push((await send(metadata)).conflict ?? false);
    expect(conflicts).toEqual([false, true, true, true]);
    expect(await verbs.listSubmissions()).toHaveLength(1);
  });

  it("L3: the same key returns the first submission, and other messages are a conflict", async () => {
    const agent = given();
    const verbs = await agent.verbs();
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
    await agent.untilEnded(first.submissionId);
    await agent.crash();
    const later = await (await agent.verbs()).submitMessages([asked], options);
    expect(later).toMatchObject({ submissionId: first.submissionId, accepted: false });
    expect(await agent.texts()).toHaveLength(2);
  });

  it("L3: of calls at the same time with one key, one is accepted", async () => {
    const agent = given();
    const verbs = await agent.verbs();
    const asked = message("Hello");
    const results = await Promise.all(
      [1, 2, 3].map(() => verbs.submitMessages([asked], { idempotencyKey: "order-1" })),
    );
    expect(results.filter(({ accepted }) => accepted)).toHaveLength(1);
    expect(new Set(results.map(({ submissionId }) => submissionId)).size).toBe(1);
  });

  it("L4: turns of a thread run one at a time in the order of acceptance, beside other threads", async () => {
    const agent = given();
    const hold = new Hold();
    const verbs = await agent.verbs();
    const scripts = [{ id: hold.id, text: "a" }, "b", "c"];
    const submitted = await verbs.submitMany(
      scripts.map((script) => ({ messages: [message(script)] })),
    );
    const [running = "", ...waiting] = submitted.map(({ submissionId }) => submissionId);
    await until(() => hold.arrived > 0);
    const other = await agent.submit("aside", { thread: "support" });
    expect(await agent.untilEnded(other)).toMatchObject({ output: "You said: aside" });
    expect(await agent.inspect(running)).toMatchObject({ status: "running" });
    for (const id of waiting) expect(await agent.inspect(id)).toMatchObject({ status: "pending" });
    // Messages join when their turn starts.
    expect(await agent.texts()).toHaveLength(1);
    expect(await agent.texts("support")).toEqual(["user: aside", "assistant: You said: aside"]);
    hold.release();
    for (const id of [running, ...waiting]) await agent.untilEnded(id);
    expect((await agent.texts()).slice(1)).toEqual([
      "assistant: a",
      "user: b",
      "assistant: You said: b",
      "user: c",
      "assistant: You said: c",
    ]);
  });

  it("L4: four threads run at the same time, and the fifth starts when one of them has ended", async () => {
    const agent = given();
    const holds = Array.from({ length: 5 }, () => new Hold());
    const ids = [];
    for (const [index, { id }] of holds.entries())
      ids.push(await agent.submit({ id, text: "done" }, { thread: `thread-${index}` }));
    const [first = "", fifth = ""] = [ids[0], ids[4]];
    await until(() => holds.slice(0, 4).every(({ arrived }) => arrived > 0));
    expect(await agent.inspect(fifth)).toMatchObject({ status: "pending" });
    holds[0]?.release();
    await agent.untilEnded(first);
    await until(() => (holds[4]?.arrived ?? 0) > 0);
    for (const hold of holds) hold.release();
    for (const id of ids) expect(await agent.untilEnded(id)).toMatchObject({ status: "completed" });
  });

  it.runIf(["perdure/chat", "perdure/think"].includes(host.entry))(
    "L4: a turn that a method runs itself comes before the one that it has submitted",
    async () => {
      const agent = given();
      const verbs = await agent.verbs();
      await verbs.submitAndSave?.(message("submitted"), message("direct"));
      await until(async () => (await agent.texts()).length === 4);
      expect((await agent.texts()).filter((text) => text.startsWith("user"))).toEqual([
        "user: direct",
        "user: submitted",
      ]);
    },
  );

  it("L4: an isolated turn adds no message to a conversation", async () => {
    const agent = given();
    const isolated = await agent.submit("Hello", { thread: "isolated" });
    expect(await agent.untilEnded(isolated)).toMatchObject({ output: "You said: Hello" });
    expect(await agent.texts()).toEqual([]);
  });

  it("L4: sessions of the app stay apart from the threads", async () => {
    const agent = given();
    expect(await (await agent.verbs()).remember("one")).toEqual(["one"]);
    for (const thread of ["main", "notes"])
      await agent.untilEnded(await agent.submit("Hello", { thread }));
    await agent.restart();
    expect(await (await agent.verbs()).remember("two")).toEqual(["one", "two"]);
    for (const thread of ["main", "notes"])
      expect(await agent.texts(thread)).toEqual(["user: Hello", "assistant: You said: Hello"]);
  });

  it("L4: all submissions of submitMany() are accepted, or none", async () => {
    const agent = given();
    const verbs = await agent.verbs();
    const mixed = [{ messages: [message("good")] }, { messages: [] }];
    expect((await refusal(verbs.submitMany(mixed))).name).toBe("InvalidSubmissionError");
    expect(await verbs.listSubmissions()).toEqual([]);
  });

  it("L1 L4: a steering submission joins the running turn, and ends with it after a crash", async () => {
    for (const crashes of [false, true]) {
      const agent = given();
      const hold = new Hold();
      const input = { account: hold.id, hold: hold.id };
      const script = { ...unique(), tool: { name: "lookUp", input }, text: "both" };
      const running = await agent.submit(script);
      await until(() => hold.arrived > 0);
      const joining = await agent.submit("More", {
        whenBusy: "steer",
        notify: method("receive"),
      });
      if (crashes) await agent.crash();
      hold.release();
      expect(await agent.untilEnded(running)).toMatchObject({ status: "completed" });
      expect(await agent.untilEnded(joining)).toMatchObject({ status: "completed" });
      await until(() => deliveries.count(joining) > 0);
      const said = (await agent.texts()).filter((text) => text === "user: More");
      expect(said).toHaveLength(1);
      const next = await agent.submit("next");
      expect(await agent.untilEnded(next)).toMatchObject({ status: "completed" });
      if (!crashes) expect(await agent.inspect(joining)).toMatchObject({ mergedInto: running });
    }
  });

  it("L5: cancelling a pending submission appends no message", async () => {
    const agent = given();
    const hold = new Hold();
    const running = await agent.submit({ id: hold.id });
    const pending = await agent.submit("never");
    const cancelled = await (await agent.verbs()).cancelSubmission(pending);
    expect(cancelled.outcome).toBe("cancelled");
    hold.release();
    await agent.untilEnded(running);
    await agent.untilEnded(await agent.submit("next"));
    expect(await agent.inspect(pending)).toMatchObject({ status: "aborted", attempts: 0 });
    expect((await agent.texts()).join()).not.toContain("never");
  });

  it("L5: clearing the conversation ends its running turn and its pending submissions", async () => {
    const agent = given();
    const hold = new Hold();
    const running = await agent.submit({ id: hold.id });
    await until(() => hold.arrived > 0);
    const pending = await agent.submit("pending");
    await (await agent.verbs()).clearMessages();
    expect(await agent.untilEnded(running)).toMatchObject({ status: "aborted" });
    expect(await agent.untilEnded(pending)).toMatchObject({ status: "skipped" });
    const next = await agent.submit("next");
    expect(await agent.untilEnded(next)).toMatchObject({ status: "completed" });
    expect(await agent.texts()).toEqual(["user: next", "assistant: You said: next"]);
  });

  it("L5: clearing a thread ends its running turn", async () => {
    const agent = given();
    const hold = new Hold();
    const thread = "support";
    const running = await agent.submit({ id: hold.id }, { thread });
    await until(() => hold.arrived > 0);
    await (await agent.verbs()).clearThread(thread);
    expect(await agent.untilEnded(running)).toMatchObject({ status: "aborted" });
    await agent.untilEnded(await agent.submit("next", { thread }));
    expect(await agent.texts(thread)).toEqual(["user: next", "assistant: You said: next"]);
  });

  it("L7: a failed turn keeps its error, its thread goes on, and deletion removes it", async () => {
    const agent = given();
    const failed = await agent.submit({ ...unique(), fail: "The model refuses", status: 400 });
    const next = await agent.submit("next");
    const ended = await agent.untilEnded(failed);
    expect(ended).toMatchObject({ status: "error", attempts: 1 });
    expect(ended.status === "error" && ended.error).toContain("The model refuses");
    expect(await agent.untilEnded(next)).toMatchObject({ status: "completed" });
    const verbs = await agent.verbs();
    expect(await verbs.deleteSubmission(failed)).toBe(true);
    expect(await verbs.inspectSubmission(failed)).toBeNull();
    expect(await verbs.inspectSubmission(next)).toMatchObject({ status: "completed" });
  });

  it("L7: a submission has the usage of its model calls and the id of its reply", async () => {
    const agent = given();
    const submissionId = await agent.submit("Hello");
    const ended = await agent.untilEnded(submissionId);
    expect(ended).toMatchObject({ usage: { inputTokens: 10, outputTokens: 5 } });
    const reply = (await (await agent.verbs()).threadMessages("main")).at(-1);
    expect(ended).toMatchObject({ messageId: reply?.id });
  });

  it("L7: an output matches its schema", async () => {
    const agent = given();
    const output = {
      type: "object",
      properties: { title: { type: "string" } },
      required: ["title"],
    } as const;
    const id = await agent.submit({ ...unique(), answer: { title: "Printer" } }, { output });
    expect(await agent.untilEnded(id)).toMatchObject({ output: { title: "Printer" } });
  });

  it("L8: a turn that got 429 is retried after the delay that it was given", async () => {
    const agent = given();
    const headers = { "retry-after-ms": "30" };
    const failure = { fail: "Slow down", failTimes: 1, status: 429, headers };
    const submissionId = await agent.submit({ ...unique(), ...failure, text: "at last" });
    expect(await agent.untilEnded(submissionId)).toMatchObject({
      status: "completed",
      output: "at last",
      attempts: 2,
    });
  });

  it("L8 L9: a turn that keeps failing ends after its attempts, of which each calls the model once", async () => {
    const agent = given();
    const script = { ...unique(), fail: "Overloaded", status: 503 };
    const submissionId = await agent.submit(script, { retry: { maxAttempts: 3 } });
    const next = await agent.submit("next");
    expect(await agent.untilEnded(submissionId)).toMatchObject({ status: "error", attempts: 3 });
    expect(await agent.untilEnded(next)).toMatchObject({ status: "completed" });
    expect(modelCalls.get(JSON.stringify(script))).toBe(3);
  });

  it("L8: a turn whose provider's account has no credit left ends at once, and its error says what to do", async () => {
    const agent = given();
    const fail = "You exceeded your current quota, please check your plan and billing details.";
    const script = { ...unique(), fail, status: 429 };
    const submissionId = await agent.submit(script, { retry: { maxAttempts: 3 } });
    const ended = await agent.untilEnded(submissionId);
    expect(ended).toMatchObject({ status: "error", attempts: 1 });
    expect(ended?.error).toContain("add credit");
    expect(ended?.error).toContain(fail);
    expect(modelCalls.get(JSON.stringify(script))).toBe(1);
  });

  it("L9: a submission above the limit of pending ones is refused, and nothing is stored", async () => {
    const agent = given();
    const verbs = await agent.verbs();
    const many = Array.from({ length: MAX_PENDING + 1 }, () => ({ messages: [message("x")] }));
    expect((await refusal(verbs.submitMany(many))).name).toBe("BacklogFullError");
    expect(await verbs.listSubmissions()).toEqual([]);
    expect((await refusal(verbs.submitMessages([]))).name).toBe("InvalidSubmissionError");
    expect(await verbs.listSubmissions()).toEqual([]);
  });

  it("L9: a turn without tokens left ends with an error", async () => {
    const agent = given();
    const tool = { name: "charge", input: { account: "budget" } };
    const submissionId = await agent.submit({ ...unique(), tool }, { budget: { tokens: 12 } });
    expect(await agent.untilEnded(submissionId)).toMatchObject({
      status: "error",
      errorName: "BudgetExceededError",
    });
  });

  it.skipIf(supports(host, "channel"))(
    "L9: a channel is refused at the call, and nothing is stored",
    async () => {
      const verbs = await given().verbs();
      const refused = await refusal(verbs.submitMessages([message("x")], { channel: "email" }));
      expect(refused).toMatchObject({ name: "NotSupportedByHostError", host: host.entry });
      expect(refused.message).toContain("channel");
      expect(await verbs.listSubmissions()).toEqual([]);
    },
  );
}
