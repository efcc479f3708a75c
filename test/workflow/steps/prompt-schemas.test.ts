/** What a prompt can be asked for and with, in the real engine: schemas of any library, messages, other agents (W1, W4). */

import { env } from "cloudflare:workers";
import { toStandardJsonSchema } from "@valibot/to-json-schema";
import { type } from "arktype";
import * as v from "valibot";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { z as z3 } from "zod3";
import { zod3 } from "../../../src/core/schema/zod3.ts";
import { capabilitiesOf } from "../../../src/hosts/public.ts";
import { ask, modelCalls, type Script } from "../../../src/testing/index.ts";
import { outputOf } from "../../support/engine.ts";
import { givenThink, message, until } from "../../support/given.ts";
import { hold } from "../../support/held-model.ts";
import { givenScriptedWorkflow } from "../../support/workflows/scripted-workflow.ts";
import { holdWait } from "../../support/workflows/watched-steps.ts";

const ANSWER = { title: "hello", count: 3 };
const messageOf = ({ message }: Error) => message;

/** Every script is another text, so that its model calls are its own. */
function script(rest: Script = {}): string {
  return ask({ answer: ANSWER, delayMs: 20, text: crypto.randomUUID(), ...rest });
}

describe("W4: an answer is what any schema takes", () => {
  const SCHEMAS = {
    "Zod 4": z.object({ title: z.string(), count: z.number().int() }),
    "Zod 3": zod3(z3.object({ title: z3.string(), count: z3.number().int() })),
    Valibot: toStandardJsonSchema(
      v.object({ title: v.string(), count: v.pipe(v.number(), v.integer()) }),
    ),
    ArkType: type({ title: "string", count: "number.integer" }),
  };

  for (const [library, output] of Object.entries(SCHEMAS)) {
    it(`W4: ${library}: a right answer is returned`, async () => {
      await using workflow = await givenScriptedWorkflow((step) =>
        step.prompt("ask", { prompt: script(), output }),
      );
      await workflow.start();
      expect(await workflow.output()).toEqual(ANSWER);
    });

    it(`W4: ${library}: the agent checks by its JSON Schema, and refuses a wrong one`, async () => {
      const prompt = script({ answer: { title: "hello", count: "three" } });
      await using workflow = await givenScriptedWorkflow((step) =>
        step.prompt("ask", { prompt, output }),
      );
      await workflow.start();
      expect(await workflow.error()).toMatchObject({
        message: expect.stringContaining("ThinkPromptValidationError"),
      });
      const [submission] = await workflow.agent.listSubmissions();
      expect(submission).toMatchObject({ status: "error", errorName: "InvalidAnswerError" });
    });
  }

  it("W4: what only the schema itself can tell is checked in the workflow", async () => {
    const output = z.object({ title: z.string().refine((title) => title !== "hello", "is taken") });
    await using workflow = await givenScriptedWorkflow((step) =>
      step.prompt("ask", { prompt: script(), output }),
    );
    await workflow.start();
    const { message } = await workflow.error();
    expect(message).toContain("title: is taken");
    const [submission] = await workflow.agent.listSubmissions();
    expect(submission).toMatchObject({ status: "completed" });
  });

  it("W1 W4: an answer that the workflow refused is asked for afresh by a restart, and only then", async () => {
    let isTaken = true;
    const output = z.object({ title: z.string().refine(() => !isTaken, "is taken") });
    const prompt = script();
    await using workflow = await givenScriptedWorkflow((step) =>
      step.prompt("ask", { prompt, output }).catch(messageOf),
    );
    await workflow.start();
    expect(await workflow.output()).toContain("title: is taken");
    expect(modelCalls.get(prompt)).toBe(1);
    isTaken = false;
    await workflow.agent.restart(workflow.id);
    expect(await outputOf(env.SCRIPTED_WORKFLOW, workflow.id)).toEqual({ title: "hello" });
    expect(modelCalls.get(prompt)).toBe(2);
  });

  it.each(["throw", "return"] as const)(
    "W1 W4 so is that of an item, and no other one (%s)",
    async (onError) => {
      let taken = "b";
      const output = z.object({ title: z.string().refine((title) => title !== taken, "is taken") });
      const items = ["a", "b", "c"].map((title) => script({ answer: { title } }));
      await using workflow = await givenScriptedWorkflow((step) =>
        step
          .promptAll("all", items, { prompt: (item) => item, output, onError })
          .catch((error: Error) => [error.message]),
      );
      await workflow.start();
      expect(JSON.stringify(await workflow.output())).toContain("title: is taken");
      taken = "";
      await workflow.agent.restart(workflow.id);
      const answers = await outputOf(env.SCRIPTED_WORKFLOW, workflow.id);
      expect(answers).toHaveLength(3);
      expect(items.map((item) => modelCalls.get(item))).toEqual([1, 2, 1]);
    },
  );

  it.each(["main", "side"])("W4: a call that is no JSON is repaired (%s)", async (thread) => {
    const prompt = script({ brokenTimes: 1 });
    const options = { prompt, output: z.object({ title: z.string() }), thread };
    await using workflow = await givenScriptedWorkflow((step) =>
      step.promptResult("ask", { ...options, strategy: "tool", repair: 1 }),
    );
    await workflow.start();
    expect(await workflow.output()).toMatchObject({ output: { title: "hello" }, attempts: 2 });
    const [submission] = await workflow.agent.listSubmissions();
    const end = await workflow.agent.inspectSubmission(submission?.submissionId ?? "");
    expect(end?.failedAttempts).toMatchObject([{ errorName: "InvalidAnswerError" }]);
  });

  it("W4: transforms and defaults of the schema make the value", async () => {
    const output = z.object({
      title: z.string().transform((title) => title.length),
      tags: z.array(z.string()).default(["none"]),
    });
    await using workflow = await givenScriptedWorkflow((step) =>
      step.prompt("ask", { prompt: script(), output }),
    );
    await workflow.start();
    expect(await workflow.output()).toEqual({ title: 5, tags: ["none"] });
  });

  it.each([
    ["a list", z.array(z.string()), ["a", "b"]],
    ["one of several words", z.enum(["low", "high"]), "high"],
    ["a number", z.number(), 7],
  ])("W4: %s is an answer, too", async (_, output, answer) => {
    const prompt = script({ answer: { answer } });
    await using workflow = await givenScriptedWorkflow((step) =>
      step.prompt("ask", { prompt, output }),
    );
    await workflow.start();
    expect(await workflow.output()).toEqual(answer);
  });

  it.each([
    ["Valibot without its converter", v.object({}), "toStandardJsonSchema()"],
    ["no schema", { title: "string" }, "no Standard Schema"],
    ["a type that JSON has not", z.object({ when: z.date() }), "Date"],
  ])("W4: refuses %s at once", async (_, output, expected) => {
    await using workflow = await givenScriptedWorkflow((step) =>
      step.prompt("ask", { prompt: "p", output: output as never }),
    );
    await workflow.start();
    expect((await workflow.error()).message).toContain(expected);
    expect(await workflow.agent.listSubmissions()).toEqual([]);
  });
});

describe("W4: repair covers what only the schema refuses", () => {
  const titled = (title: string) => ({ title, count: 1 });
  const output = z.object({
    title: z.string().refine((title) => title.startsWith("good"), "has to be good"),
  });

  it.each(["main", "side", "isolated"])(
    "W4: the model is shown the refusal and gives a better answer, in a submission that goes on (%s)",
    async (thread) => {
      const prompt = script({ answers: [titled("bad"), titled("worse"), titled("good")] });
      await using workflow = await givenScriptedWorkflow((step) =>
        step.promptResult("ask", { prompt, output, thread, repair: 3 }),
      );
      await workflow.start();
      expect(await workflow.output()).toMatchObject({
        output: { title: "good" },
        attempts: 3,
        usage: { totalTokens: 45 },
      });
      const [last, second, first] = await workflow.agent.listSubmissions();
      expect([first, second, last]).toMatchObject([
        { status: "completed", attempts: 1, thread },
        { status: "completed", attempts: 2, metadata: { repairs: first?.submissionId } },
        { status: "completed", attempts: 3, metadata: { repairs: second?.submissionId } },
      ]);
      const end = await workflow.agent.inspectSubmission(last?.submissionId ?? "");
      const error = expect.stringContaining("title: has to be good");
      const failed = { errorName: "InvalidAnswerError", error };
      expect(end?.failedAttempts).toMatchObject([failed, failed]);
      const said = thread === "main" ? await workflow.agent.texts() : [];
      expect(said).toEqual(thread === "main" ? [`user: ${prompt}`] : []);
    },
  );

  it.each(["tool", "json"] as const)(
    "W4 L4: a turn that came between the answer and its repair keeps its own reply (%s)",
    async (strategy) => {
      const { script: held, release } = hold({ answers: [titled("bad"), titled("good")] });
      const prompt = script(held);
      await using workflow = await givenScriptedWorkflow((step) =>
        step.prompt("ask", { prompt, output, strategy, repair: 1 }),
      );
      await workflow.start();
      await until(() => modelCalls.get(prompt));
      // The scripted model takes its part from what was said last, which is this.
      const between = ask({ text: "in between", answer: titled("good") });
      await workflow.agent.submitMessages([message(between)]);
      release();
      expect(await workflow.output()).toEqual({ title: "good" });
      const [last, second, first] = await workflow.agent.listSubmissions();
      expect([first, second, last]).toMatchObject([
        { status: "completed" },
        { status: "completed" },
        { status: "completed", metadata: { repairs: first?.submissionId } },
      ]);
      const json = (title: string) =>
        strategy === "json" ? [`assistant: ${JSON.stringify(titled(title))}`] : [];
      const texts = await workflow.agent.texts();
      expect(texts.map((text) => text.replaceAll("[step-start]", ""))).toEqual([
        `user: ${prompt}`,
        ...json("bad"),
        `user: ${between}`,
        "assistant: in between",
        ...json("good"),
      ]);
    },
  );

  it("W1: a restart finds the repaired answer, and asks nobody", async () => {
    const prompt = script({ answers: [titled("bad"), titled("good")] });
    await using workflow = await givenScriptedWorkflow((step) =>
      step.prompt("ask", { prompt, output, repair: 1 }),
    );
    await workflow.start();
    expect(await workflow.output()).toEqual({ title: "good" });
    await workflow.agent.restart(workflow.id);
    expect(await outputOf(env.SCRIPTED_WORKFLOW, workflow.id)).toEqual({ title: "good" });
    expect(modelCalls.get(prompt)).toBe(2);
    expect(await workflow.agent.listSubmissions()).toHaveLength(2);
  });

  it("W4: W1: repair bounds both sides together; a restart asks afresh", async () => {
    const answers = [{ title: 7 }, titled("bad"), titled("worse"), titled("good")];
    const prompt = script({ answers });
    await using workflow = await givenScriptedWorkflow((step) =>
      step.prompt("ask", { prompt, output, repair: 2 }).catch(messageOf),
    );
    await workflow.start();
    expect(await workflow.output()).toContain("title: has to be good");
    expect(modelCalls.get(prompt)).toBe(3);
    await workflow.agent.restart(workflow.id);
    expect(await outputOf(env.SCRIPTED_WORKFLOW, workflow.id)).toEqual({ title: "good" });
    const all = await workflow.agent.listSubmissions();
    expect(all.map(({ attempts }) => attempts)).toEqual([1, 3, 2]);
  });

  it("W2: W4: the timeout is that of all repairs together, and cancels the last", async () => {
    const answers = [titled("bad"), titled("good")];
    const prompt = script(hold({ answers }, { passes: 1 }).script);
    await using workflow = await givenScriptedWorkflow((step) =>
      step.prompt("ask", { prompt, output, repair: 1, timeout: 1_000 }).catch(messageOf),
    );
    // Its time begins when the first answer is there, and is over in the repair.
    holdWait(workflow.id, () =>
      until(async () => (await workflow.agent.listSubmissions({ status: "completed" })).length),
    );
    await workflow.start();
    expect(await workflow.output()).toContain("Timed out waiting for Think prompt after 1 second");
    const statuses = (await workflow.agent.listSubmissions()).map(({ status }) => status);
    expect(statuses).toEqual(["aborted", "completed"]);
  });

  it("W5: terminating the workflow cancels the repair that it waits for", async () => {
    const answers = [titled("bad"), titled("good")];
    const prompt = script(hold({ answers }, { passes: 1 }).script);
    await using workflow = await givenScriptedWorkflow((step) =>
      step.prompt("ask", { prompt, output, repair: 1 }),
    );
    await workflow.start();
    await until(() => modelCalls.get(prompt) === 2);
    await workflow.agent.terminateWorkflow(workflow.id);
    expect(await workflow.statuses()).toEqual(["aborted", "completed"]);
  });

  it("W4: coercion, a fallback and a transform are the schema's, and cost no repair", async () => {
    const given = z.object({
      count: z.coerce.number(),
      level: z.enum(["low", "high"]).catch("low"),
      at: z.coerce.date().transform((at) => at.getUTCFullYear()),
      mail: z.string().trim().pipe(z.email()),
    });
    const answer = { count: "7", level: "none", at: "2026-01-02", mail: " a@b.co " };
    await using workflow = await givenScriptedWorkflow((step) =>
      step.prompt("ask", { prompt: script({ answer }), output: given }),
    );
    await workflow.start();
    expect(await workflow.output()).toEqual({ count: 7, level: "low", at: 2026, mail: "a@b.co" });
  });

  it.each(["throw", "return"] as const)(
    "W4 W1: items of a batch are repaired together, and found by a restart (%s)",
    async (onError) => {
      const items = [
        script({ answer: titled("good 1") }),
        script({ answers: [titled("bad"), titled("good 2")] }),
        script({ answers: [titled("bad"), titled("worse"), titled("good 3")] }),
      ];
      const options = { prompt: (item: string) => item, output, onError, repair: 2 };
      await using workflow = await givenScriptedWorkflow((step) =>
        step.promptAll("all", items, options),
      );
      await workflow.start();
      const values = [1, 2, 3].map((index) => ({ title: `good ${index}` }));
      const expected = values.map((value, index) =>
        onError === "throw" ? value : { status: "fulfilled", value, key: `${index}` },
      );
      expect(await workflow.output()).toEqual(expected);
      await workflow.agent.restart(workflow.id);
      expect(await outputOf(env.SCRIPTED_WORKFLOW, workflow.id)).toEqual(expected);
      expect(items.map((item) => modelCalls.get(item))).toEqual([1, 2, 3]);
    },
  );

  it("W4: an item that no repair puts right fails alone, and the step says which", async () => {
    const items = [script({ answer: titled("good") }), script({ answer: titled("bad") })];
    await using workflow = await givenScriptedWorkflow((step) =>
      step.promptAll("all", items, {
        prompt: (item) => item,
        output,
        onError: "return",
        repair: 1,
      }),
    );
    await workflow.start();
    expect(await workflow.output()).toMatchObject([
      { status: "fulfilled", value: { title: "good" } },
      {
        status: "rejected",
        reason: {
          name: "ThinkPromptValidationError",
          message: expect.stringContaining('step.promptAll("all"), item 1 (key "1"): '),
        },
      },
    ]);
    expect(items.map((item) => modelCalls.get(item))).toEqual([1, 2]);
  });
});

describe("what the error of a prompt says", () => {
  const failure = async (body: Parameters<typeof givenScriptedWorkflow>[0]) => {
    const caught: Error[] = [];
    await using workflow = await givenScriptedWorkflow((step, own) =>
      Promise.resolve(body(step, own)).catch((error: Error) => {
        caught.push(error);
        return error.message;
      }),
    );
    await workflow.start();
    return { message: await workflow.output(), error: caught.at(-1) as Error };
  };

  it("W4: its cause is the ZodError, or the issues of another library, and it names the step", async () => {
    const inZod = z.object({ title: z.string().refine((title) => title !== "hello", "is taken") });
    const zod = await failure((step) => step.prompt("ask", { prompt: script(), output: inZod }));
    expect(zod.error.cause).toBeInstanceOf(z.ZodError);
    expect(zod.error).toMatchObject({ stepName: "ask", cause: { issues: [{ path: ["title"] }] } });
    expect(zod.message).toBe(
      'step.prompt("ask"): Think prompt returned invalid structured output: title: is taken',
    );
    const inArkType = type({ title: "string" }).narrow((_, ctx) => ctx.mustBe("another"));
    const ark = await failure((step) =>
      step.prompt("ask", { prompt: script(), output: inArkType }),
    );
    const issues = ark.error.cause as readonly { message: string }[];
    expect(issues.map(({ message }) => message)).toEqual([expect.stringContaining("another")]);
  });

  it("W2: a timeout names the step and how long was waited", async () => {
    const prompt = script({ delayMs: 600_000 });
    const { message, error } = await failure((step) =>
      step.prompt("ask", { prompt, timeout: "1 second" }),
    );
    expect(message).toBe(
      'step.prompt("ask"): Timed out waiting for Think prompt after 1 second. Set a longer timeout.',
    );
    expect(error).toMatchObject({ stepName: "ask", timeoutMs: 1_000 });
  });

  it("names the option as it was written", async () => {
    const { message } = await failure((step) => step.prompt("ask", { prompt: "p", repair: 11 }));
    expect(message).toContain("Invalid repair 11: expected a whole number from 0 to 10");
    expect(message).not.toContain("answer.");
  });
});

describe("what a prompt is", () => {
  it("a list of messages is asked as it is", async () => {
    const last = script();
    await using workflow = await givenScriptedWorkflow((step) =>
      step.prompt("ask", {
        prompt: [
          { role: "user", parts: [{ type: "text", text: "before" }] },
          { role: "user", parts: [{ type: "text", text: last }] },
        ],
        output: z.object({ title: z.string() }),
      }),
    );
    await workflow.start();
    expect(await workflow.output()).toMatchObject({ title: "hello" });
    expect(await workflow.agent.texts()).toEqual(["user: before", `user: ${last}`]);
  });

  it("without a schema the answer is the text of the reply", async () => {
    const prompt = ask({ text: `said ${crypto.randomUUID()}` });
    await using workflow = await givenScriptedWorkflow((step) => step.prompt("ask", { prompt }));
    await workflow.start();
    expect(await workflow.output()).toBe((JSON.parse(prompt) as Script).text);
  });

  it("L7: promptResult() says what the answer has cost, and where it is", async () => {
    const prompt = script({ fail: "busy", status: 503, failTimes: 1 });
    await using workflow = await givenScriptedWorkflow((step) =>
      step.promptResult("ask", { prompt, output: z.object({ title: z.string() }) }),
    );
    await workflow.start();
    const result = await workflow.output();
    const [submission] = await workflow.agent.listSubmissions();
    expect(result).toEqual({
      output: { title: "hello" },
      usage: { inputTokens: 10, outputTokens: 5, totalTokens: 15 },
      submissionId: submission?.submissionId,
      attempts: 2,
      finishReason: "tool-calls",
    });
  });

  it("W4: a text that was cut off fails the step, unless repair has it asked for again", async () => {
    const prompt = ask({ id: crypto.randomUUID(), text: "a", finish: "length", finishTimes: 2 });
    await using workflow = await givenScriptedWorkflow(async (step) => {
      const cut = await step.prompt("cut", { prompt }).catch((error: Error) => error.message);
      return [cut, await step.promptResult("repaired", { prompt, repair: 1 })];
    });
    await workflow.start();
    expect(await workflow.output()).toMatchObject([
      expect.stringContaining('finish reason "length"'),
      { output: "a", attempts: 2, finishReason: "stop" },
    ]);
  });

  it("L7: promptResult() of a text names its message", async () => {
    const prompt = ask({ text: `said ${crypto.randomUUID()}` });
    await using workflow = await givenScriptedWorkflow((step) =>
      step.promptResult("ask", { prompt }),
    );
    await workflow.start();
    const { messageId } = (await workflow.output()) as { messageId: string };
    expect(await workflow.agent.lastMessage()).toEqual({ id: messageId, role: "assistant" });
  });

  it("the budget, the retries and the thread are those of its submission", async () => {
    const prompt = script();
    await using workflow = await givenScriptedWorkflow((step) =>
      step.prompt("ask", {
        prompt,
        output: z.object({ title: z.string() }),
        budget: { tokens: 1 },
        retry: { maxAttempts: 2 },
        thread: "side",
      }),
    );
    await workflow.start();
    await workflow.output();
    const [submission] = await workflow.agent.listSubmissions();
    expect(submission).toMatchObject({ thread: "side", status: "completed" });
  });

  it.each([
    [{ timeout: "366 days" }, 'at most "365 days"'],
    [{ timeout: "2 years" }, 'at most "365 days"'],
    [{ prompt: [] }, "Invalid prompt []: expected a non-empty string"],
    [
      { retries: 3 },
      'step.prompt("ask"): Unknown option "retries" in options. Valid options: prompt, key',
    ],
    [{ key: 7 }, "Invalid key 7: expected a string."],
    [{ repair: -1, output: z.object({}) }, "repair"],
    [{ strategy: "json" }, 'Invalid strategy "json": expected no strategy for a text answer'],
    [{ agent: { binding: "NOBODY", name: "x" } }, "and as binding one of"],
    [{ timeout: 0.5 }, "Invalid timeout 0.5: expected a positive number of milliseconds"],
    [{ timeout: "0.0001 seconds" }, "Invalid timeout"],
    [{ timeout: Number.NaN }, "Invalid timeout NaN"],
    [{ timeout: Number.POSITIVE_INFINITY }, "Invalid timeout Infinity"],
    [{ timeout: "53 weeks" }, 'at most "365 days"'],
    [{ timeout: null }, "Invalid timeout null"],
    [{ cancelOnTimeout: "no" }, 'Invalid cancelOnTimeout "no": expected true or false.'],
    [{ agent: null }, "Invalid agent null: expected an object with name"],
    [{ agent: { binding: "ThinkAgent", name: 1n } }, "Invalid agent.name 1n"],
  ])("refuses %o at once", async (options, expected) => {
    await using workflow = await givenScriptedWorkflow((step) =>
      step.prompt("ask", { prompt: "p", ...options } as never),
    );
    await workflow.start();
    expect((await workflow.error()).message).toContain(expected);
    expect(await workflow.agent.listSubmissions()).toEqual([]);
  });

  it.each([
    [
      { cancelOnTimeout: false },
      '"cancelOnTimeout" in options. Valid options: prompt, key, concurrency',
    ],
    [
      { agent: { binding: "ThinkAgent", name: "x" } },
      '"agent" in options. Valid options: prompt, key',
    ],
    [{ thread: "" }, 'Invalid thread "": expected a non-empty string'],
  ])("promptAll() refuses %o at once, and says what there is", async (options, expected) => {
    await using workflow = await givenScriptedWorkflow((step) =>
      step.promptAll("all", ["p"], { prompt: (item: string) => item, ...options } as never),
    );
    await workflow.start();
    expect((await workflow.error()).message).toContain(expected);
    expect(await workflow.agent.listSubmissions()).toEqual([]);
  });

  it("waits for up to 365 days", async () => {
    const prompt = script();
    await using workflow = await givenScriptedWorkflow((step) =>
      step.prompt("ask", { prompt, timeout: "365 days", output: z.object({}) }),
    );
    await workflow.start();
    expect(await workflow.output()).toEqual({});
  });
});

describe("W3: a name and key stand for one thing in a run", () => {
  const output = z.object({ title: z.string() });

  it("W3: a prompt with a name and key that the run has used is refused, also with the same text", async () => {
    const prompt = script();
    await using workflow = await givenScriptedWorkflow(async (step) => {
      await step.prompt("ask", { prompt, output });
      await step.prompt("ask", { prompt, key: "other", output });
      return step.prompt("ask", { prompt, key: "other", output }).catch(messageOf);
    });
    await workflow.start();
    expect(await workflow.output()).toBe(
      'step.prompt("ask") was used before in this run of the workflow with the key "other". ' +
        "Step names must be unique within a run: in a loop, pass a different `key` each time.",
    );
    expect(await workflow.agent.listSubmissions()).toHaveLength(2);
  });

  it("W3: of two prompts that start together with one name, the second is refused, in every replay", async () => {
    const prompts = [script(), script()];
    const outcomes: string[][] = [];
    await using workflow = await givenScriptedWorkflow(async (step) => {
      const all = prompts.map((prompt) => step.prompt("ask", { prompt, output }));
      const settled = await Promise.allSettled(all);
      outcomes.push(settled.map(({ status }) => status));
      return outcomes.at(-1);
    });
    await workflow.start();
    expect(await workflow.output()).toEqual(["fulfilled", "rejected"]);
    await workflow.agent.restart(workflow.id);
    await outputOf(env.SCRIPTED_WORKFLOW, workflow.id);
    expect(new Set(outcomes.map(String))).toEqual(new Set(["fulfilled,rejected"]));
    expect(prompts.map((prompt) => modelCalls.get(prompt))).toEqual([1, undefined]);
  });

  it("W3: a batch with a name and item keys that the run has used is refused", async () => {
    const options = { prompt: () => ask({ text: "one" }) };
    await using workflow = await givenScriptedWorkflow(async (step) => {
      await step.promptAll("ask", [1], { ...options, key: () => "k" });
      await step.promptAll("ask", [1], { ...options, key: () => "other" });
      await step.promptAll("ask", [1], { ...options, key: () => "k" });
    });
    await workflow.start();
    expect((await workflow.error()).message).toContain(
      'step.promptAll("ask") was used before in this run of the workflow with the same keys of items.',
    );
  });

  it("W3: one click answers one approval: the second of a name is refused, the same or not", async () => {
    await using workflow = await givenScriptedWorkflow(async (step) => {
      for (const _ of [0, 1]) await step.approval("delete", { title: "Delete it?" });
    });
    await workflow.start();
    const {
      items: [pending],
    } = await until(async () => {
      const found = await capabilitiesOf(workflow.agent).approvals.list();
      return found.items.length > 0 && found;
    });
    await capabilitiesOf(workflow.agent).approvals.grant(pending?.approvalId ?? "");
    expect((await workflow.error()).message).toContain(
      'step.approval("delete") was used before in this run of the workflow',
    );
  });
});

describe("another agent", () => {
  it("W1: is asked by its binding and name, and its answer comes back", async () => {
    const other = givenThink();
    const prompt = script();
    await using workflow = await givenScriptedWorkflow((step) =>
      step.prompt("ask", {
        prompt,
        output: z.object({ title: z.string() }),
        agent: { binding: "ThinkAgent", name: other.name ?? "" },
      }),
    );
    await workflow.start();
    expect(await workflow.output()).toEqual({ title: "hello" });
    expect(await other.listSubmissions()).toMatchObject([{ status: "completed" }]);
    expect(await workflow.agent.listSubmissions()).toEqual([]);
  });

  it("W1: is asked again after a crash of its own, and answers once", async () => {
    const other = givenThink();
    const { script: held, release } = hold();
    const prompt = script(held);
    await using workflow = await givenScriptedWorkflow((step) =>
      step.prompt("ask", {
        prompt,
        output: z.object({ title: z.string() }),
        agent: { binding: "ThinkAgent", name: other.name ?? "" },
      }),
    );
    await workflow.start();
    await until(() => modelCalls.get(prompt));
    await other.die().catch(() => {});
    release();
    await until(
      async () => (await givenThink(other.name).listSubmissions({ status: "completed" })).length,
    );
    expect(await workflow.output()).toEqual({ title: "hello" });
    expect(await givenThink(other.name).listSubmissions()).toMatchObject([{ attempts: 1 }]);
  });
});
