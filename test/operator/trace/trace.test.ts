/** The trace of a submission, built from the rows that it has left, in each of its states. */

import { expect, it } from "vitest";
import { keyPrefix } from "../../../src/core/steps.ts";
import { traceOf } from "../../../src/core/trace-context.ts";
import { webhook } from "../../../src/outbox/index.ts";
import { limitWaits } from "../../../src/submissions/store/limit-waits.ts";
import { givenLedger, message, refusal, until } from "../../support/given.ts";
import {
  crashOne,
  expectState,
  givenLedgerWith,
  playing,
  somewhere,
  submit,
  waitingIn,
  wakeNow,
  within,
} from "../../support/ledger.ts";
import { full, gated, limitWait, ScriptedGate } from "../../support/limits/gate.ts";
import { act, chance, refusals, time } from "../../support/objects/ledger-object.ts";
import { receivedBy, receiverUrl, someReceiver } from "../../support/receivers/client.ts";
import { spansOf, traceOn, treeOf } from "./traces.ts";

const CALLER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const hold = { delayMs: 600_000 };

it("a prompt with a tool has its waiting, its attempt, its model calls and the tool", async () => {
  const stub = givenLedger();
  const { submissionId } = await submit(stub, { tokens: 5, acts: true, delayMs: 20, calls: 2 });
  await expectState(stub, submissionId, "completed");
  const trace = await traceOn(stub, submissionId);
  expect(trace.traceId).toBe(traceOf(`submission:${submissionId}`).traceId);
  expect(treeOf(trace).filter((line) => !line.includes("wait"))).toEqual([
    "submission ok",
    "  attempt ok",
    "    model ok",
    "    tool ok",
    "    model ok",
    "    tool ok",
  ]);
  for (const { startedAt, endedAt = 0 } of spansOf(trace, "model")) {
    expect(endedAt - startedAt).toBeGreaterThanOrEqual(15);
  }
  expect(spansOf(trace, "tool")[0]).toMatchObject({
    name: "execute_tool act",
    attributes: { "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "act" },
  });
});

it("a model call has the model, the provider, its tokens and its own duration", async () => {
  const stub = givenLedger();
  await playing(stub, "s", async (turn, { submissions }) => {
    const ref = turn.begin();
    submissions.turns.nextStep(ref);
    await new Promise((resolve) => setTimeout(resolve, 40));
    const call = { model: "gpt-4o", provider: "openai", durationMs: 10.4 };
    submissions.turns.recordUsage(ref, { inputTokens: 3, outputTokens: 4, totalTokens: 7 }, call);
    return { outcome: "completed", text: "done" };
  });
  await submit(stub, "hello", { submissionId: "s" });
  await expectState(stub, "s", "completed");
  const [model] = spansOf(await traceOn(stub, "s"), "model");
  expect(model).toMatchObject({
    name: "chat gpt-4o",
    endedAt: (model?.startedAt ?? 0) + 10,
    attributes: {
      "gen_ai.request.model": "gpt-4o",
      "gen_ai.provider.name": "openai",
      "gen_ai.usage.input_tokens": 3,
      "gen_ai.usage.output_tokens": 4,
    },
  });
});

it("a model call that fails has the model, the provider and the kind of its error", async () => {
  const stub = givenLedger();
  await playing(stub, "s", async (turn, { submissions }) => {
    submissions.turns.nextStep(turn.begin(), true, { model: "gpt-4o", provider: "openai" });
    return { outcome: "error", failure: { name: "AI_APICallError", message: "too long" } };
  });
  await submit(stub, "hello", { submissionId: "s", retry: { maxAttempts: 1 } });
  await expectState(stub, "s", "error");
  expect(spansOf(await traceOn(stub, "s"), "model")).toMatchObject([
    {
      name: "chat gpt-4o",
      status: "error",
      error: "too long",
      attributes: {
        "gen_ai.request.model": "gpt-4o",
        "gen_ai.provider.name": "openai",
        "error.type": "AI_APICallError",
      },
    },
  ]);
});

it("the crash between two attempts is an attempt that was interrupted, with the tool in it", async () => {
  let stub = givenLedger();
  const { submissionId } = await submit(stub, { acts: true, calls: 2, delayMs: 1_000 });
  await until(() => within(stub, (_, { storage }) => isCalled(storage)));
  stub = await crashOne(stub);
  await stub.list();
  await until(async () => {
    await wakeNow(stub);
    return (await stub.inspect(submissionId))?.attempts === 2;
  });
  await expectState(stub, submissionId, "completed");
  const trace = await traceOn(stub, submissionId);
  const attempts = spansOf(trace, "attempt");
  expect(attempts).toMatchObject([
    { status: "error", attributes: { "perdure.attempt": 1, "perdure.attempt.interrupted": true } },
    { status: "ok", attributes: { "perdure.attempt": 2 } },
  ]);
  const [tool] = spansOf(trace, "tool");
  expect(tool?.parentSpanId).toBe(attempts[0]?.spanId);
  expect(attempts[1]?.startedAt).toBeGreaterThanOrEqual(attempts[0]?.endedAt ?? 0);
});

it("an attempt that failed keeps its model calls, and its retry has waited", async () => {
  const stub = givenLedger();
  const random = chance.random;
  chance.random = () => 0.5;
  try {
    const failing = { fail: "overloaded", status: 503, failTimes: 1, tokens: 2 };
    const { submissionId } = await submit(stub, failing);
    await until(async () => (await stub.inspect(submissionId))?.status === "completed");
    const trace = await traceOn(stub, submissionId);
    expect(treeOf(trace).filter((line) => !line.includes("  wait"))).toEqual([
      "submission ok",
      "  attempt error: overloaded",
      "    model ok",
      "  attempt ok",
      "    model ok",
    ]);
    expect(spansOf(trace, "wait").at(-1)).toMatchObject({
      name: "perdure.retry_wait",
      attributes: { "perdure.attempt": 2 },
    });
  } finally {
    chance.random = random;
  }
});

it("the model call in flight ends with the error of its attempt", async () => {
  const stub = givenLedger();
  const options = { retry: { maxAttempts: 1 } };
  const { submissionId } = await submit(stub, { fail: "no such model" }, options);
  await expectState(stub, submissionId, "error");
  expect(treeOf(await traceOn(stub, submissionId)).slice(-2)).toEqual([
    "  attempt error: no such model",
    "    model error: no such model",
  ]);
});

it("a pending submission waits, and a running one runs", async () => {
  const stub = givenLedger();
  const { submissionId: running } = await submit(stub, hold);
  const { submissionId: pending } = await submit(stub, "next");
  await expectState(stub, running, "running");
  expect(treeOf(await traceOn(stub, pending))).toEqual(["submission running", "  wait running"]);
  const tree = treeOf(await traceOn(stub, running));
  expect(tree.filter((line) => !line.includes("  wait"))).toEqual([
    "submission running",
    "  attempt running",
  ]);
  await stub.cancel(pending, "not needed");
  expect(treeOf(await traceOn(stub, pending))).toEqual([
    "submission unset: not needed",
    "  wait unset",
  ]);
});

it("a tool that runs has no end, and one that a crash interrupted ends with its attempt", async () => {
  let stub = givenLedger();
  await playing(stub, "s", async (turn, { submissions }) => {
    const ref = turn.begin();
    submissions.turns.nextStep(ref);
    await submissions.turns.toolCalls(ref).start(act());
    return new Promise(() => {});
  });
  await submit(stub, hold, { submissionId: "s", retry: { maxAttempts: 1 } });
  await until(() => within(stub, (_, { storage }) => isCalled(storage)));
  expect(treeOf(await traceOn(stub, "s")).at(-1)).toBe("    tool running");
  stub = await crashOne(stub);
  await stub.list();
  await until(async () => {
    await wakeNow(stub);
    return (await stub.inspect("s"))?.status === "error";
  });
  const trace = await traceOn(stub, "s");
  expect(spansOf(trace, "tool")).toMatchObject([
    { status: "error", error: "The call was interrupted, and its outcome is not known" },
  ]);
});

it("a delivery that is retried shows its attempts and its last error", async () => {
  const stub = givenLedgerWith({ keepDelivered: {} });
  const to = somewhere();
  refusals.set(to.instance, { times: 1 });
  const { submissionId } = await submit(stub, "hello", { notify: [to] });
  await expectState(stub, submissionId, "completed");
  const delivery = async () => spansOf(await traceOn(stub, submissionId), "delivery")[0];
  await until(async () => (await delivery())?.error !== undefined);
  expect(await delivery()).toMatchObject({
    name: "perdure.deliver",
    error: "refused",
    attributes: {
      "perdure.delivery.state": "waiting",
      "perdure.delivery.attempt": 2,
      "perdure.destination.kind": "workflow",
    },
  });
  await within(stub, ({ outbox }, ctx) => outbox.redrive(waitingIn(ctx)[0] ?? ""));
  await until(async () => (await delivery())?.endedAt !== undefined);
  expect(await delivery()).toMatchObject({
    status: "ok",
    attributes: { "perdure.delivery.state": "delivered", "perdure.delivery.attempt": 2 },
  });
});

it("a webhook gets the traceparent of its delivery, the same in each attempt", async () => {
  const stub = givenLedgerWith({ allowPrivateAddresses: true, keepDelivered: {} });
  const me = someReceiver();
  const to = webhook(receiverUrl(`/ok/${me}`), { secret: "HOOK_SECRET" });
  const { submissionId } = await submit(stub, "hello", { notify: [to], traceparent: CALLER });
  await until(async () => (await receivedBy(me)).length > 0);
  const trace = await traceOn(stub, submissionId);
  expect(trace.traceId).toBe("4bf92f3577b34da6a3ce929d0e0e4736");
  const [submission] = spansOf(trace, "submission");
  expect(submission?.parentSpanId).toBe("00f067aa0ba902b7");
  const [delivery] = spansOf(trace, "delivery");
  const [request] = await receivedBy(me);
  expect(request?.headers.traceparent).toBe(`00-${trace.traceId}-${delivery?.spanId}-01`);
});

it("a dead letter that is redriven sends the same traceparent", async () => {
  const stub = givenLedgerWith({ allowPrivateAddresses: true });
  const me = someReceiver();
  const to = webhook(receiverUrl(`/status/422/${me}`), { secret: "HOOK_SECRET" });
  const { submissionId } = await submit(stub, "hello", { notify: [to] });
  await until(() => within(stub, async ({ outbox }) => (await outbox.stats()).deadLetters > 0));
  const [delivery] = spansOf(await traceOn(stub, submissionId), "delivery");
  expect(delivery).toMatchObject({
    status: "error",
    attributes: { "perdure.delivery.state": "dead", "server.address": expect.any(String) },
  });
  await within(stub, ({ outbox }) => outbox.redriveAll());
  await until(async () => (await receivedBy(me)).length === 2);
  const sent = (await receivedBy(me)).map(({ headers }) => headers.traceparent);
  expect(new Set(sent).size).toBe(1);
  expect(sent[0]).toContain(delivery?.spanId);
});

it("the prompts of a workflow instance are one trace, in steps that are linked", async () => {
  const stub = givenLedger();
  const of = { name: "PROMPT_WORKFLOW", id: `order-${crypto.randomUUID()}` };
  const asks = async (stepName: string) => {
    const messages = [message({ answer: 1 })];
    const workflow = { ...of, stepName };
    const prefix = keyPrefix("prompt", { workflowName: of.name, workflowId: of.id });
    const idempotencyKey = `${prefix}${stepName}`;
    const asked = { run: "r", workflow, idempotencyKey, messages, answer: {} };
    const { submissionId } = await stub.prompt(asked);
    await expectState(stub, submissionId, "completed");
    return submissionId;
  };
  const first = await asks("read");
  const second = await asks("write");
  const trace = await traceOn(stub, second);
  expect(trace.traceId).toBe(traceOf(`workflow:${of.name}:${of.id}`).traceId);
  expect((await traceOn(stub, first)).spans).toEqual(trace.spans);
  const steps = spansOf(trace, "step");
  expect(steps.map(({ name }) => name)).toEqual(["perdure.step read", "perdure.step write"]);
  const [read, write] = spansOf(trace, "submission");
  expect(read?.parentSpanId).toBe(steps[0]?.spanId);
  expect(write?.parentSpanId).toBe(steps[1]?.spanId);
  expect(steps[1]?.links).toEqual([{ traceId: trace.traceId, spanId: read?.spanId }]);
  const alone = await traceOn(stub, second, "submission");
  expect(spansOf(alone, "submission")).toEqual([write]);
  expect(spansOf(alone, "step")).toEqual([steps[1]]);
});

it("a prompt whose answer was refused and the one that repairs it are one step", async () => {
  const stub = givenLedger();
  const workflow = { name: "PROMPT_WORKFLOW", id: crypto.randomUUID(), stepName: "summary" };
  const messages = [message({ answer: 1 })];
  const asked = { run: "r", workflow, idempotencyKey: "k", messages, answer: { repair: 1 } };
  const { submissionId } = await stub.prompt(asked);
  await expectState(stub, submissionId, "completed");
  const again = await stub.repair({ run: "r", workflow, submissionId, problem: "too short" });
  const repaired = (again as { waitId: string }).waitId;
  await expectState(stub, repaired, "completed");
  for (const scope of ["workflow", "submission"] as const) {
    const trace = await traceOn(stub, repaired, scope);
    expect(spansOf(trace, "step")).toMatchObject([{ status: "ok" }]);
    // The attempt that the repair continues belongs to the first one.
    const own = spansOf(trace, "attempt").filter(
      ({ attributes }) => attributes["perdure.submission.id"] === repaired,
    );
    expect(own).toMatchObject([{ attributes: { "perdure.attempt": 2 } }]);
  }
});

it("the cost of a workflow is the sum over its steps, and a repair goes on with the cost of what it repairs", async () => {
  const stub = givenLedger();
  const of = { name: "PROMPT_WORKFLOW", id: crypto.randomUUID() };
  const asks = async (stepName: string) => {
    const asked = { run: "r", workflow: { ...of, stepName }, idempotencyKey: stepName };
    const messages = [message({ answer: 1 })];
    const { submissionId } = await stub.prompt({ ...asked, messages, answer: { repair: 1 } });
    await expectState(stub, submissionId, "completed");
    return submissionId;
  };
  const plant = (submissionId: string, cost: number) =>
    within(stub, (_, { storage }) =>
      storage.sql.exec(
        "UPDATE perdure_submissions SET usage = json_object('totalTokens', 7, 'cost', ?) WHERE submission_id = ?",
        cost,
        submissionId,
      ),
    );
  const read = await asks("read");
  const write = await asks("write");
  const costs = async () => {
    const trace = await traceOn(stub, write);
    return (["workflow", "step", "submission"] as const).map((kind) =>
      spansOf(trace, kind).map(({ attributes }) => attributes["gen_ai.usage.cost"]),
    );
  };
  expect(await costs()).toEqual([[undefined], [undefined, undefined], [undefined, undefined]]);
  await plant(read, 0.1);
  await plant(write, 0.1);
  const workflow = { ...of, stepName: "write" };
  const again = await stub.repair({ run: "r", workflow, submissionId: write, problem: "no" });
  const { waitId: repair } = again as { waitId: string };
  await expectState(stub, repair, "completed");
  await plant(repair, 0.2);
  expect(await costs()).toEqual([[0.3], [0.1, 0.2], [0.1, 0.1, 0.2]]);
});

it("a wait for a limit has its name, its key and its time, also after the turn has started", async () => {
  const stub = givenLedger();
  let isOpen = false;
  const since = Date.now() - 5_000;
  const wait = () => full(60_000, { limit: "tenant", key: "acme", why: "paused", since });
  gated(stub, new ScriptedGate(() => (isOpen ? undefined : wait())));
  await submit(stub, "hello", { submissionId: "s" });
  await until(async () => (await stub.inspect("s"))?.waitingFor);
  const [pending] = spansOf(await traceOn(stub, "s"), "wait");
  const limit = { "perdure.limit.name": "tenant", "perdure.limit.key": "acme" };
  expect(pending).toMatchObject({ attributes: { ...limit, "perdure.limit.why": "paused" } });
  expect(pending?.attributes).not.toHaveProperty("perdure.limit.wait_ms");
  expect(await within(stub, (_, { storage }) => limitWaits(storage.sql))).toEqual([
    { limit: "tenant", key: "acme", why: "paused", count: 1, since, ids: ["s"] },
  ]);
  isOpen = true;
  time.aheadMs += 60_000;
  await wakeNow(stub);
  await expectState(stub, "s", "completed");
  expect(await within(stub, (_, { storage }) => limitWaits(storage.sql))).toEqual([]);
  const [ended] = spansOf(await traceOn(stub, "s"), "wait");
  expect(ended?.attributes).toMatchObject(limit);
  expect(ended?.attributes["perdure.limit.wait_ms"]).toBe((ended?.endedAt ?? 0) - since);
  expect(ended?.attributes["perdure.limit.wait_ms"]).toBeGreaterThanOrEqual(65_000);
});

it("a turn whose model call has to wait for a limit is no failure in its trace", async () => {
  const stub = givenLedger();
  let calls = 0;
  gated(stub, new ScriptedGate());
  await playing(stub, "s", async (turn, { submissions }) => {
    const ref = turn.begin();
    submissions.turns.nextStep(ref);
    if (++calls > 1) return { outcome: "completed", text: "done" };
    throw Object.assign(limitWait(60_000, { limit: "openai" }), { name: "LimitWait" });
  });
  await submit(stub, "hello", { submissionId: "s" });
  await until(async () => (await stub.inspect("s"))?.waitingFor);
  time.aheadMs += 60_000;
  await wakeNow(stub);
  await expectState(stub, "s", "completed");
  expect(treeOf(await traceOn(stub, "s")).filter((line) => !/^ +wait/.test(line))).toEqual([
    "submission ok",
    "  attempt unset",
    "    model error: The limit openai is used up",
    "  attempt ok",
    expect.stringContaining("model"),
  ]);
  const waits = spansOf(await traceOn(stub, "s"), "wait");
  expect(waits.at(-1)?.attributes).toMatchObject({ "perdure.limit.name": "openai" });
});

it("a submission that joined another turn is linked to it", async () => {
  const stub = givenLedger();
  const { submissionId } = await submit(stub, { calls: 2, delayMs: 1_000 });
  await expectState(stub, submissionId, "running");
  const joined = await submit(stub, "more", { whenBusy: "steer" });
  await expectState(stub, joined.submissionId, "completed", { mergedInto: submissionId });
  const target = await traceOn(stub, submissionId);
  const [span] = spansOf(await traceOn(stub, joined.submissionId), "submission");
  const { spanId } = spansOf(target, "submission")[0] ?? {};
  expect(span?.links).toEqual([{ traceId: target.traceId, spanId }]);
});

it("a retried submission shows the tool calls of its own attempts only", async () => {
  const stub = givenLedger();
  const failing = { acts: true, fail: "no such model", failTimes: 1 };
  const options = { retry: { maxAttempts: 1 } };
  const { submissionId } = await submit(stub, failing, options);
  await expectState(stub, submissionId, "error");
  const again = await within(stub, ({ submissions }) => submissions.retry(submissionId));
  await expectState(stub, again?.submissionId ?? "", "completed");
  const trace = await traceOn(stub, again?.submissionId ?? "");
  const { createdAt = 0 } = (await stub.inspect(again?.submissionId ?? "")) ?? {};
  for (const { startedAt } of spansOf(trace, "tool")) {
    expect(startedAt).toBeGreaterThanOrEqual(createdAt);
  }
  expect(spansOf(await traceOn(stub, submissionId), "tool")).toHaveLength(1);
});

it.each([
  ["", '""'],
  ["00-x", '"00-x"'],
  [7, "7"],
  [null, "null"],
  [CALLER.toUpperCase(), "00-4BF"],
])("the traceparent %j is refused at the call, and nothing is stored", async (given, shown) => {
  const stub = givenLedger();
  const error = await within(stub, ({ submissions }) =>
    refusal(submissions.submit([message("hello")], { traceparent: given as string })),
  );
  expect(error).toMatchObject({ name: "InvalidSubmissionError", field: "traceparent" });
  expect(error.message).toMatch(/^Invalid traceparent .*: expected a W3C traceparent such as "00-/);
  expect(error.message).toContain(shown);
  expect(await stub.list()).toEqual([]);
});

it("10,000 tool calls stay within 1,000 spans, and the trace says how many are left out", async () => {
  const stub = givenLedger();
  const { submissionId } = await submit(stub, hold);
  await expectState(stub, submissionId, "running");
  await within(stub, (_, { storage }) => {
    storage.sql.exec(
      `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000)
       INSERT INTO perdure_tool_calls (seq, ordinal, attempt, started_at, ended_at, tool_call_id, tool, input_digest, input, outcome)
       SELECT (SELECT MAX(seq) FROM perdure_submissions), i, 1, ?1 + i, ?1 + i, 'call-' || i, 'act', '', '{}', 'result' FROM n`,
      Date.now(),
    );
  });
  const trace = await traceOn(stub, submissionId);
  expect(trace.spans).toHaveLength(1_000);
  const [submission] = spansOf(trace, "submission");
  const shown = spansOf(trace, "tool").length;
  expect(submission?.attributes["perdure.trace.omitted_spans"]).toBe(10_000 - shown);
});

it("1,000 model calls of an attempt store 200 times, and the trace counts the others", async () => {
  const stub = givenLedger();
  const { submissionId } = await submit(stub, { calls: 1_000, tokens: 1 });
  await expectState(stub, submissionId, "completed");
  const trace = await traceOn(stub, submissionId);
  expect(spansOf(trace, "model")).toHaveLength(200);
  expect(spansOf(trace, "submission")[0]?.attributes["perdure.trace.omitted_spans"]).toBe(800);
});

it("an unknown id has no trace", async () => {
  const stub = givenLedger();
  await expect(traceOn(stub, "unknown")).rejects.toThrow("No trace of unknown");
});

function isCalled({ sql }: DurableObjectStorage): boolean {
  return sql.exec("SELECT 1 FROM perdure_tool_calls").toArray().length > 0;
}
