/** W4 how an answer is asked for, and asked for again: the ledger and the AI SDK on a plain object. */

import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, it, vi } from "vitest";
import type { AnswerSpec, InternalSubmitOptions } from "../../src/submissions/submit-options.ts";
import { ask, isFollowUp, modelCalls, type Script } from "../../src/testing/index.ts";
import { message, until } from "../support/given.ts";
import { hold } from "../support/held-model.ts";
import { acceptOne } from "../support/ledger.ts";
import {
  type AnswerObject,
  asked,
  charges,
  lent,
  WatchedModel,
} from "../support/objects/answer-object.ts";

const SCHEMA = {
  type: "object",
  properties: { city: { type: "string" } },
  required: ["city"],
  additionalProperties: false,
};
const PORTO = { city: "Porto" };
const WRONG = { town: "Porto" };
const FINAL = "think_final_answer";
const THREADS = ["side", "isolated"] as const;

type Stub = DurableObjectStub<AnswerObject>;

function given(lends: NonNullable<Parameters<typeof lent.set>[1]> = {}): Stub {
  const name = crypto.randomUUID();
  lent.set(name, lends);
  return env.AnswerObject.getByName(name) as unknown as Stub;
}

function again({ name }: Stub): Stub {
  return env.AnswerObject.getByName(name ?? "") as unknown as Stub;
}

function within<T>(stub: Stub, work: (object: AnswerObject) => Promise<T>): Promise<T> {
  return runInDurableObject(stub, work);
}

function submit(stub: Stub, script: Script | string, options: InternalSubmitOptions) {
  const messages = [message(script)];
  return within(stub, ({ submissions }) =>
    acceptOne(submissions, messages, { submissionId: "s", thread: "side", ...options }),
  );
}

/** The end of the submission, in whatever life it comes. */
function ended(stub: Stub) {
  return until(async () => {
    const found = await within(again(stub), ({ submissions }) => submissions.inspect("s"));
    return found?.completedAt !== undefined && found;
  });
}

async function prompted(
  stub: Stub,
  script: Script,
  answer: AnswerSpec,
  options: InternalSubmitOptions = {},
) {
  await submit(stub, script, { answer, ...options });
  return ended(stub);
}

/** After so many calls the model of the first attempt only talks, though it has to call a tool. */
function talksAfter({ name = "" }: Stub, calls: number): void {
  const beforeStep = () =>
    asked.get(name)?.length === calls
      ? { model: new WatchedModel("talks", name, true) }
      : undefined;
  lent.set(name, { hooks: { beforeStep } });
}

const callsOf = ({ name }: Stub) => asked.get(name ?? "") ?? [];
const texts = (stub: Stub) => within(stub, (object) => object.texts("side"));
/** Every script is another text, so that its calls are its own. */
const charge = () => ({ name: "charge", input: { account: crypto.randomUUID() } });
const unique = () => ({ id: crypto.randomUUID() });

async function crashAt(stub: Stub, isThere: () => unknown): Promise<void> {
  await until(async () => isThere());
  await runInDurableObject(stub, (_, ctx) => ctx.abort("crash")).catch(() => {});
}

describe("W4: without a schema the answer is the text of the reply", () => {
  it.each(THREADS)("W4 the text after the last call of a tool (%s)", async (thread) => {
    const stub = given();
    const script = { first: "Let me see. ", tool: charge(), text: "The bill is paid." };
    const end = await prompted(stub, script, {}, { thread });
    expect(end).toMatchObject({ status: "completed", output: "Let me see. The bill is paid." });
    expect(end.attempts).toBe(1);
  });

  it("W4: a turn that says nothing is an error with a remedy", async () => {
    const stub = given();
    const end = await prompted(stub, { ...unique(), text: " " }, { repair: 3, models: ["a", "b"] });
    expect(end).toMatchObject({ status: "error", errorName: "EmptyReplyError", attempts: 1 });
    expect(end.error).toContain("maxSteps");
  });

  it("W4: one step is left for the answer, whatever tools the app has", async () => {
    const stub = given({ toolChoice: "required" });
    const tools = [charge(), charge(), charge()];
    const end = await prompted(stub, { tools, text: "done at last" }, { maxSteps: 2 });
    expect(end).toMatchObject({ status: "completed", output: "done at last" });
    expect(callsOf(stub).map((call) => call.tools)).toEqual([["charge"], []]);
  });

  it("W4: a crash in the middle of it loses nothing", async () => {
    const stub = given();
    const { script, release } = hold({ text: "at last" });
    await submit(stub, script, { answer: {} });
    await crashAt(stub, () => modelCalls.get(ask(script)));
    release();
    expect(await ended(stub)).toMatchObject({ output: "at last", attempts: 2 });
    expect(await texts(again(stub))).toEqual([`user: ${ask(script)}`, "assistant: at last"]);
  });
});

describe("W4: the strategy json", () => {
  const answer = { schema: SCHEMA, strategy: "json" } as const;

  it("W4: asks for a text, and leaves the agent its tools", async () => {
    const stub = given();
    const end = await prompted(stub, { tool: charge(), answer: PORTO }, answer);
    expect(end).toMatchObject({ status: "completed", output: PORTO, attempts: 1 });
    expect(callsOf(stub).map((call) => call.tools)).toEqual([["charge"], ["charge"]]);
    expect((await texts(stub)).at(-1)).toBe(`assistant: [tool-charge]${JSON.stringify(PORTO)}`);
  });

  it("W4: takes a fenced block", async () => {
    const text = 'Here it is:\n\n```json\n{ "city": "Porto" }\n```\nAnything else?';
    const end = await prompted(given(), { answers: [text] }, answer);
    expect(end).toMatchObject({ status: "completed", output: PORTO });
  });

  it("W4: does not take JSON between words, which may be a draft", async () => {
    const text = 'I think [so]: {"city": "Porto"}, or do you {disagree}?';
    const end = await prompted(given(), { answers: [text] }, answer);
    expect(end).toMatchObject({ status: "error", errorName: "InvalidAnswerError" });
  });

  it("W4: a text without JSON is no answer", async () => {
    const end = await prompted(given(), { ...unique(), text: "It is Porto." }, answer);
    expect(end).toMatchObject({ status: "error", errorName: "InvalidAnswerError", attempts: 1 });
    expect(end.error).toContain("JSON");
  });

  it("W4: a text without JSON can be repaired, and the model sees what was wrong", async () => {
    const stub = given();
    const script = { answers: ["It is Porto.", PORTO] };
    const end = await prompted(stub, script, { ...answer, repair: 1 });
    expect(end).toMatchObject({ output: PORTO, attempts: 2 });
    const [, second] = callsOf(stub);
    expect(second?.tools).toEqual([]);
    expect(second?.prompt.at(-1)).toContain("It is Porto.");
  });
});

describe("W4: the strategy auto", () => {
  it("W4: with auto, a text that is the answer is accepted, though the model ignores the tool", async () => {
    const stub = given();
    const script = { ignoreTools: true, text: JSON.stringify(PORTO) };
    const end = await prompted(stub, script, { schema: SCHEMA });
    expect(end).toMatchObject({ status: "completed", output: PORTO, attempts: 1 });
  });

  it.each([
    [
      "ignores the tool",
      { ignoreTools: true, text: "It is Porto." },
      ["charge"],
      "UnansweredPromptError",
    ],
    ["is refused the choice", { refuses: "tool_choice" }, ["charge"], "AI_APICallError"],
    ["is refused tools", { refuses: "tools" }, [], "AI_APICallError"],
  ] as const)("W4 asks by json where the model %s", async (_, how, tools, errorName) => {
    const stub = given();
    const end = await prompted(stub, { ...unique(), ...how, answer: PORTO }, { schema: SCHEMA });
    expect(end).toMatchObject({ status: "completed", output: PORTO, attempts: 2 });
    expect(end.failedAttempts).toMatchObject([{ attempt: 1, errorName }]);
    expect(callsOf(stub).map((call) => call.tools)).toEqual([["charge", FINAL], tools]);
  });

  it("W4: switches once", async () => {
    const stub = given();
    const script = { ...unique(), ignoreTools: true, text: "It is Porto." };
    const end = await prompted(stub, script, { schema: SCHEMA });
    expect(end).toMatchObject({ status: "error", errorName: "InvalidAnswerError", attempts: 2 });
  });

  it("W4: the strategy tool does not switch", async () => {
    const script = { ...unique(), ignoreTools: true, text: JSON.stringify(PORTO) };
    const end = await prompted(given(), script, { schema: SCHEMA, strategy: "tool" });
    expect(end).toMatchObject({ errorName: "UnansweredPromptError", attempts: 1 });
  });

  it("W4 L6: after a tool has run, only the answer is asked for", async () => {
    const stub = given();
    const tool = charge();
    talksAfter(stub, 1);
    const script = { tool, text: "I have paid for Porto.", answer: PORTO };
    const end = await prompted(stub, script, { schema: SCHEMA });
    expect(end).toMatchObject({ status: "completed", output: PORTO, attempts: 2 });
    expect(charges.get(tool.input.account)).toBe(1);
    const [, , last] = callsOf(stub);
    expect(last?.tools).toEqual([]);
    expect(last?.prompt.slice(1, -1)).toEqual([
      "assistant: [tool-call]",
      "tool: [tool-result]",
      "assistant: I have paid for Porto.",
    ]);
    expect(last?.prompt.at(-1)).toContain("I have paid for Porto.");
  });

  it("W4 L6: an isolated one is not asked for an answer that it could only make up", async () => {
    const stub = given();
    talksAfter(stub, 1);
    const script = { tool: charge(), text: "", answer: PORTO };
    const end = await prompted(stub, script, { schema: SCHEMA }, { thread: "isolated" });
    expect(end).toMatchObject({ errorName: "UnansweredPromptError", attempts: 1 });
  });
});

describe("W4: repair", () => {
  const answer = { schema: SCHEMA, repair: 2 };

  it("W4 L6: the model sees what was wrong, and no tool runs twice", async () => {
    const stub = given();
    const tool = charge();
    const script = { tool, answers: [WRONG, PORTO] };
    const end = await prompted(stub, script, answer, { retry: { maxAttempts: 1 } });
    expect(end).toMatchObject({ status: "completed", output: PORTO, attempts: 2 });
    expect(end.failedAttempts).toMatchObject([{ errorName: "InvalidAnswerError" }]);
    expect(charges.get(tool.input.account)).toBe(1);
    const last = callsOf(stub).at(-1);
    expect(last?.tools).toEqual([FINAL]);
    expect(last?.prompt.slice(1)).toEqual([
      "assistant: [tool-call]",
      "tool: [tool-result]",
      expect.stringContaining(JSON.stringify(WRONG)),
    ]);
    expect(last?.prompt.at(-1)).toContain("city");
    expect(await texts(stub)).toEqual([`user: ${ask(script)}`, "assistant: [tool-charge]"]);
    expect(end.messageId).toBe("s:reply");
  });

  it("W4: a repair keeps the replies in the conversation, and none of its own instructions", async () => {
    const stub = given();
    const script = { answers: ['{"town": 1}', PORTO] };
    await prompted(stub, script, { ...answer, strategy: "json" });
    expect(await texts(stub)).toEqual([
      `user: ${ask(script)}`,
      `assistant: {"town": 1}${JSON.stringify(PORTO)}`,
    ]);
  });

  it("W4: in an isolated turn the model sees its former answer all the same", async () => {
    const stub = given();
    const end = await prompted(stub, { answers: [WRONG, PORTO] }, answer, { thread: "isolated" });
    expect(end).toMatchObject({ output: PORTO, attempts: 2 });
    expect(callsOf(stub).at(-1)?.prompt).toEqual([
      expect.any(String),
      expect.stringContaining(JSON.stringify(WRONG)),
    ]);
  });

  it("W4: a repair is tried as often as the option says, and then the prompt fails as it did before", async () => {
    const stub = given();
    const end = await prompted(stub, { ...unique(), answers: [WRONG] }, answer);
    expect(end).toMatchObject({ status: "error", errorName: "InvalidAnswerError", attempts: 3 });
    expect(end.failedAttempts).toHaveLength(2);
    expect(end.usage?.totalTokens).toBe(45);
  });

  it("W4 L6: a crash in the middle of it repeats the repair, and no tool", async () => {
    const stub = given();
    const tool = charge();
    const { script, release } = hold({ tool, answers: [WRONG, PORTO] }, { passes: 2 });
    await submit(stub, script, { answer });
    await crashAt(stub, () => callsOf(stub).length === 3);
    release();
    const end = await ended(stub);
    expect(end).toMatchObject({ status: "completed", output: PORTO, attempts: 3 });
    expect(charges.get(tool.input.account)).toBe(1);
    const [, , before, after] = callsOf(stub);
    expect(after).toEqual(before);
    expect(isFollowUp(after?.prompt.at(-1)?.slice("user: ".length) ?? "")).toBe(true);
    expect(await texts(again(stub))).toEqual([`user: ${ask(script)}`, "assistant: [tool-charge]"]);
  });

  it("L8: a provider that fails in the middle of it is asked the same later, though tools have run", async () => {
    const stub = given();
    const tool = charge();
    const script = { tool, answers: [WRONG, PORTO], fail: "overloaded", status: 503, failTimes: 0 };
    // The third call of the model is that of the repair.
    lent.set(stub.name ?? "", {
      hooks: {
        beforeStep: () => {
          if (callsOf(stub).length !== 2) return undefined;
          asked.get(stub.name ?? "")?.push({ model: "none", tools: [], prompt: [] });
          throw Object.assign(new Error("overloaded"), { statusCode: 503 });
        },
      },
    });
    const end = await prompted(stub, script, answer);
    expect(end).toMatchObject({ status: "completed", output: PORTO, attempts: 3 });
    expect(charges.get(tool.input.account)).toBe(1);
    expect(callsOf(stub).at(-1)?.tools).toEqual([FINAL]);
  });
});

it("W4 O4: an answer that is too large can be repaired, and is shown cut", async () => {
  const stub = given();
  const script = { answer: {}, long: { title: { text: "too large ", times: 1_800_000 } } };
  const schema = { type: "object", properties: { title: { type: "string" } } };
  const end = await prompted(stub, script, { schema, repair: 1 });
  expect(end).toMatchObject({ errorName: "AnswerTooLargeError", attempts: 2 });
  expect(end.failedAttempts).toMatchObject([{ errorName: "AnswerTooLargeError" }]);
  const shown = callsOf(stub).at(-1)?.prompt.at(-1) ?? "";
  expect(shown).toContain("too large too large");
  expect(shown).toContain("[cut]");
  expect(shown.length).toBeLessThan(64 * 1024 + 1_000);
});

describe("what it costs", () => {
  /** Rows that the ledger wrote, and how often it has looked at failed attempts. */
  async function cost(script: Script, answer?: AnswerSpec) {
    const stub = given();
    await submit(stub, script, { thread: "isolated", ...(answer && { answer }) });
    await ended(stub);
    return runInDurableObject(stub, ({ meter }: AnswerObject) => ({
      rows: meter.rowsWrittenBy((query) => query.includes("perdure_")),
      looks: meter.statementsOf((query) => /SELECT follow/.test(query)),
    }));
  }

  it("an answer no row of its own, a repair three, and a first attempt no look at others", async () => {
    const { rows, looks } = await cost({ ...unique() });
    expect(looks).toBe(0);
    expect(await cost({ ...unique(), text: "x" }, {})).toEqual({ rows, looks: 0 });
    const answer = { schema: SCHEMA, repair: 1 };
    const answered = await cost({ ...unique(), answer: PORTO }, answer);
    expect(answered).toEqual({ rows, looks: 0 });
    const repaired = await cost({ ...unique(), answers: [WRONG, PORTO] }, answer);
    expect(repaired).toEqual({ rows: rows + 3, looks: 1 });
  });
});

describe("a call of the final answer whose arguments are no JSON", () => {
  const broken = (brokenTimes: number) => ({ ...unique(), brokenTimes, answer: PORTO });

  it("W4: unreadable arguments are repaired: the model sees them, and calls again", async () => {
    const stub = given();
    const answer = { schema: SCHEMA, strategy: "tool", repair: 1 } as const;
    const end = await prompted(stub, broken(1), answer);
    expect(end).toMatchObject({ status: "completed", output: PORTO, attempts: 2 });
    expect(end.failedAttempts).toMatchObject([{ errorName: "InvalidAnswerError" }]);
    expect(callsOf(stub).at(-1)?.prompt.at(-1)).toContain("cut o");
  });

  it("W4: without a repair, the error says that the arguments are no JSON, not that there was no call", async () => {
    const end = await prompted(given(), broken(9), { schema: SCHEMA, strategy: "tool" });
    expect(end).toMatchObject({ status: "error", errorName: "InvalidAnswerError", attempts: 1 });
    expect(end.error).toContain("JSON");
  });

  it("W4: without a repair, auto asks for the answer as a text", async () => {
    const end = await prompted(given(), broken(9), { schema: SCHEMA });
    expect(end).toMatchObject({ status: "completed", output: PORTO, attempts: 2 });
  });
});

describe("W4: schemas whose JSON form is read with care", () => {
  it("W4: a pattern with Unicode classes refuses no answer that has them", async () => {
    const city = { type: "string", pattern: "^\\p{Lu}\\p{L}+$" };
    const schema = { ...SCHEMA, properties: { city } };
    const end = await prompted(given(), { ...unique(), answer: { city: "Évora" } }, { schema });
    expect(end).toMatchObject({ status: "completed", output: { city: "Évora" } });
  });

  it("W4: for a union, the model sees the problem by each member", async () => {
    const stub = given();
    const city = { anyOf: [{ type: "null" }, SCHEMA] };
    const schema = { ...SCHEMA, properties: { city } };
    const answers = [{ city: { city: 7 } }, { city: null }];
    const end = await prompted(stub, { ...unique(), answers }, { schema, repair: 1 });
    expect(end).toMatchObject({ output: { city: null }, attempts: 2 });
    expect(callsOf(stub).at(-1)?.prompt.at(-1)).toContain(
      "city.city: Invalid input: expected string, received number",
    );
  });
});

it("W4 L6: a model that calls what it is not offered does not run it", async () => {
  const stub = given();
  const tool = charge();
  const script = { tool, callMissingTools: true, answers: [WRONG] };
  const end = await prompted(stub, script, { schema: SCHEMA, repair: 1, strategy: "tool" });
  expect(end).toMatchObject({ errorName: "UnansweredPromptError", attempts: 2 });
  expect(charges.get(tool.input.account)).toBe(1);
});

it("W4 L1: a crash between any two writes of a repaired prompt loses nothing", async () => {
  const answer = { schema: SCHEMA, repair: 1 };
  /** Crashes before a write, counted from the accept on; returns how many there were. */
  const run = async (at: number) => {
    const stub = given();
    let write = 0;
    await runInDurableObject(stub, (object: AnswerObject, ctx) => {
      object.meter.onWrite = (_, statement) => {
        if (write === 0 && !statement.includes("INTO perdure_submissions")) return;
        if (++write !== at) return;
        ctx.abort("crash");
        throw new Error("crash");
      };
    });
    const options = { answer, idempotencyKey: "k" };
    const script = { ...unique(), text: `${at}`, answers: [WRONG, PORTO] };
    await submit(stub, script, options).catch(() => submit(again(stub), script, options));
    const end = await ended(stub);
    expect(end).toMatchObject({ status: "completed", output: PORTO });
    expect(await texts(again(stub))).toEqual([`user: ${ask(script)}`]);
    return write;
  };
  const print = vi.spyOn(console, "error").mockImplementation(() => {});
  const writes = await run(0);
  expect(writes).toBeGreaterThan(8);
  await Promise.all(Array.from({ length: writes }, (_, index) => run(index + 1)));
  print.mockRestore();
});

describe("W4: models", () => {
  const answer = { models: ["a", "b"] };
  const models = (stub: Stub) => callsOf(stub).map(({ model }) => model);

  it.each([401, 503])(
    "W4: the next one is asked at once where one fails with %i",
    async (status) => {
      const stub = given();
      const script = { fail: "no", status, failOn: ["a"], headers: { "retry-after": "60" } };
      const end = await prompted(stub, { ...script, text: "b said it" }, answer, {
        retry: { maxAttempts: 1 },
      });
      expect(end).toMatchObject({ status: "completed", output: "b said it", attempts: 2 });
      expect(models(stub)).toEqual(["a", "b"]);
      expect(end.failedAttempts).toMatchObject([{ error: "no", errorName: "AI_APICallError" }]);
    },
  );

  it("W4: an id that nobody knows is a failure of the model", async () => {
    const end = await prompted(given(), { text: "known" }, { models: ["unknown", "b"] });
    expect(end).toMatchObject({ status: "completed", output: "known", attempts: 2 });
  });

  it("L8: after the last model, the first is asked again later, within maxAttempts", async () => {
    const stub = given();
    const script = { ...unique(), fail: "overloaded", status: 503 };
    const end = await prompted(stub, script, answer, { retry: { maxAttempts: 2 } });
    expect(end).toMatchObject({ status: "error", error: "overloaded", attempts: 4 });
    expect(models(stub)).toEqual(["a", "b", "a", "b"]);
  });

  it("W4: what is permanent ends with the last of them", async () => {
    const stub = given();
    const end = await prompted(stub, { ...unique(), fail: "no", status: 401 }, answer);
    expect(end).toMatchObject({ status: "error", error: "no", attempts: 2 });
  });

  it("W4 L6: after a tool has run, no other model is asked unless afterSideEffects allows it", async () => {
    const script = () => ({ tool: charge(), fail: "no", failOn: ["a"] });
    for (const afterSideEffects of ["fail", "repeat"] as const) {
      const stub = given();
      let step = 0;
      lent.set(stub.name ?? "", {
        hooks: {
          beforeStep: () => {
            if (step++ === 1) throw new Error("the model is gone");
            return undefined;
          },
        },
      });
      const end = await prompted(stub, { tool: script().tool, text: "x" }, answer, {
        retry: { afterSideEffects },
      });
      const isRepeated = afterSideEffects === "repeat";
      expect(end.status).toBe(isRepeated ? "completed" : "error");
      expect(new Set(models(stub))).toEqual(new Set(isRepeated ? ["a", "b"] : ["a"]));
    }
  });

  it("W4: a repair asks the model that gave the answer", async () => {
    const stub = given();
    const script = { fail: "no", status: 401, failOn: ["a"], answers: [WRONG, PORTO] };
    const end = await prompted(stub, script, { ...answer, schema: SCHEMA, repair: 1 });
    expect(end).toMatchObject({ status: "completed", output: PORTO, attempts: 3 });
    expect(models(stub)).toEqual(["a", "b", "b"]);
  });

  it("W4: a crash in the middle of the second asks the second again", async () => {
    const stub = given();
    const { script, release } = hold({ fail: "no", status: 401, failOn: ["a"], text: "b said it" });
    await submit(stub, script, { answer });
    await crashAt(stub, () => callsOf(stub).length === 2);
    release();
    expect(await ended(stub)).toMatchObject({ output: "b said it", attempts: 3 });
    expect(models(stub)).toEqual(["a", "b", "b"]);
  });

  it("a budget that is used up is no failure of a model", async () => {
    const stub = given();
    const script = { ...unique(), tools: [charge()], text: "x" };
    const end = await prompted(stub, script, answer, { budget: { tokens: 1 } });
    expect(end).toMatchObject({ errorName: "BudgetExceededError", attempts: 1 });
  });

  it("a cancellation is no failure of a model", async () => {
    const stub = given();
    const script = { ...unique(), delayMs: 60_000 };
    await submit(stub, script, { answer });
    await until(async () => callsOf(stub).length === 1);
    await within(stub, ({ submissions }) => submissions.cancel("s"));
    expect(await ended(stub)).toMatchObject({ status: "aborted", attempts: 1 });
    expect(models(stub)).toEqual(["a"]);
  });
});

describe("W4: maxSteps", () => {
  it("W4: wins over the agent's, and the last step gives the answer", async () => {
    const stub = given({ maxSteps: 9 });
    const script = { tools: [charge(), charge(), charge()], answer: PORTO };
    const end = await prompted(stub, script, { schema: SCHEMA, maxSteps: 2 });
    expect(end).toMatchObject({ status: "completed", output: PORTO });
    expect(callsOf(stub).map((call) => call.tools)).toEqual([["charge", FINAL], [FINAL]]);
  });

  it("W4: maxSteps of a prompt can be more than the agent's", async () => {
    const stub = given({ maxSteps: 1 });
    const script = { tools: [charge(), charge()], answer: PORTO };
    await prompted(stub, script, { schema: SCHEMA, maxSteps: 3 });
    expect(callsOf(stub)).toHaveLength(3);
  });
});

describe("what cannot be asked is refused, and nothing is stored", () => {
  it.each([
    ["output", { schema: [] }, "Invalid output []: expected a JSON Schema"],
    ["strategy", { strategy: "xml" }, '"xml": expected "auto", "tool" or "json"'],
    ["repair", { repair: 11 }, "11: expected a whole number from 0 to 10"],
    ["repair", { repair: 0.5 }, "Invalid repair 0.5"],
    ["maxSteps", { maxSteps: 0 }, "0: expected a whole number from 1 to 1000"],
    ["models", { models: [] }, "Invalid models []: expected a non-empty list"],
    ["models", { models: "a" }, '"a": expected a non-empty list'],
    ["models[1]", { models: ["a", ""] }, "a non-empty string"],
    ["models[0]", { models: [7] }, "Invalid models[0] 7"],
    ["retries", { retries: 1 }, 'Unknown option "retries" in answer'],
  ])("%s %j", async (field, answer, text) => {
    const stub = given();
    await within(stub, async ({ submissions }) => {
      const refused = acceptOne(submissions, [message("x")], {
        answer: answer as AnswerSpec,
      });
      await expect(refused).rejects.toMatchObject({
        name: "InvalidSubmissionError",
        field,
        message: expect.stringContaining(text),
      });
      expect(await submissions.list()).toEqual([]);
    });
  });
});
