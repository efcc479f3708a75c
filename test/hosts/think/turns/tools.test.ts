/** Tool calls of a DurableThink agent over crashes and failures. Effects are counted in the storage of another object. */

import { introspectWorkflowInstance, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import type { UIMessage } from "ai";
import { describe, expect, it } from "vitest";
import { safeToRepeat } from "../../../../src/hosts/think/index.ts";
import type { SubmitMessagesOptions } from "../../../../src/submissions/submit-options.ts";
import { ask, modelCalls, type Script } from "../../../../src/testing/index.ts";
import type { ToolCall } from "../../../../src/testing/script.ts";
import { counted, message, until } from "../../../support/given.ts";
import { hold } from "../../../support/held-model.ts";
import { thinkOptions } from "../../../support/think-agent.ts";
import { lastAsked, limited, mcpTools, paid, type ToolAgent } from "./tool-agent.ts";

/** How long a tool runs that a crash interrupts: longer than any test. */
const SLOW_MS = 600_000;
const UNKNOWN = /Its effect is unknown/;

type Agent = DurableObjectStub<ToolAgent>;

const given = (name = `tools-${crypto.randomUUID()}`) => env.ToolAgent.getByName(name);
const effects = (effect: string) => env.Till.getByName("till").count(effect);
const happened = (effect: string, times = 1) =>
  until(async () => (await effects(effect)) === times);

function call(name: string, input: { effect: string } & Record<string, unknown>): ToolCall {
  return { name, input };
}

async function submit(agent: Agent, script: Script, options: SubmitMessagesOptions = {}) {
  const text = ask({ id: crypto.randomUUID(), ...script });
  const { submissionId } = await agent.submitMessages([message(text)], options);
  return { submissionId, text };
}

/** Crashes the object. Returns a stub of its next instance, which it wakes. */
async function crash(agent: Agent): Promise<Agent> {
  await runInDurableObject(agent, (_, ctx) => ctx.abort("crash")).catch(() => undefined);
  const next = given(agent.name ?? "");
  await next.listSubmissions();
  return next;
}

/** Crashes the agent while a slow tool runs whose effect has happened. */
async function crashInTool(agent: Agent, effect: string): Promise<Agent> {
  await until(() => paid.has(effect));
  return crash(agent);
}

const ended = async (agent: Agent, id: string) =>
  until(async () => {
    const found = await agent.inspectSubmission(id);
    return found && !["pending", "running"].includes(found.status) && found;
  });

const THREADS = ["main", "side", "isolated"] as const;

describe("an interrupted tool call", () => {
  it.each(THREADS)(
    "L6: a call that a crash interrupts after some text is not run again, and the model gets a note (%s)",
    async (thread) => {
      const agent = given();
      const effect = crypto.randomUUID();
      const pay = call("pay", { effect, ms: SLOW_MS });
      const script = { first: "I will pay now.", tools: [pay], text: "told" };
      const { submissionId, text } = await submit(agent, script, { thread });
      const next = await crashInTool(agent, effect);
      expect(await ended(next, submissionId)).toMatchObject({ status: "completed" });
      expect(await effects(effect)).toBe(1);
      expect(modelCalls.get(text)).toBe(3);
      expect(await next.records()).toEqual([
        { ordinal: 1, tool: "pay", outcome: null, length: null },
      ]);
      if (thread === "main") expect(await next.calls()).toEqual([expect.stringMatching(UNKNOWN)]);
    },
  );

  it("L6: a call of a step.prompt() that a crash interrupts is not run again", async () => {
    const id = `wf-${crypto.randomUUID()}`;
    const effect = crypto.randomUUID();
    const agent = given(`agent-of-${id}`);
    await using instance = await introspectWorkflowInstance(env.PROMPT_WORKFLOW, id);
    const pay = call("pay", { effect, ms: SLOW_MS });
    const answer = { title: "paid", count: 1 };
    const prompt = ask({ id, first: "I will pay now.", tools: [pay], answer });
    await agent.startPrompts(id, { prompts: [{ name: "only", prompt }] });
    await crashInTool(agent, effect);
    await instance.waitForStatus("complete");
    expect(await instance.getOutput()).toMatchObject([{ answer }]);
    expect(await effects(effect)).toBe(1);
  });

  it("L6: a call of a sub-agent that a crash interrupts is not run again", async () => {
    const agent = given();
    const effect = crypto.randomUUID();
    const pay = call("pay", { effect, ms: SLOW_MS });
    const text = ask({ id: effect, first: "I will pay now.", tools: [pay], text: "told" });
    await agent.submitToPayingChild(text, effect);
    const next = await crashInTool(agent, effect);
    await until(async () => (await next.childStatus(effect)) === "completed");
    expect(await effects(effect)).toBe(1);
  });

  it("L6: a call runs once over five resets in a row", async () => {
    let agent = given();
    const effect = crypto.randomUUID();
    const pay = call("pay", { effect, ms: SLOW_MS });
    const said = { first: "I will pay now.", tools: [pay], text: "told" };
    const { script, release } = hold(said, { passes: 1 });
    const { submissionId, text } = await submit(agent, script);
    await happened(effect);
    for (let reset = 1; reset <= 5; reset++) {
      agent = await crash(agent);
      const calls = modelCalls.get(text) ?? 0;
      if (reset < 5) await until(() => (modelCalls.get(text) ?? 0) > calls);
    }
    release();
    expect(await ended(agent, submissionId)).toMatchObject({ status: "completed" });
    expect(await effects(effect)).toBe(1);
  });

  it("L6: of two calls in one step, the finished one is answered and the interrupted one is not run again", async () => {
    const agent = given();
    const [fast, slow] = [crypto.randomUUID(), crypto.randomUUID()];
    const step = [call("other", { effect: fast }), call("pay", { effect: slow, ms: SLOW_MS })];
    const { submissionId } = await submit(agent, { first: "Both.", tools: [step], text: "told" });
    // The effect comes before its record.
    await until(async () => (await agent.records())[0]?.outcome === "result");
    const next = await crashInTool(agent, slow);
    expect(await ended(next, submissionId)).toMatchObject({ status: "completed" });
    expect([await effects(fast), await effects(slow)]).toEqual([1, 1]);
    expect(await next.records()).toMatchObject([
      { tool: "other", outcome: "result" },
      { tool: "pay", outcome: null },
    ]);
    const calls = await next.calls();
    expect(calls.slice(-2).sort()).toEqual([
      'tool-other output-available: {"receipt":1}',
      expect.stringMatching(/^tool-pay output-error: .*interrupted/),
    ]);
  });

  it("L6: once the conversation contains the interruption, the same call runs", async () => {
    const agent = given();
    const effect = crypto.randomUUID();
    const pay = call("pay", { effect, ms: SLOW_MS });
    const tools = [pay, pay];
    const { submissionId } = await submit(agent, { first: "I will pay.", tools, text: "paid" });
    const next = await crashInTool(agent, effect);
    expect(await ended(next, submissionId)).toMatchObject({ status: "completed" });
    expect(await effects(effect)).toBe(2);
    expect((await next.calls()).slice(-2)).toEqual([
      expect.stringMatching(UNKNOWN),
      'tool-pay output-available: {"receipt":2}',
    ]);
  });
});

describe("the same call twice in a turn", () => {
  it("L6: the same call twice in a turn runs twice", async () => {
    const agent = given();
    const effect = crypto.randomUUID();
    const pay = call("pay", { effect });
    const { submissionId } = await submit(agent, { tools: [pay, pay] });
    expect(await ended(agent, submissionId)).toMatchObject({ status: "completed" });
    expect(await effects(effect)).toBe(2);
  });

  it("L6: after a crash both equal calls are answered in order, whatever the key order of their inputs", async () => {
    const agent = given();
    const effect = crypto.randomUUID();
    const pay = call("pay", { effect, note: { a: 1, b: 2 } });
    const last = crypto.randomUUID();
    const tools = [pay, pay, call("other", { effect: last, ms: SLOW_MS })];
    const { submissionId } = await submit(agent, { tools, text: "paid" }, { thread: "side" });
    const next = await crashInTool(agent, last);
    expect(await ended(next, submissionId)).toMatchObject({ status: "completed", attempts: 2 });
    expect([await effects(effect), await effects(last)]).toEqual([2, 1]);
    const said = JSON.stringify(await next.threadMessages("side"));
    expect(said.indexOf('{"receipt":1}')).toBeGreaterThan(0);
    expect(said.indexOf('{"receipt":2}')).toBeGreaterThan(said.indexOf('{"receipt":1}'));
  });
});

describe("retry.afterSideEffects", () => {
  const outcomes = THREADS.flatMap(
    (thread) =>
      [
        ["fail", thread, "error", 1],
        ["repeat", thread, "completed", 2],
        ["tell", thread, "completed", 1],
      ] as const,
  );

  it.each(outcomes)(
    "L6: afterSideEffects: %s decides what follows an interrupted call (%s)",
    async (afterSideEffects, thread, status, times) => {
      const agent = given();
      const effect = crypto.randomUUID();
      const pay = call("pay", { effect, ms: SLOW_MS });
      const script = { first: "I will pay now.", tools: [pay] };
      const retry = { afterSideEffects };
      const { submissionId } = await submit(agent, script, { thread, retry });
      const next = await crashInTool(agent, effect);
      expect(await ended(next, submissionId)).toMatchObject({
        status,
        ...(status === "error" && { errorName: "TurnInterruptedError" }),
      });
      expect(await effects(effect)).toBe(times);
      expect(await next.records()).toHaveLength(1);
    },
  );

  it("L6: afterSideEffects: fail continues the main conversation if it contains all calls", async () => {
    const agent = given();
    const effect = crypto.randomUUID();
    const said = { tools: [call("pay", { effect })], text: "paid" };
    const { script, release } = hold(said, { passes: 1 });
    const retry = { afterSideEffects: "fail" } as const;
    const { submissionId, text } = await submit(agent, script, { retry });
    await until(() => (modelCalls.get(text) ?? 0) >= 2);
    const next = await crash(agent);
    release();
    expect(await ended(next, submissionId)).toMatchObject({ status: "completed" });
    expect(await effects(effect)).toBe(1);
  });

  it.each(
    THREADS.flatMap((thread) =>
      (["tell", "fail"] as const).map((chosen) => [chosen, thread] as const),
    ),
  )(
    "L8: after a transient failure, %s decides whether a turn whose tool has run is tried again (%s)",
    async (afterSideEffects, thread) => {
      const agent = given();
      const effect = crypto.randomUUID();
      const script = { tools: [call("pay", { effect })], text: "paid" };
      const retry = { afterSideEffects };
      limited.set(agent.name ?? "", 1);
      const { submissionId } = await submit(agent, script, { thread, retry });
      const tried = { status: "completed", attempts: 2 };
      const ends = { status: "error", attempts: 1, error: "slow down" };
      expect(await ended(agent, submissionId)).toMatchObject(
        afterSideEffects === "tell" ? tried : ends,
      );
      expect(await effects(effect)).toBe(1);
    },
  );
});

describe("the note about earlier calls", () => {
  it.each(THREADS)(
    "L6: another attempt gets a note about a finished call, and the conversation does not store it (%s)",
    async (thread) => {
      const agent = given();
      const effect = crypto.randomUUID();
      limited.set(agent.name ?? "", 1);
      const script = { tools: [call("pay", { effect })], text: "paid" };
      const { submissionId } = await submit(agent, script, { thread });
      expect(await ended(agent, submissionId)).toMatchObject({ status: "completed", attempts: 2 });
      const asked = lastAsked.get(agent.name ?? "") ?? "";
      expect(asked).toContain("Your turn was interrupted");
      expect(asked).toContain(`- pay {\\"effect\\":\\"${effect}\\"}: finished`);
      const said = [
        await agent.getMessages(),
        thread === "side" && (await agent.threadMessages(thread)),
      ];
      expect(JSON.stringify(said)).not.toContain("Your turn was interrupted");
    },
  );

  it("L6: a recovered turn gets a note about an interrupted call, and a first attempt gets none", async () => {
    const agent = given();
    const effect = crypto.randomUUID();
    const pay = call("pay", { effect, ms: SLOW_MS });
    const { submissionId } = await submit(agent, { first: "I will pay.", tools: [pay] });
    await happened(effect);
    expect(lastAsked.get(agent.name ?? "")).not.toContain("Your turn was interrupted");
    const next = await crashInTool(agent, effect);
    expect(await ended(next, submissionId)).toMatchObject({ status: "completed" });
    expect(lastAsked.get(agent.name ?? "")).toMatch(/- pay .*: interrupted, its effect is unknown/);
  });
});

describe("outcomes", () => {
  /** A first call with these words, and a second one that a crash interrupts. Returns what the next attempt says of the first. */
  async function replayed(rest: Record<string, unknown>, name = "pay") {
    const agent = given();
    const [first, last] = [crypto.randomUUID(), crypto.randomUUID()];
    const tools = [
      call(name, { effect: first, ...rest }),
      call("pay", { effect: last, ms: SLOW_MS }),
    ];
    const { submissionId } = await submit(agent, { tools: [tools] }, { thread: "side" });
    // Both run at the same time.
    if (name === "look") await until(() => paid.has(first));
    else await until(async () => (await agent.records()).some(({ outcome }) => outcome !== null));
    const next = await crashInTool(agent, last);
    expect(await ended(next, submissionId)).toMatchObject({ status: "completed" });
    const messages = (await next.threadMessages("side")) as UIMessage[];
    const part = messages.at(-1)?.parts.find(({ type }) => type === `tool-${name}`);
    return { part, times: await effects(first), records: await next.records() };
  }

  it.each([
    ["a result", {}, { output: { receipt: 1 } }, "result"],
    ["no output", { gives: "undefined" }, { state: "output-available" }, "result"],
    ["an error", { fail: "no money" }, { errorText: "TypeError: no money" }, "error"],
    [
      "a large output",
      { gives: "large" },
      { errorText: expect.stringMatching(/1000003 bytes/) },
      "note",
    ],
    [
      "a result that JSON cannot hold",
      { gives: "cycle" },
      { errorText: expect.stringMatching(/result of tool "pay": JSON cannot hold it/) },
      "error",
    ],
  ] as const)("L6: %s is recorded and answered after a crash", async (_, rest, part, outcome) => {
    const found = await replayed(rest);
    expect(found.part).toMatchObject(part);
    expect(found.times).toBe(1);
    expect(found.records).toMatchObject([{ outcome }, { outcome: null }]);
  });

  it("L6: the last output of a generator is recorded", async () => {
    const { part, times } = await replayed({}, "pages");
    expect(part).toMatchObject({ output: { receipt: 1 } });
    expect(times).toBe(1);
  });

  it("L6: a tool that is safe to repeat is not recorded, and runs again after a crash", async () => {
    const { part, times, records } = await replayed({}, "look");
    expect(part).toMatchObject({ output: { receipt: 2 } });
    expect(times).toBe(2);
    expect(records).toHaveLength(1);
  });

  it("L6: safeToRepeat() refuses a value that is not a tool", () => {
    for (const given of [undefined, null, "pay", {}])
      expect(() => safeToRepeat(given as never)).toThrow("Check the name of the tool");
  });
});

describe("tools of an MCP server", () => {
  it.each(["main", "side"] as const)(
    "L6: calls of MCP tools are recorded, unless the app marks the tools in beforeTurn (%s)",
    async (thread) => {
      const agent = given();
      const [paid, looked, last] = [crypto.randomUUID(), crypto.randomUUID(), crypto.randomUUID()];
      mcpTools.add(agent.name ?? "");
      const tools = [
        call("tool_server_pay", { effect: paid }),
        call("tool_server_look", { effect: looked }),
        call("pay", { effect: last }),
      ];
      limited.set(agent.name ?? "", 1);
      const { submissionId } = await submit(agent, { tools: [tools] }, { thread });
      expect(await ended(agent, submissionId)).toMatchObject({ status: "completed", attempts: 2 });
      expect(await effects(paid)).toBe(1);
      expect(await effects(looked)).toBe(2);
      expect(await agent.records()).toMatchObject([{ tool: "tool_server_pay" }, { tool: "pay" }]);
    },
  );
});

it.each(["main", "side"] as const)(
  "L6: a message that steers an interrupted turn does not make its tools run again (%s)",
  async (thread) => {
    const agent = given();
    const effect = crypto.randomUUID();
    const pay = call("pay", { effect, ms: SLOW_MS });
    const first = await submit(agent, { first: "Now.", tools: [pay], text: "paid" }, { thread });
    await happened(effect);
    const steer = { thread, whenBusy: "steer" } as const;
    const second = await submit(agent, { text: "steered" }, steer);
    const next = await crash(agent);
    const ends = [await ended(next, first.submissionId), await ended(next, second.submissionId)];
    expect(ends).toMatchObject([{ status: "completed" }, { status: "completed" }]);
    // A turn that came first would show the model the messages of the interrupted one, and no record of its calls.
    const [one = 0, other = 0] = ends.map((end) => (end && "startedAt" in end ? end.startedAt : 0));
    expect(one).toBeLessThanOrEqual(other);
    expect(await effects(effect)).toBe(1);
  },
);

describe("retrySubmission()", () => {
  it.each(THREADS)(
    "L6: retrySubmission() answers the calls of the first submission, and runs no tool again (%s)",
    async (thread) => {
      const agent = given();
      const effect = crypto.randomUUID();
      const tools = [call("pay", { effect })];
      const { script, release } = hold({ first: "Now.", tools }, { passes: 1 });
      const asked = await submit(agent, script, { thread });
      await happened(effect);
      await agent.cancelSubmission(asked.submissionId);
      release();
      const retry = await agent.retrySubmission(asked.submissionId);
      expect(await ended(agent, retry?.submissionId ?? "")).toMatchObject({ status: "completed" });
      expect(await effects(effect)).toBe(1);
    },
  );
});

describe("records", () => {
  it("L6 L9: a record costs two rows per call, and the tokens of their step one", async () => {
    const cost = async (times: number) => {
      const agent = given();
      const tools = Array.from({ length: times }, (_, note) =>
        call("pay", { effect: crypto.randomUUID(), note }),
      );
      const warm = await submit(agent, { text: "warm" }, { thread: "isolated" });
      await ended(agent, warm.submissionId);
      const script = { ...(times > 0 && { tools: [tools] }) };
      const { rowsWritten } = await counted(agent as unknown as DurableObjectStub, async () => {
        const { submissionId } = await submit(agent, script, { thread: "isolated" });
        await ended(agent, submissionId);
      });
      return rowsWritten;
    };
    const [none, one, three] = [await cost(0), await cost(1), await cost(3)];
    expect([one - none, three - none]).toEqual([2 + 1, 6 + 1]);
  });

  it("L9: records are deleted with their submission, by delete and by retention", async () => {
    const agent = given();
    thinkOptions.set(agent.name ?? "", { retention: { maxCount: 1 } });
    const ids = [];
    for (let n = 0; n < 66; n++) {
      const script = n < 2 ? { tools: [call("pay", { effect: crypto.randomUUID() })] } : {};
      const { submissionId } = await submit(agent, script, { thread: "isolated" });
      await ended(agent, submissionId);
      ids.push(submissionId);
      if (n === 1) expect(await agent.records()).toHaveLength(2);
      if (n === 1) await agent.deleteSubmission(ids[0] ?? "");
      if (n === 1) expect(await agent.records()).toHaveLength(1);
    }
    await until(async () => (await agent.records()).length === 0);
  });

  it("L9: records are limited per submission, and the model can finish without more calls", async () => {
    const agent = given();
    thinkOptions.set(agent.name ?? "", { maxToolCalls: 2 });
    const effect = crypto.randomUUID();
    const pay = call("pay", { effect });
    const { submissionId } = await submit(agent, { tools: [pay, pay, pay], text: "enough" });
    expect(await ended(agent, submissionId)).toMatchObject({ status: "completed" });
    expect(await effects(effect)).toBe(2);
    expect((await agent.calls()).at(-1)).toMatch(
      /2 tool calls, which is the limit.*raise maxToolCalls/,
    );
  });
});
