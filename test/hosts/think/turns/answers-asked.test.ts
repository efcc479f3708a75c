/** How an answer is asked for, and asked for again, in the conversation of a Think agent and in side turns. */

import { runInDurableObject } from "cloudflare:test";
import { toStandardJsonSchema } from "@valibot/to-json-schema";
import { type } from "arktype";
import * as v from "valibot";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { z as z3 } from "zod3";
import { zod3 } from "../../../../src/core/schema/zod3.ts";
import { jsonSchemaOf, type OutputSchema, readOutput } from "../../../../src/submissions/index.ts";
import type { AnswerSpec } from "../../../../src/submissions/submit-options.ts";
import { ask, modelCalls, modelsCalled, type Script } from "../../../../src/testing/index.ts";
import { message, refusal, until } from "../../../support/given.ts";
import { HeldModel, hold } from "../../../support/held-model.ts";
import { type AskedPrompt, acceptPrompt } from "../../../support/prompts.ts";
import { type Agent, again, ended, givenAgent, submit, texts } from "../../../support/think.ts";
import { charges, cutOff, type ThinkAgent } from "../../../support/think-agent.ts";
import { chatClient } from "../peers.ts";

const SCHEMA = {
  type: "object",
  properties: { city: { type: "string" } },
  required: ["city"],
  additionalProperties: false,
};
const PORTO = { city: "Porto" };
const WRONG = { town: "Porto" };
const FINAL = "think_final_answer";

const unique = () => ({ id: crypto.randomUUID() });
const charge = () => ({ name: "charge", input: { account: crypto.randomUUID() } });

/** An agent whose model records what it was asked, also across restarts. */
function given() {
  const model = new HeldModel();
  const agent = givenAgent({
    beforeTurn: () => ({ model }),
    options: { retry: { baseDelay: 1 } },
  });
  cutOff.add(agent.name ?? "");
  return { agent, model };
}

async function prompt(
  agent: Agent,
  script: Script,
  answer: AnswerSpec,
  rest: Partial<AskedPrompt> = {},
) {
  const request: AskedPrompt = {
    idempotencyKey: crypto.randomUUID(),
    run: "r",
    messages: [{ role: "user", parts: [{ type: "text", text: ask(script) }] }],
    workflow: { name: "PROMPT_WORKFLOW", id: crypto.randomUUID(), stepName: "s" },
    answer,
    ...rest,
  };
  return acceptPrompt(agent, request);
}

/** Crashes the agent when something is there, and asks its next instance. */
async function crashAt(agent: Agent, isThere: () => unknown): Promise<Agent> {
  await until(isThere);
  await runInDurableObject<ThinkAgent, void>(agent, (_, ctx) => ctx.abort("crash")).catch(() => {});
  return again(agent);
}

describe("a text answer on Think", () => {
  it.each(["main", "side", "isolated"])(
    "W4: without a schema the answer is the text of the reply (%s)",
    async (thread) => {
      const { agent } = given();
      const script = { tool: charge(), text: `paid in ${thread}` };
      const end = await ended(agent, await prompt(agent, script, {}, { thread }));
      expect(end).toMatchObject({ status: "completed", output: `paid in ${thread}`, attempts: 1 });
    },
  );

  it("W4: a turn without a text is an error", async () => {
    const { agent } = given();
    const end = await ended(agent, await prompt(agent, { ...unique(), text: "" }, {}));
    expect(end).toMatchObject({ status: "error", errorName: "EmptyReplyError", attempts: 1 });
  });

  it("W4: the answer after a crash is the whole text of one reply", async () => {
    const { agent } = given();
    const { script, release } = hold({ first: "a beginning", text: ", and the end" });
    const client = await chatClient(agent);
    const id = await prompt(agent, script, {});
    const next = await crashAt(agent, () => JSON.stringify(client.frames).includes("a beginning"));
    release();
    const end = await ended(next, id);
    expect(end).toMatchObject({ status: "completed", attempts: 2 });
    expect(end.output).toBe("a beginning, and the end");
    expect((await texts(next)).slice(1)).toEqual(["assistant: a beginning, and the end"]);
  });
});

describe.each(["main", "side", "isolated"])("a reply that is cut off in %s", (thread) => {
  const CUT = { status: "error", errorName: "IncompleteReplyError", attempts: 1 };

  it.each(["length", "content-filter", "other", "error"] as const)(
    "W4: a text with the finish %s is no answer",
    async (finish) => {
      const { agent } = given();
      const script = { ...unique(), text: "half a senten", finish };
      const end = await ended(agent, await prompt(agent, script, {}, { thread }));
      expect(end).toMatchObject({ ...CUT, finishReason: finish });
      expect(end.error).toContain(`finish reason "${finish}"`);
    },
  );

  it("W4: repair asks for a text that was cut off again", async () => {
    const { agent, model } = given();
    const script = {
      ...unique(),
      text: "the whole answer",
      finish: "length",
      finishTimes: 1,
    } as const;
    const end = await ended(agent, await prompt(agent, script, { repair: 1 }, { thread }));
    expect(end).toMatchObject({ status: "completed", attempts: 2, finishReason: "stop" });
    expect(end.output).toBe("the whole answer");
    expect(model.prompts().at(-1)?.at(-1)).toContain('finish reason "length"');
  });

  it("W4: the next model is asked after a text that was cut off", async () => {
    const { agent } = given();
    const script = { ...unique(), text: "the answer", finish: "length", finishTimes: 1 } as const;
    const answer = { models: ["small", "large"] };
    const end = await ended(agent, await prompt(agent, script, answer, { thread }));
    expect(end).toMatchObject({ status: "completed", output: "the answer", attempts: 2 });
    expect(modelsCalled.get(ask(script))).toEqual(["small", "large"]);
  });

  it("W4: the next model is asked after JSON that was cut off", async () => {
    const { agent } = given();
    const answers = ['{"city": "Por', PORTO];
    const script = { ...unique(), answers, finish: "length", finishTimes: 1 } as const;
    const answer = { schema: SCHEMA, strategy: "json", models: ["small", "large"] } as const;
    const end = await ended(agent, await prompt(agent, script, answer, { thread }));
    expect(end).toMatchObject({ status: "completed", output: PORTO, attempts: 2 });
  });

  it("W4: JSON is no answer if the reply was cut off, although it looks complete", async () => {
    const { agent } = given();
    const script: Script = { ...unique(), answers: [PORTO], finish: "length" };
    const answer = { schema: SCHEMA, strategy: "json" } as const;
    const end = await ended(agent, await prompt(agent, script, answer, { thread }));
    expect(end).toMatchObject({ ...CUT, finishReason: "length" });
  });

  it("L7: the finish reason of a turn without steps left is not that of a cut reply", async () => {
    const agent = givenAgent({ beforeTurn: () => ({ maxSteps: 1 }) });
    const { submissionId } = await submit(agent, { tool: charge() }, { thread });
    const end = await ended(agent, submissionId);
    expect(end).toMatchObject({ errorName: "MaxStepsReachedError", finishReason: "tool-calls" });
  });

  it("L7: a submission without an output schema completes, and has the finish reason", async () => {
    const { agent } = given();
    const script = { ...unique(), text: "half a senten", finish: "length" } as const;
    const { submissionId } = await submit(agent, script, { thread });
    const end = await ended(agent, submissionId);
    expect(end).toMatchObject({ status: "completed", finishReason: "length" });
  });
});

describe("strategies on Think", () => {
  it("W4: strategy json keeps the agent's tools, and accepts a fenced block", async () => {
    const { agent, model } = given();
    const script = { tool: charge(), answers: ['```json\n{"city": "Porto"}\n```'] };
    const end = await ended(
      agent,
      await prompt(agent, script, { schema: SCHEMA, strategy: "json" }),
    );
    expect(end).toMatchObject({ status: "completed", output: PORTO, attempts: 1 });
    expect(model.offered().every((names) => names.includes("charge"))).toBe(true);
    expect(model.offered().flat()).not.toContain(FINAL);
  });

  it.each<[string, Script]>([
    ["takes a text that is the answer", { ignoreTools: true, text: JSON.stringify(PORTO) }],
    ["asks again where the model only talks", { ignoreTools: true, text: "Porto", answer: PORTO }],
    ["asks again where the choice is refused", { refuses: "tool_choice", answer: PORTO }],
    ["asks again where tools are refused", { refuses: "tools", answer: PORTO }],
  ])("W4: strategy auto %s", async (_, script) => {
    const { agent } = given();
    const all = { ...unique(), ...script };
    const end = await ended(agent, await prompt(agent, all, { schema: SCHEMA }));
    expect(end).toMatchObject({ status: "completed", output: PORTO });
    expect(end.attempts).toBe(script.text?.startsWith("{") ? 1 : 2);
    expect((await texts(agent))[0]).toBe(`user: ${ask(all)}`);
  });
});

describe("repair on Think", () => {
  it.each(["tool", "json"] as const)(
    "W4 L6: the model sees what was wrong, and no tool runs twice (%s)",
    async (strategy) => {
      const { agent, model } = given();
      const tool = charge();
      const script = { tool, answers: [WRONG, PORTO] };
      const end = await ended(
        agent,
        await prompt(agent, script, { schema: SCHEMA, strategy, repair: 1 }),
      );
      expect(end).toMatchObject({ status: "completed", output: PORTO, attempts: 2 });
      expect(charges.get(tool.input.account)).toBe(1);
      const [asked = []] = model.prompts().slice(-1);
      expect(asked).toContain("tool: [tool-result]");
      expect(asked.at(-1)).toContain(JSON.stringify(WRONG));
      expect(model.offered().at(-1)).toEqual(strategy === "tool" ? [FINAL] : []);
      const said = await texts(agent);
      expect(said.filter((text) => text.startsWith("user:"))).toEqual([`user: ${ask(script)}`]);
      expect(said.filter((text) => text.includes("[tool-charge]"))).toHaveLength(1);
    },
  );

  it.each(["tool", "json"] as const)(
    "W4: a crash during a repair asks for the same repair again (%s)",
    async (strategy) => {
      const { agent, model } = given();
      const tool = charge();
      const { script, release } = hold({ tool, answers: [WRONG, PORTO] }, { passes: 2 });
      const id = await prompt(agent, script, { schema: SCHEMA, strategy, repair: 1 });
      const next = await crashAt(agent, () => model.calls.length === 3);
      release();
      const end = await ended(next, id);
      expect(end).toMatchObject({ status: "completed", output: PORTO });
      expect(charges.get(tool.input.account)).toBe(1);
      expect(model.offered().slice(2)).toEqual(Array(2).fill(strategy === "tool" ? [FINAL] : []));
      const [before, after] = model.prompts().slice(2);
      expect(after?.at(-1)).toBe(before?.at(-1));
    },
  );

  it("W4 L6: a tool that is not offered does not run", async () => {
    const { agent } = given();
    const tool = charge();
    const script = { tool, callMissingTools: true, answers: [WRONG] };
    const answer = { schema: SCHEMA, repair: 1, strategy: "tool" } as const;
    const end = await ended(agent, await prompt(agent, script, answer));
    expect(end).toMatchObject({ status: "error", attempts: 2 });
    expect(charges.get(tool.input.account)).toBe(1);
  });
});

describe("models and maxSteps on Think", () => {
  const answer = { schema: SCHEMA, models: ["a", "b"] };

  it.each(["main", "side"])(
    "W4: the next model is asked at once, whatever model the app returns (%s)",
    async (thread) => {
      const { agent, model } = given();
      const script = { ...unique(), fail: "no", status: 401, failOn: ["a"], answer: PORTO };
      const id = await prompt(agent, script, answer, { thread, retry: { maxAttempts: 1 } });
      expect(await ended(agent, id)).toMatchObject({ output: PORTO, attempts: 2 });
      expect(modelsCalled.get(ask(script))).toEqual(["a", "b"]);
      expect(model.calls).toEqual([]);
      expect(await agent.inspectSubmission(id)).toMatchObject({
        failedAttempts: [{ error: "no", errorName: "AI_APICallError" }],
      });
    },
  );

  it("W4: a crash during the second model's attempt asks the second model again", async () => {
    const { agent } = given();
    const failing = { fail: "no", status: 401, failOn: ["a"] };
    const { script, release } = hold({ ...failing, answer: PORTO });
    const id = await prompt(agent, script, answer);
    const next = await crashAt(agent, () => modelCalls.get(ask(script)) === 2);
    release();
    expect(await ended(next, id)).toMatchObject({ status: "completed", output: PORTO });
    expect(modelsCalled.get(ask(script))).toEqual(["a", "b", "b"]);
  });

  it("W4: maxSteps overrides the agent's, and the last step gives the answer", async () => {
    const { agent, model } = given();
    const script = { tools: [charge(), charge(), charge()], answer: PORTO };
    const id = await prompt(agent, script, { schema: SCHEMA, maxSteps: 2 });
    expect(await ended(agent, id)).toMatchObject({ status: "completed", output: PORTO });
    expect(model.offered()).toHaveLength(2);
    expect(model.offered().at(-1)).toEqual([FINAL]);
  });
});

it("L1: metadata that only resembles a prompt of Think changes no other option", async () => {
  const { agent } = given();
  for (const forged of [1, {}, null, { workflow: 1 }, { workflow: {} }]) {
    const { submissionId } = await agent.submitMessages([message(unique())], {
      metadata: { __thinkWorkflowPrompt: forged },
      thread: "isolated",
    });
    expect(await agent.waitForSubmission(submissionId)).toMatchObject({
      status: "completed",
      thread: "isolated",
    });
  }
});

describe("L7: submitMessages() with an output", () => {
  const city = z.object({ city: z.string() });
  const valibot = v.object({ city: v.string() });
  /** Submits in the agent itself, where a schema can be passed. */
  const asked = (agent: Agent, script: Script, output: OutputSchema, rest: object = {}) =>
    runInDurableObject<ThinkAgent, string>(agent, async (object) => {
      const options = { output, thread: "isolated", ...rest };
      return (await object.submitMessages([message({ ...unique(), ...script })], options))
        .submissionId;
    });

  it.each<[string, OutputSchema, string]>([
    ["Zod 4", city, "main"],
    ["Zod 3", zod3(z3.object({ city: z3.string() })), "side"],
    ["ArkType", type({ city: "string" }), "isolated"],
    ["Valibot", toStandardJsonSchema(valibot), "isolated"],
    ["JSON Schema", SCHEMA, "side"],
  ])("L7: a schema of %s gives an output that matches it", async (_, output, thread) => {
    const { agent } = given();
    const right = await asked(agent, { answer: PORTO }, output, { thread });
    expect(await ended(agent, right)).toMatchObject({ status: "completed", output: PORTO });
    const wrong = await asked(agent, { answer: WRONG }, output, { thread });
    const refused = { status: "error", errorName: "InvalidAnswerError" };
    expect(await ended(agent, wrong)).toMatchObject(refused);
    const repaired = await asked(agent, { answers: [WRONG, PORTO] }, output, { thread, repair: 1 });
    expect(await ended(agent, repaired)).toMatchObject({ output: PORTO, attempts: 2 });
  });

  it("L7: the schema is stored, and checks the output after a restart", async () => {
    const { agent } = given();
    const { script, release } = hold({ answers: [WRONG, PORTO] });
    const id = await asked(agent, script, city, { thread: "side", repair: 1 });
    const next = await crashAt(
      agent,
      async () => (await agent.inspectSubmission(id))?.status === "running",
    );
    release();
    const end = await ended(next, id);
    expect(end).toMatchObject({ status: "completed", output: PORTO });
  });

  it("W4: readOutput() returns the output as the schema parses it, also over RPC", async () => {
    const { agent } = given();
    const schema = z.object({
      city: z.string().transform((name) => name.length),
      country: z.string().default("Portugal"),
    });
    const script = message({ ...unique(), answer: PORTO });
    const options = { output: jsonSchemaOf(schema), thread: "isolated" } as const;
    const { submissionId } = await agent.submitMessages([script], options);
    const done = await ended(agent, submissionId);
    expect(done.output).toEqual(PORTO);
    expect(await readOutput(schema, done)).toEqual({ city: 5, country: "Portugal" });
    const long = city.refine(({ city }) => city.length > 9, "is too short");
    expect(await refusal(readOutput(long, done))).toMatchObject({
      name: "SubmissionOutputError",
      submissionId,
      message: expect.stringContaining("does not match the schema: is too short"),
    });
    const open = await asked(agent, { delayMs: 60_000 }, city);
    const pending = await agent.inspectSubmission(open);
    expect(await refusal(readOutput(city, pending))).toMatchObject({ submissionId: open });
    await agent.cancelSubmission(open, "enough");
    const cancelled = await agent.inspectSubmission(open);
    const { message: text } = await refusal(readOutput(city, cancelled));
    expect(text).toContain('its status is "aborted". enough');
    expect((await refusal(readOutput(city, null))).message).toContain("unknown");
  });

  it.each<[string, unknown, string]>([
    ["Zod", city, "Could not serialize object of type"],
    ["ArkType", type({ city: "string" }), "a function that came over RPC"],
    ["Valibot", valibot, "jsonSchemaOf(schema) of perdure/submissions"],
  ])(
    "L3: a schema object of %s over RPC is refused, and nothing is stored",
    async (_, output, text) => {
      const { agent } = given();
      const submitted = (async () => agent.submitMessages([message("x")], { output } as never))();
      const error = await refusal(submitted);
      expect(error.message).toContain(text);
      expect(await agent.listSubmissions()).toEqual([]);
    },
  );

  it.each(["main", "side", "isolated"])(
    "L7: without a schema the output is the text (%s)",
    async (thread) => {
      const { agent } = given();
      const script = { ...unique(), first: "Let me see. ", tool: charge(), text: "It is paid." };
      const { submissionId } = await submit(agent, script, { thread });
      const end = await ended(agent, submissionId);
      expect(end).toMatchObject({ status: "completed", output: "Let me see. It is paid." });
    },
  );

  it("L7: a turn that Think recovers after a crash has its text as output", async () => {
    const { agent } = given();
    const { script, release } = hold({ text: "late" });
    const { submissionId } = await submit(agent, script);
    const next = await crashAt(agent, () => modelCalls.get(ask(script)));
    release();
    expect(await ended(next, submissionId)).toMatchObject({ status: "completed", output: "late" });
  });
});
