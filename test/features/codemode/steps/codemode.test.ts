/** `runCode()` on DurableThink, in the real engine and a real sandbox: results, approvals, restarts (W1 to W5). */

import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, expectTypeOf, it } from "vitest";
import { z } from "zod";
import type { Json } from "../../../../src/core/json.ts";
import { runCode } from "../../../../src/features/codemode/index.ts";
import { CAPABILITIES } from "../../../../src/hosts/verbs.ts";
import type { Meter } from "../../../../src/testing/index.ts";
import type { ThinkWorkflowStep } from "../../../../src/workflow/index.ts";
import type { Wait } from "../../../../src/workflow/waits/protocol.ts";
import { reached, restartFrom, type StepAt } from "../../../support/engine.ts";
import { until } from "../../../support/given.ts";
import { charging, givenCode, isAsked, times, waitingFrom } from "./codemode.ts";
import type { CodemodeAgent } from "./codemode-agent.ts";

/** Runs the codes of each value, which all end as a CodemodeError with its text. */
async function failing(codesOf: (value: string) => string[], texts: Record<string, string>) {
  const codes = Object.entries(texts).flatMap(([value, text]) =>
    codesOf(value).map((code) => ({ code, text })),
  );
  const given = givenCode();
  await given.start(codes.map(({ code }, at) => ({ name: `c${at}`, code })));
  const outcomes = await given.complete();
  expect(outcomes.length).toBe(codes.length);
  for (const [at, outcome] of outcomes.entries()) {
    const { code, text } = codes[at] ?? { code: "" };
    expect(outcome, code).toMatchObject({
      error: "CodemodeError",
      executionId: expect.any(String),
      message: expect.stringContaining(text ?? ""),
    });
  }
}

describe("a run", () => {
  it("returns what the code returned and logged", async () => {
    const code = givenCode();
    const text = `async () => { console.log("hi"); return shop.look({ order: "${code.order}" }); }`;
    await code.start([{ name: "look", code: text }]);
    expect(await code.complete()).toMatchObject([
      { output: { done: "look", order: code.order }, logs: ["hi"] },
    ]);
    expect(times("look", code.order)).toBe(1);
  });

  it("takes code as a model writes it: in fences, as statements, with no result", async () => {
    const code = givenCode();
    await code.start([
      { name: "fenced", code: "```js\nasync () => 7\n```" },
      { name: "statements", code: "const one = 1;\none + 1" },
      { name: "nothing", code: "async () => {}" },
    ]);
    const [fenced, statements, nothing] = await code.complete();
    expect(fenced).toMatchObject({ output: 7 });
    expect(statements).toMatchObject({ output: 2 });
    expect(nothing).not.toHaveProperty("output");
  });

  it("O4: hands a large result on whole, which codemode would cut for a model", async () => {
    const code = givenCode();
    await code.start([{ name: "large", code: `async () => "ab".repeat(450_000)` }]);
    const [large] = await code.complete();
    expect(large).toMatchObject({ output: "ab".repeat(450_000) });
  });

  it("returns any JSON as it is", async () => {
    const code = givenCode();
    const value = `{ a: [null, true, "é\\ud83d", 0.5, {}], n: undefined, __proto__: { inherited: 1 }, "": "x" }`;
    const codes = ["null", "false", "0", `""`, value, "new (class Room { no = 7 })()"];
    await code.start(codes.map((text, at) => ({ name: `c${at}`, code: `async () => (${text})` })));
    const outputs = (await code.complete()).map((it) => "output" in it && it.output);
    const plain = { a: [null, true, "é\ud83d", 0.5, {}], "": "x" };
    expect(outputs).toEqual([null, false, 0, "", plain, { no: 7 }]);
  });

  it("a result that JSON cannot hold is a CodemodeError with the place", async () => {
    await failing((value) => [`async () => (${value})`], {
      "10n": "it is a BigInt",
      "{ n: 10n }": `"n" is a BigInt`,
      NaN: "it is NaN",
      "[1, -Infinity]": `"1" is -Infinity`,
      "() => 1": "it is a Function",
      "{ a: { f() {} } }": `"f" is a Function`,
      "Symbol('s')": "it is a Symbol",
      "new Map([[1, 2]])": "it is a Map",
      "{ s: new Set([1]) }": `"s" is a Set`,
      "[new Date(0)]": `"0" is a Date`,
      "[1, undefined]": `"1" is undefined`,
      "new Error('no')": "it is a Error",
      "/a/": "it is a RegExp",
      "new Uint8Array(2)": "it is a Uint8Array",
      "{ b: new ArrayBuffer(2) }": `"b" is a ArrayBuffer`,
      "(() => { const a = {}; a.a = a; return a; })()": "circular structure",
      "Array.from({ length: 600 }).reduce((inner) => [inner], 0)": "nested more than 500 levels",
    });
  });

  it("code that throws anything ends as a CodemodeError that says what", async () => {
    const codes = (thrown: string) => [
      `async () => { throw ${thrown}; }`,
      `() => { throw ${thrown}; }`,
      `const it = ${thrown};\nawait Promise.reject(it)`,
    ];
    await failing(codes, {
      "new Error('mine')": "mine",
      "new TypeError()": "The code threw TypeError",
      "Object.assign(new Error(), { message: { a: 1 } })": "The code threw Error: [object Object]",
      "'out of stock'": `The code threw "out of stock"`,
      "''": `The code threw ""`,
      null: "The code threw null",
      undefined: "The code threw undefined",
      "0": "The code threw 0",
      false: "The code threw false",
      "7n": "The code threw a value of type bigint",
      "Symbol('s')": "The code threw Symbol(s)",
      "{ code: 5 }": `The code threw {"code":5}`,
      "{ message: 'said' }": "said",
      "[1, 2]": "The code threw [1,2]",
      "Object.assign(Object.create(null), { n: 1n })": "The code threw a value of type object",
      "() => 1": "The code threw () => 1",
      "new Proxy({}, { get() { throw new Error('no reading') } })": "no reading",
      "Promise.resolve(1)": "The code threw {}",
    });
  });

  it.each([
    ["a result over codemode's limit", `async () => "x".repeat(1_100_000)`, "too large"],
    ["code that throws", `async () => { throw new Error("out of stock") }`, "out of stock"],
    ["an unknown tool", `async () => shop.steal({})`, "steal"],
  ])("says so of %s", async (_, text, message) => {
    const code = givenCode();
    await code.start([{ name: "bad", code: text }]);
    const [outcome] = await code.complete();
    expect(outcome).toMatchObject({ error: "CodemodeError", executionId: expect.any(String) });
    expect((outcome as { message: string }).message).toContain(message);
  });

  it("says how to make a runtime where the agent has none", async () => {
    const code = givenCode({ hasNone: true });
    await code.start([{ name: "none", code: "async () => 1" }]);
    const [outcome] = await code.complete();
    expect(outcome).toMatchObject({ error: "CodemodeError" });
    expect((outcome as { message: string }).message).toContain("createExecuteTool(this)");
  });

  it.each([
    ["no code", { code: " " }],
    ["an unknown option", { code: "1", retries: 3 }],
    ["what onReject does not know", { code: "1", onReject: "ignore" }],
    ["an invalid rollback", { code: "1", rollback: "yes" }],
    ["too much code", { code: "x".repeat(1_000_000) }],
  ])("refuses %s at the call, with nothing stored", async (_, options) => {
    const code = givenCode();
    await code.start([{ name: "bad", ...options } as never]);
    const { error } = await code.failed();
    expect(JSON.stringify(error)).toMatch(/runCode|NonRetryable/);
    expect(await code.agent().waitsOfCode()).toEqual([]);
  });

  it("W4: what the code returned is checked against the schema", async () => {
    const code = givenCode();
    await code.start([
      { name: "wrong", code: `async () => ({ done: 3, order: "1" })`, isOrder: true },
    ]);
    const [outcome] = await code.complete();
    expect(outcome).toMatchObject({ error: "CodemodeValidationError" });
    expect((outcome as { message: string }).message).toContain("done");
  });
});

describe("an approval", () => {
  it("pauses the code, and it goes on when it is granted", async () => {
    const code = givenCode();
    await code.start([{ name: "charge", code: charging(code.order), isOrder: true }]);
    expect(await code.approval()).toMatchObject({ title: "shop.charge" });
    expect(times("charge", code.order)).toBe(0);
    await code.approve();
    expect(await code.complete()).toMatchObject([{ output: { done: "charge" } }]);
    expect(times("look", code.order)).toBe(1);
    expect(times("charge", code.order)).toBe(1);
  });

  it("W3: two in one run are two, and one decision answers one of them", async () => {
    const code = givenCode();
    const { order } = code;
    const text = `async () => {
      await shop.charge({ order: "${order}" });
      return shop.charge({ order: "${order}" });
    }`;
    await code.start([{ name: "twice", code: text }]);
    const first = await code.approval();
    await code.agent().settle(first.waitId, "completed");
    const second = await until(async () => {
      const open = await code.agent().openApprovals();
      return open.find(({ waitId }) => waitId !== first.waitId);
    });
    await code.agent().settle(first.waitId, "completed");
    expect(times("charge", order)).toBe(1);
    await code.agent().settle(second.waitId, "completed");
    expect(await code.complete()).toMatchObject([{ output: { done: "charge" } }]);
    expect(times("charge", order)).toBe(2);
  });

  it("rejected, is an error that says who and why, and keeps what was done before", async () => {
    const code = givenCode();
    const text = `async () => {
      await shop.reserve({ order: "${code.order}" });
      await shop.charge({ order: "${code.order}" });
    }`;
    await code.start([{ name: "charge", code: text }]);
    await code.reject("too expensive");
    const [outcome] = await code.complete();
    expect(outcome).toMatchObject({
      error: "CodemodeRejectedError",
      message: "shop.charge was rejected.",
      rejection: {
        by: "ann",
        reason: "too expensive",
        action: { connector: "shop", method: "charge" },
      },
      calls: [
        { connector: "shop", method: "reserve", state: "applied" },
        { connector: "shop", method: "charge", state: "reverted" },
      ],
    });
    expect(times("charge", code.order)).toBe(0);
    expect(times("unreserve", code.order)).toBe(0);
  });

  it('rejected with onReject: "rollback", undoes what was done before', async () => {
    const code = givenCode();
    const text = `async () => {
      await shop.reserve({ order: "${code.order}" });
      await shop.charge({ order: "${code.order}" });
    }`;
    await code.start([{ name: "charge", code: text, onReject: "rollback" }]);
    await code.reject();
    const [outcome] = await code.complete();
    expect(outcome).toMatchObject({ error: "CodemodeRejectedError" });
    expect((outcome as { message: string }).message).toContain("rolled back");
    expect(times("unreserve", code.order)).toBe(1);
  });

  it("says what could not be undone", async () => {
    const code = givenCode();
    const text = `async () => {
      await shop.stick({ order: "${code.order}" });
      await shop.charge({ order: "${code.order}" });
    }`;
    await code.start([{ name: "charge", code: text, onReject: "rollback" }]);
    await code.reject();
    const [outcome] = await code.complete();
    expect(outcome).toMatchObject({ error: "CodemodeRejectedError" });
    expect((outcome as { message: string }).message).toContain("it sticks");
  });

  it("W2: granted elsewhere is found when it is looked for, and the question is withdrawn", async () => {
    const code = givenCode();
    await code.start([{ name: "charge", code: charging(code.order) }]);
    await code.approval();
    const [execution] = await code.agent().executions();
    await code.agent().approveDirectly(execution?.id ?? "");
    await code.agent().nudge();
    expect(await code.complete()).toMatchObject([{ output: { done: "charge" } }]);
    expect(await code.agent().openApprovals()).toEqual([]);
    expect(times("charge", code.order)).toBe(1);
  });
});

describe("W1: a restart of the workflow", () => {
  it("W1: is answered by a completed execution, and nothing runs again", async () => {
    const code = givenCode();
    const text = `async () => shop.look({ order: "${code.order}" })`;
    await code.start([{ name: "look", code: text }]);
    const [first] = await code.complete();
    await code.agent().restart(code.id);
    await until(() => times("run", code.id) === 2);
    expect(await code.complete()).toEqual([first]);
    expect(times("look", code.order)).toBe(1);
  });

  it("W1: a failed one runs afresh in the next run", async () => {
    const code = givenCode();
    const text = `async () => { await shop.look({ order: "${code.order}" }); throw new Error("no"); }`;
    await code.start([{ name: "fails", code: text }]);
    expect(await code.complete()).toMatchObject([{ error: "CodemodeError" }]);
    expect(times("look", code.order)).toBe(1);
    await code.agent().restart(code.id);
    await until(() => times("look", code.order) === 2);
  });

  it("W1: while it is paused, waits for the same approval", async () => {
    const code = givenCode();
    await code.start([{ name: "charge", code: charging(code.order) }]);
    const before = await code.approval();
    await code.agent().restart(code.id);
    await until(async () => (await code.agent().waitsOfCode()).length === 1);
    expect(await code.approval()).toEqual(before);
    await code.approve();
    expect(await code.complete()).toMatchObject([{ output: { done: "charge" } }]);
    expect(times("charge", code.order)).toBe(1);
  });

  it.each<[string, StepAt]>([
    ["ask", { name: "charge:codemode-submit" }],
    ["run", { name: "perdure:run" }],
    ["wait", { name: "charge:codemode-wait", type: "waitForEvent" }],
  ])("W1: at the step boundary %s finds what was done", async (_, boundary) => {
    // A restart from the wait itself has lost the event, and asks when the time is over (W2).
    const isWait = boundary.type === "waitForEvent";
    const isDone = async (agent: CodemodeAgent) =>
      (await agent.executions())[0]?.status === "completed";
    const code = givenCode(isWait ? waitingFrom(isDone) : {});
    const timeout = isWait ? { timeout: 1_000 } : {};
    await code.start([{ name: "charge", code: charging(code.order), ...timeout }]);
    await code.approve();
    const [first] = await code.complete();
    await restartFrom(env.CODEMODE_WORKFLOW, code.id, boundary);
    await until(() => times("run", code.id) === 2);
    expect(await code.complete()).toEqual([first]);
    expect(times("charge", code.order)).toBe(1);
    expect(await code.agent().executions()).toHaveLength(1);
  });

  it("W1: keys tell repeated uses of one name apart", async () => {
    const code = givenCode();
    const text = `async () => shop.look({ order: "${code.order}" })`;
    await code.start(["a", "b"].map((key) => ({ name: "loop", key, code: text })));
    const [a, b] = await code.complete();
    expect(a?.executionId).not.toBe(b?.executionId);
    expect(times("look", code.order)).toBe(2);
  });
});

describe("an end from outside", () => {
  it("W2: a timeout rejects the action that waits, and says so", async () => {
    const code = givenCode(waitingFrom(isAsked));
    await code.start([{ name: "slow", code: charging(code.order), timeout: 1_000 }]);
    expect(await code.complete()).toMatchObject([{ error: "CodemodeTimeoutError" }]);
    await until(async () => (await code.agent().executions())[0]?.status === "rejected");
    expect(await code.agent().openApprovals()).toEqual([]);
    expect(times("charge", code.order)).toBe(0);
  });

  it("W2: a timeout while the code runs rejects the action that it comes to", async () => {
    let isOver = false;
    let isLooking = false;
    const code = givenCode({
      before: async (what) => {
        if (what !== "look") return;
        isLooking = true;
        await until(() => isOver);
      },
      ...waitingFrom(async () => isLooking),
    });
    await code.start([{ name: "slow", code: charging(code.order), timeout: 1_000 }]);
    expect(await code.complete()).toMatchObject([{ error: "CodemodeTimeoutError" }]);
    isOver = true;
    await until(async () => (await code.agent().executions())[0]?.status === "rejected");
    expect(await code.agent().openApprovals()).toEqual([]);
  });

  it("W5: terminateWorkflow() rejects the action that waits", async () => {
    const code = givenCode();
    await code.start([{ name: "charge", code: charging(code.order) }]);
    await code.approval();
    await code.agent().terminate(code.id);
    await until(async () => (await code.agent().executions())[0]?.status === "rejected");
    expect(await code.agent().openApprovals()).toEqual([]);
    expect(times("charge", code.order)).toBe(0);
  });
});

it("no wait is opened inside one that was closed", async () => {
  const code = givenCode();
  await code.start([{ name: "look", code: "async () => 1" }]);
  await code.complete();
  const inner = await runInDurableObject(code.agent() as never, async (agent) => {
    const { waits } = (agent as unknown as CodemodeAgent)[CAPABILITIES];
    const {
      items: [parent],
    } = await waits.list({ kind: "codemode", limit: 1 });
    const asked = { key: crypto.randomUUID(), request: {} };
    return waits.openInside(parent as Wait, { kind: "approval", ...asked });
  });
  expect(inner).toBeUndefined();
});

it("W1: a sub-agent runs code, is asked, and goes on", async () => {
  const code = givenCode();
  await code
    .agent()
    .startInChild(code.id, { codes: [{ name: "charge", code: charging(code.order) }] });
  const approval = await until(async () => (await code.agent().approvalsOfChild())[0]);
  await code.agent().settleInChild(approval.waitId);
  expect(await code.complete()).toMatchObject([{ output: { done: "charge" } }]);
  expect(times("charge", code.order)).toBe(1);
});

it("infers what the code returns from its schema", () => {
  const check = async (step: ThinkWorkflowStep) => {
    const plain = await runCode(step, "plain", { code: "async () => 1" });
    expectTypeOf(plain.output).toEqualTypeOf<Json | undefined>();
    expectTypeOf(plain.executionId).toEqualTypeOf<string>();
    const output = z.object({ id: z.number(), at: z.string().transform((text) => new Date(text)) });
    const typed = await runCode(step, "typed", { code: "async () => 1", output, rollback: true });
    expectTypeOf(typed.output).toEqualTypeOf<{ id: number; at: Date }>();
    // @ts-expect-error: no policy of that name
    await runCode(step, "wrong", { code: "1", onReject: "ignore" });
    // @ts-expect-error: code is a text
    await runCode(step, "wrong", { code: async () => 1 });
    await step.prompt("book", {
      prompt: "Book it",
      output,
      rollback: async (booking) => {
        expectTypeOf(booking.output).toEqualTypeOf<{ id: number; at: Date }>();
        expectTypeOf(booking.submissionId).toEqualTypeOf<string>();
      },
    });
  };
  expect(check).toBeTypeOf("function");
});

it("costs what it says", async () => {
  const code = givenCode();
  await code.agent().executions();
  const rows = () =>
    runInDurableObject(code.agent() as never, (agent) => {
      const { meter } = agent as unknown as { meter: Meter };
      return { waits: meter.rowsWrittenBy((query) => query.includes("perdure_")), ...meter.read() };
    });
  const before = await rows();
  await code.start([{ name: "look", code: `async () => shop.look({ order: "${code.order}" })` }]);
  await code.complete();
  const plain = await rows();
  await code.agent().startCode(`${code.id}-2`, {
    codes: [{ name: "charge", code: charging(code.order) }],
  });
  await code.approve();
  await reached(env.CODEMODE_WORKFLOW, `${code.id}-2`, "complete");
  const paused = await rows();
  // The durable start 2; the table of jobs, which the first one makes, 2; the row and three indexes, a note, the end, and its
  // delivery 2; an approval has a row of its own, and is waited for.
  expect(plain.waits - before.waits).toBeLessThanOrEqual(2 + 2 + 8);
  expect(paused.waits - plain.waits).toBeLessThanOrEqual(2 + 19);
  expect(plain.setAlarms - before.setAlarms).toBeLessThanOrEqual(2 + 1);
});
