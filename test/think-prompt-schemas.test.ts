/** What a prompt can be asked for and with, in the real engine: schemas of any library, messages, other agents (W1, W4). */

import { env } from "cloudflare:workers";
import { toStandardJsonSchema } from "@valibot/to-json-schema";
import { type } from "arktype";
import * as v from "valibot";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { z as z3 } from "zod3";
import { ask, modelCalls, type Script } from "../src/testing/index.ts";
import { outputOf } from "./support/engine.ts";
import { givenThink, until } from "./support/given.ts";
import { givenPlot } from "./support/plot-workflow.ts";

const ANSWER = { title: "hello", count: 3 };
const messageOf = ({ message }: Error) => message;

/** Every script is another text, so that its model calls are its own. */
function script(rest: Script = {}): string {
  return ask({ answer: ANSWER, delayMs: 20, text: crypto.randomUUID(), ...rest });
}

describe("W4 an answer is what any schema takes", () => {
  const SCHEMAS = {
    "Zod 4": z.object({ title: z.string(), count: z.number().int() }),
    "Zod 3": z3.object({ title: z3.string(), count: z3.number().int() }),
    Valibot: toStandardJsonSchema(
      v.object({ title: v.string(), count: v.pipe(v.number(), v.integer()) }),
    ),
    ArkType: type({ title: "string", count: "number.integer" }),
  };

  for (const [library, output] of Object.entries(SCHEMAS)) {
    it(`W4 ${library}: a right answer is returned`, async () => {
      await using workflow = await givenPlot((step) =>
        step.prompt("ask", { prompt: script(), output }),
      );
      await workflow.start();
      expect(await workflow.output()).toEqual(ANSWER);
    });

    it(`W4 ${library}: the agent checks by its JSON Schema, and refuses a wrong one`, async () => {
      const prompt = script({ answer: { title: "hello", count: "three" } });
      await using workflow = await givenPlot((step) => step.prompt("ask", { prompt, output }));
      await workflow.start();
      expect(await workflow.error()).toMatchObject({
        message: expect.stringContaining("ThinkPromptValidationError"),
      });
      const [submission] = await workflow.agent.listSubmissions();
      expect(submission).toMatchObject({ status: "error", errorName: "InvalidAnswerError" });
    });
  }

  it("W4 what only the schema itself can tell is checked in the workflow", async () => {
    const output = z.object({ title: z.string().refine((title) => title !== "hello", "is taken") });
    await using workflow = await givenPlot((step) =>
      step.prompt("ask", { prompt: script(), output }),
    );
    await workflow.start();
    const { message } = await workflow.error();
    expect(message).toContain("title: is taken");
    const [submission] = await workflow.agent.listSubmissions();
    expect(submission).toMatchObject({ status: "completed" });
  });

  it("W1 W4 an answer that the workflow refused is asked for afresh by a restart, and only then", async () => {
    let isTaken = true;
    const output = z.object({ title: z.string().refine(() => !isTaken, "is taken") });
    const prompt = script();
    await using workflow = await givenPlot(async (step) => {
      const ask = () => step.prompt("ask", { prompt, output });
      const [one, two] = [await ask().catch(messageOf), await ask().catch(messageOf)];
      return [one, two];
    });
    await workflow.start();
    const wrong = expect.stringContaining("title: is taken");
    expect(await workflow.output()).toEqual([wrong, wrong]);
    expect(modelCalls.get(prompt)).toBe(1);
    isTaken = false;
    await workflow.agent.restart(workflow.id);
    const right = { title: "hello" };
    expect(await outputOf(env.PLOT_WORKFLOW, workflow.id)).toEqual([right, right]);
    expect(modelCalls.get(prompt)).toBe(2);
  });

  it.each(["throw", "return"] as const)(
    "W1 W4 so is that of an item, and no other one (%s)",
    async (onError) => {
      let taken = "b";
      const output = z.object({ title: z.string().refine((title) => title !== taken, "is taken") });
      const items = ["a", "b", "c"].map((title) => script({ answer: { title } }));
      await using workflow = await givenPlot((step) =>
        step
          .promptAll("all", items, { prompt: (item) => item, output, onError })
          .catch((error: Error) => [error.message]),
      );
      await workflow.start();
      expect(JSON.stringify(await workflow.output())).toContain("title: is taken");
      taken = "";
      await workflow.agent.restart(workflow.id);
      const answers = await outputOf(env.PLOT_WORKFLOW, workflow.id);
      expect(answers).toHaveLength(3);
      expect(items.map((item) => modelCalls.get(item))).toEqual([1, 2, 1]);
    },
  );

  it.each(["main", "side"])("W4 a call that is no JSON is repaired (%s)", async (thread) => {
    const prompt = script({ brokenTimes: 1 });
    const options = { prompt, output: z.object({ title: z.string() }), thread };
    await using workflow = await givenPlot((step) =>
      step.promptResult("ask", { ...options, strategy: "tool", repair: 1 }),
    );
    await workflow.start();
    expect(await workflow.output()).toMatchObject({ output: { title: "hello" }, attempts: 2 });
    const [submission] = await workflow.agent.listSubmissions();
    const end = await workflow.agent.inspectSubmission(submission?.submissionId ?? "");
    expect(end?.failedAttempts).toMatchObject([{ errorName: "InvalidAnswerError" }]);
  });

  it("W4 transforms and defaults of the schema make the value", async () => {
    const output = z.object({
      title: z.string().transform((title) => title.length),
      tags: z.array(z.string()).default(["none"]),
    });
    await using workflow = await givenPlot((step) =>
      step.prompt("ask", { prompt: script(), output }),
    );
    await workflow.start();
    expect(await workflow.output()).toEqual({ title: 5, tags: ["none"] });
  });

  it.each([
    ["a list", z.array(z.string()), ["a", "b"]],
    ["one of several words", z.enum(["low", "high"]), "high"],
    ["a number", z.number(), 7],
  ])("W4 %s is an answer, too", async (_, output, answer) => {
    const prompt = script({ answer: { answer } });
    await using workflow = await givenPlot((step) => step.prompt("ask", { prompt, output }));
    await workflow.start();
    expect(await workflow.output()).toEqual(answer);
  });

  it.each([
    ["Valibot without its converter", v.object({}), "toStandardJsonSchema()"],
    ["no schema", { title: "string" }, "no Standard Schema"],
    ["a type that JSON has not", z.object({ when: z.date() }), "Date"],
  ])("W4 refuses %s at once", async (_, output, expected) => {
    await using workflow = await givenPlot((step) =>
      step.prompt("ask", { prompt: "p", output: output as never }),
    );
    await workflow.start();
    expect((await workflow.error()).message).toContain(expected);
    expect(await workflow.agent.listSubmissions()).toEqual([]);
  });
});

describe("what a prompt is", () => {
  it("a list of messages is asked as it is", async () => {
    const last = script();
    await using workflow = await givenPlot((step) =>
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
    await using workflow = await givenPlot((step) => step.prompt("ask", { prompt }));
    await workflow.start();
    expect(await workflow.output()).toBe((JSON.parse(prompt) as Script).text);
  });

  it("L7 promptResult() says what the answer has cost, and where it is", async () => {
    const prompt = script({ fail: "busy", status: 503, failTimes: 1 });
    await using workflow = await givenPlot((step) =>
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
    await using workflow = await givenPlot(async (step) => {
      const cut = await step.prompt("cut", { prompt }).catch((error: Error) => error.message);
      return [cut, await step.promptResult("repaired", { prompt, repair: 1 })];
    });
    await workflow.start();
    expect(await workflow.output()).toMatchObject([
      expect.stringContaining('finish reason "length"'),
      { output: "a", attempts: 2, finishReason: "stop" },
    ]);
  });

  it("L7 promptResult() of a text names its message", async () => {
    const prompt = ask({ text: `said ${crypto.randomUUID()}` });
    await using workflow = await givenPlot((step) => step.promptResult("ask", { prompt }));
    await workflow.start();
    const { messageId } = (await workflow.output()) as { messageId: string };
    expect(await workflow.agent.lastMessage()).toEqual({ id: messageId, role: "assistant" });
  });

  it("the budget, the retries and the thread are those of its submission", async () => {
    const prompt = script();
    await using workflow = await givenPlot((step) =>
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
    [{ timeout: "366 days" }, "at most 365 days"],
    [{ timeout: "2 years" }, "at most 365 days"],
    [{ prompt: [] }, "got [] as prompt"],
    [{ retries: 3 }, 'unknown option "retries"'],
    [{ key: 7 }, "got 7 as key"],
    [{ repair: -1, output: z.object({}) }, "repair"],
    [{ strategy: "json" }, 'got "json" as strategy without an output schema'],
    [{ agent: { binding: "NOBODY", name: "x" } }, "as binding one of"],
    [{ timeout: 0.5 }, "got 0.5 as timeout"],
    [{ timeout: "0.0001 seconds" }, "as timeout"],
    [{ timeout: Number.NaN }, "got NaN as timeout"],
    [{ timeout: Number.POSITIVE_INFINITY }, "got Infinity as timeout"],
    [{ timeout: "53 weeks" }, "at most 365 days"],
    [{ timeout: null }, "got null as timeout"],
    [{ cancelOnTimeout: "no" }, 'got "no" as cancelOnTimeout'],
    [{ agent: null }, "got null as agent"],
    [{ agent: { binding: "ThinkAgent", name: 1n } }, "as agent"],
  ])("refuses %o at once", async (options, expected) => {
    await using workflow = await givenPlot((step) =>
      step.prompt("ask", { prompt: "p", ...options } as never),
    );
    await workflow.start();
    expect((await workflow.error()).message).toContain(expected);
    expect(await workflow.agent.listSubmissions()).toEqual([]);
  });

  it.each([
    [{ cancelOnTimeout: false }, '"cancelOnTimeout"; there are "prompt", "key", "concurrency"'],
    [{ agent: { binding: "ThinkAgent", name: "x" } }, '"agent"; there are "prompt", "key"'],
    [{ thread: "" }, 'got "" as thread'],
  ])("promptAll() refuses %o at once, and says what there is", async (options, expected) => {
    await using workflow = await givenPlot((step) =>
      step.promptAll("all", ["p"], { prompt: (item: string) => item, ...options } as never),
    );
    await workflow.start();
    expect((await workflow.error()).message).toContain(expected);
    expect(await workflow.agent.listSubmissions()).toEqual([]);
  });

  it("waits for up to 365 days", async () => {
    const prompt = script();
    await using workflow = await givenPlot((step) =>
      step.prompt("ask", { prompt, timeout: "365 days", output: z.object({}) }),
    );
    await workflow.start();
    expect(await workflow.output()).toEqual({});
  });
});

describe("W3 a name and key stand for one thing in a run", () => {
  const output = z.object({ title: z.string() });

  it("W3 a prompt is refused where it asks something else, and answered as before where it asks the same", async () => {
    const prompt = script();
    await using workflow = await givenPlot(async (step) => {
      const answers = [await step.prompt("ask", { prompt, output })];
      answers.push(await step.prompt("ask", { prompt, output }));
      await step.prompt("ask", { prompt: script(), key: "other", output });
      await step.prompt("ask", { prompt: script(), output });
      return answers;
    });
    await workflow.start();
    expect((await workflow.error()).message).toContain(
      'step.prompt("ask") was asked for before in this run of the workflow, by this name. Give each use',
    );
    expect(await workflow.agent.listSubmissions()).toHaveLength(2);
  });

  it("W3 prompts of the same keys are refused where they ask something else", async () => {
    const options = (text: string) => ({ prompt: () => ask({ text }) });
    await using workflow = await givenPlot(async (step) => {
      await step.promptAll("ask", [1], { ...options("one"), key: () => "k" });
      await step.promptAll("ask", [1], { ...options("two"), key: () => "other" });
      await step.promptAll("ask", [1], { ...options("two"), key: () => "k" });
    });
    await workflow.start();
    expect((await workflow.error()).message).toContain(
      'step.promptAll("ask") was asked for before in this run of the workflow, by this name. Give',
    );
  });

  it("W3 one click answers one approval: the second of a name is refused, the same or not", async () => {
    await using workflow = await givenPlot(async (step) => {
      for (const _ of [0, 1]) await step.approval("delete", { title: "Delete it?" });
    });
    await workflow.start();
    const [pending] = await until(async () => {
      const found = await workflow.agent.listApprovals();
      return found.length > 0 && found;
    });
    await workflow.agent.grantApproval(pending?.approvalId ?? "");
    expect((await workflow.error()).message).toContain(
      'step.approval("delete") was asked for before in this run of the workflow',
    );
  });
});

describe("another agent", () => {
  it("W1 is asked by its binding and name, and its answer comes back", async () => {
    const other = givenThink();
    const prompt = script();
    await using workflow = await givenPlot((step) =>
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

  it("W1 is asked again after a crash of its own, and answers once", async () => {
    const other = givenThink();
    const prompt = script({ delayMs: 500 });
    await using workflow = await givenPlot((step) =>
      step.prompt("ask", {
        prompt,
        output: z.object({ title: z.string() }),
        agent: { binding: "ThinkAgent", name: other.name ?? "" },
      }),
    );
    await workflow.start();
    await until(() => modelCalls.get(prompt));
    await other.die().catch(() => {});
    await until(
      async () => (await givenThink(other.name).listSubmissions({ status: "completed" })).length,
    );
    expect(await workflow.output()).toEqual({ title: "hello" });
    expect(await givenThink(other.name).listSubmissions()).toMatchObject([{ attempts: 1 }]);
  });
});
