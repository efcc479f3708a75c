/** L6 to L8 and W4: when a reply of the model is an answer, and when it is not. */

import { method } from "perdure/outbox";
import { ask, modelCalls, type Script } from "perdure/testing";
import { expect, it } from "vitest";
import { type GivenAgent, givenAgent, until } from "../app/given.ts";
import { Hold } from "../app/hold.ts";
import type { Host } from "../app/hosts.ts";
import { charges, deliveries, shipments, toolResults } from "../app/receivers.ts";

const unique = () => ({ id: crypto.randomUUID() });
const THREADS = ["main", "support", "isolated"] as const;

/** Ends of a stream in the middle of a reply. */
const BROKEN: readonly [string, Script][] = [
  ["the connection closes", { finish: "interrupted" }],
  ["the stream has no finish", { finish: "none" }],
  ["the provider truncates the stream", { finish: "error", rawFinish: "stream-truncated" }],
];
/** Finish reasons of a text that is incomplete, and that the same call would not complete. */
const CUT = ["length", "content-filter", "other"] as const;
const TITLE = {
  type: "object",
  properties: { title: { type: "string" } },
  required: ["title"],
} as const;

export function answersContract(host: Host): void {
  const given = () => givenAgent(host);

  it.each(BROKEN)(
    "L8: where %s, half a reply is not the answer, and the turn is retried",
    async (_, finish) => {
      for (const thread of THREADS) {
        const agent = given();
        const script = { ...unique(), text: "Your refund of", ...finish };
        const ends = ask({ ...script, finishTimes: 1 });
        const retried = await agent.submit(ends, { thread, notify: method("receive") });
        expect(await agent.untilEnded(retried)).toMatchObject({
          status: "completed",
          attempts: 2,
          finishReason: "stop",
        });
        await until(() => deliveries.count(retried) > 0);
        expect(deliveries.get(retried)).toMatchObject([{ event: { data: { attempts: 2 } } }]);
        const always = ask(script);
        const failed = await agent.submit(always, { thread, retry: { maxAttempts: 2 } });
        expect(await agent.untilEnded(failed)).toMatchObject({
          status: "error",
          errorName: "IncompleteReplyError",
          attempts: 2,
          usage: finish.finish === "none" ? {} : { inputTokens: 20, outputTokens: 10 },
        });
        expect(modelCalls.get(always)).toBe(2);
      }
    },
  );

  it("L8: where the connection is reset, what it said is no part of the answer of the next attempt", async () => {
    for (const thread of THREADS) {
      const agent = given();
      const reset = { first: "4", fail: "Network connection lost.", text: "42" };
      const script = { ...unique(), ...reset, failTimes: 1, firstTimes: 1 };
      const retried = await agent.submit(script, { thread });
      expect(await agent.untilEnded(retried)).toMatchObject({
        status: "completed",
        output: "42",
        attempts: 2,
      });
      const always = ask({ ...unique(), ...reset });
      const failed = await agent.submit(always, { thread, retry: { maxAttempts: 2 } });
      expect(await agent.untilEnded(failed)).toMatchObject({ status: "error", attempts: 2 });
      expect(modelCalls.get(always)).toBe(2);
    }
  });

  it("L6 W4: half a reply that a crash leaves is no part of the answer, and its tools are not run again", async () => {
    const agent = given();
    const words = Array.from({ length: 40 }, (_, index) => `word${index} `).join("");
    for (const step of ["text", "answer"] as const) {
      const hold = new Hold({ at: "reply", words: 30 });
      const tool = { name: "charge", input: { account: hold.id } };
      const json = { ignoreTools: true, text: JSON.stringify({ title: words }) };
      const script = {
        id: hold.id,
        wordMs: 0,
        ...(step === "text" ? { tool, text: words } : json),
      };
      const id = await agent.start({ step, prompt: ask(script) });
      await until(() => hold.arrived > 0);
      await agent.restart();
      hold.release();
      expect(await agent.untilOutput(id)).toEqual(step === "text" ? words : { title: words });
      expect(charges.count(hold.id)).toBe(step === "text" ? 1 : 0);
      const replies = (await agent.texts()).filter((one) => one.startsWith("assistant:"));
      expect(replies.at(-1)).toBe(`assistant: ${script.text}`);
      expect(replies).toHaveLength(step === "text" ? 1 : 2);
    }
  });

  it("W4: answers of one step that differ are refused, and the same answer twice is taken", async () => {
    const agent = given();
    const call = (title: string) => ({ name: "think_final_answer", input: { title } });
    for (const titles of [
      ["a", "a"],
      ["a", "b"],
      ["a", "b", "a"],
    ]) {
      for (const before of [[], [{ name: "charge", input: { account: unique().id } }]]) {
        const script = { ...unique(), tools: [...before, titles.map(call)] };
        const id = await agent.submit(ask(script), { output: TITLE });
        const end = await agent.untilEnded(id);
        if (titles[1] === "a") expect(end).toMatchObject({ output: { title: "a" } });
        else
          expect(end).toMatchObject({
            status: "error",
            errorName: "InvalidAnswerError",
            error: expect.stringContaining("different arguments"),
          });
      }
    }
  });

  it.each(BROKEN)(
    "L6 L8: where %s after a tool call, the tool is not run again",
    async (_, finish) => {
      for (const thread of ["main", "support"]) {
        const agent = given();
        const { id } = unique();
        const tool = { name: "charge", input: { account: id } };
        const script = { id, tool, text: "paid", ...finish, finishTimes: 1 };
        const submissionId = await agent.submit(script, { thread });
        expect(await agent.untilEnded(submissionId)).toMatchObject({
          status: "completed",
          output: "paid",
          attempts: 2,
        });
        expect(charges.count(id)).toBe(1);
      }
    },
  );

  it.each(BROKEN)(
    "W4 L8: where %s, a prompt is asked again, alone and in a list",
    async (_, finish) => {
      const agent = given();
      const script = { ...finish, finishTimes: 1 };
      const one = ask({ ...unique(), ...script, text: "whole" });
      expect(await agent.untilOutput(await agent.start({ step: "text", prompt: one }))).toBe(
        "whole",
      );
      const items = ["a", "b"].map((text) => ask({ ...unique(), ...script, text }));
      expect(await agent.untilOutput(await agent.start({ step: "all", items }))).toEqual([
        "a",
        "b",
      ]);
      const json = { ...unique(), ...script, ignoreTools: true, text: '{"title":"Printer"}' };
      const answer = await agent.start({ step: "answer", prompt: ask(json) });
      expect(await agent.untilOutput(answer)).toEqual({ title: "Printer" });
      for (const prompt of [one, ...items, ask(json)]) expect(modelCalls.get(prompt)).toBe(2);
    },
  );

  it.each(CUT)(
    "L7: a turn that ends by %s completes, and says that it is partial",
    async (finish) => {
      for (const thread of THREADS) {
        const agent = given();
        const script = { ...unique(), text: "Your refund of", finish };
        const submissionId = await agent.submit(script, { thread, notify: method("receive") });
        const end = {
          status: "completed",
          output: script.text,
          finishReason: finish,
          isPartial: true,
        };
        expect(await agent.untilEnded(submissionId)).toMatchObject(end);
        await until(() => deliveries.count(submissionId) > 0);
        expect(deliveries.get(submissionId)).toMatchObject([{ event: { data: end } }]);
      }
      const agent = given();
      const whole = await agent.untilEnded(await agent.submit("Hello"));
      expect(whole).not.toHaveProperty("isPartial");
    },
  );

  it.each(CUT)("W4: %s is no answer of a prompt, whatever its text looks like", async (finish) => {
    const agent = given();
    const cut = { ...unique(), ignoreTools: true, finish };
    const { error } = await agent.untilWorkflow(
      await agent.start({ step: "text", prompt: ask({ ...cut, text: "Your refund of" }) }),
      "errored",
      "complete",
    );
    expect(error?.message).toContain(`finish reason "${finish}"`);
    const answer = await agent.untilWorkflow(
      await agent.start({ step: "answer", prompt: ask({ ...cut, text: '{"title":"Printer"}' }) }),
      "errored",
      "complete",
    );
    expect(answer.error?.message).toContain(`finish reason "${finish}"`);
  });

  it.each(CUT)("L7: %s is no output of a submission", async (finish) => {
    const agent = given();
    const script = { ...unique(), ignoreTools: true, text: '{"title":"Printer"}', finish };
    const submissionId = await agent.submit(script, { output: TITLE });
    expect(await agent.untilEnded(submissionId)).toMatchObject({
      status: "error",
      errorName: "IncompleteReplyError",
      finishReason: finish,
    });
  });

  it("W4: the model repairs an answer that was cut off, where the step asks for that", async () => {
    const agent = given();
    const script = { ignoreTools: true, finish: "length", finishTimes: 1 } as const;
    const prompt = ask({ ...unique(), ...script, text: '{"title":"Printer"}' });
    const id = await agent.start({ step: "answer", prompt, repair: 1 });
    expect(await agent.untilOutput(id)).toEqual({ title: "Printer" });
    expect(modelCalls.get(prompt)).toBe(2);
  });

  it("W4: JSON within a text, a thought or a cut object is no answer", async () => {
    const agent = given();
    const texts = [
      '<think>Maybe {"title":"Printer"}, but',
      '<thinking>Maybe {"title":"Printer"}</thinking>',
      '<reasoning>\n```json\n{"title":"Printer"}\n```\nbut',
      '{"title":"root","children":[{"title":"Printer"},{"ti',
      'Maybe {"title":"Printer"}',
    ];
    for (const text of texts) {
      const script = { ...unique(), ignoreTools: true, text };
      const submissionId = await agent.submit(script, { output: TITLE });
      expect(await agent.untilEnded(submissionId)).toMatchObject({
        status: "error",
        errorName: "InvalidAnswerError",
      });
    }
    const text = '<reasoning>Maybe {"title":"No"}</reasoning>\n{"title":"Printer"}';
    const taken = await agent.submit({ ...unique(), ignoreTools: true, text }, { output: TITLE });
    expect(await agent.untilEnded(taken)).toMatchObject({ output: { title: "Printer" } });
  });

  it("W4: a union whose answer has a field `answer` keeps it", async () => {
    const agent = given();
    const yes = { answer: "yes", why: "It is paid." };
    const output = {
      anyOf: [
        {
          type: "object",
          properties: { answer: { type: "string" }, why: { type: "string" } },
          required: ["answer", "why"],
        },
        { type: "object", properties: { refusal: { type: "string" } }, required: ["refusal"] },
      ],
    } as const;
    for (const answer of [yes, { answer: yes }]) {
      const submissionId = await agent.submit({ ...unique(), answer }, { output });
      expect(await agent.untilEnded(submissionId)).toMatchObject({ output: yes });
    }
  });

  it("L7: a tool call that never arrived ends the turn with its error", async () => {
    for (const thread of THREADS) {
      const agent = given();
      for (const text of ["", "I have charged the account."]) {
        const script = { ...unique(), text, lostCall: "charge" };
        const submissionId = await agent.submit(script, { thread });
        expect(await agent.untilEnded(submissionId)).toMatchObject({
          status: "error",
          errorName: "MissingToolCallError",
          error: expect.stringContaining('"charge"'),
        });
      }
    }
  });

  it("L7: a turn that has used all of its steps without an answer ends with an error", async () => {
    for (const thread of THREADS) {
      const agent = given();
      const { id } = unique();
      const tool = { name: "lookUp", input: { account: id } };
      const script = { id, tools: Array.from({ length: 12 }, () => tool), text: "done" };
      expect(await agent.untilEnded(await agent.submit(script, { thread }))).toMatchObject({
        status: "error",
        errorName: "MaxStepsReachedError",
        error: expect.stringContaining("10 steps"),
      });
      expect(charges.count(id)).toBe(10);
    }
  });

  /** Two calls of a tool with one id of the provider, of which the second is at its hold. */
  async function givenRepeatedIds(name: string, thread: string) {
    const agent = given();
    const hold = new Hold();
    const [one, two] = [crypto.randomUUID(), hold.id];
    const script: Script = {
      ...unique(),
      callIds: "numbered",
      tools: [
        { name, input: { account: one } },
        { name, input: { account: two, hold: two } },
      ],
      text: "done",
    };
    const submissionId = await agent.submit(script, { thread });
    await until(() => hold.arrived > 0);
    return { agent, hold, one, two, submissionId, id: script.id ?? "" };
  }

  it("L6: an interrupted call whose id the provider has repeated is not run again", async () => {
    for (const thread of THREADS) {
      const { agent, hold, one, two, submissionId, id } = await givenRepeatedIds("charge", thread);
      await agent.crash();
      hold.release();
      expect(await agent.untilEnded(submissionId)).toMatchObject({ status: "completed" });
      expect([charges.count(one), charges.count(two)]).toEqual([1, 1]);
      expect(toolResults.get(id).join()).toMatch(/interrupted/i);
    }
  });

  it("L6: a durable tool whose call id the provider has repeated keeps its finished steps and its key", async () => {
    for (const thread of THREADS) {
      const { agent, hold, one, two, submissionId } = await givenRepeatedIds("ship", thread);
      await agent.crash();
      hold.release();
      expect(await agent.untilEnded(submissionId)).toMatchObject({ status: "completed" });
      const steps = shipments.get(two).map((step) => step.split(" "));
      expect(steps.filter(([name]) => name === "reserve")).toHaveLength(1);
      expect(new Set(steps.map(([, key]) => key?.split("/")[0])).size).toBe(1);
      expect(shipments.get(one)).toHaveLength(3);
    }
  });

  it("L6: the thread has each call with its own result, also where the provider repeats ids", async () => {
    for (const thread of ["main", "support"]) {
      const { agent, hold, one, two, submissionId } = await givenRepeatedIds("charge", thread);
      hold.release();
      expect(await agent.untilEnded(submissionId)).toMatchObject({ status: "completed" });
      expect(await listResults(agent, thread)).toEqual([
        [one, `Charged ${one}`],
        [two, `Charged ${two}`],
      ]);
      expect([charges.count(one), charges.count(two)]).toEqual([1, 1]);
    }
  });
}

async function listResults(agent: GivenAgent, thread: string): Promise<unknown[]> {
  const messages = await (await agent.verbs()).threadMessages(thread);
  return messages
    .flatMap(({ parts }) => parts)
    .flatMap((part) =>
      "toolCallId" in part
        ? [[(part.input as { account: string }).account, "output" in part ? part.output : null]]
        : [],
    );
}
