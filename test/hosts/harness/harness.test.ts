/** What only a host with a harness does: one operation for each submission, and the harness's sessions. */

import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { getSubAgentByName } from "agents";
import type { AgentHarness, HarnessSession } from "agents/experimental/channels";
import { AiSdkHarness } from "agents/harness/ai-sdk";
import { describe, expect, it } from "vitest";
import { capabilitiesOf } from "../../../src/hosts/public.ts";
import { method } from "../../../src/kernel/outbox/index.ts";
import { modelCalls } from "../../../src/testing/index.ts";
import { Given, type Verbs } from "../../contract/host.ts";
import { charges, heard, taskRuns } from "../../contract/hosts/app.ts";
import { HarnessHost, held } from "../../contract/hosts/harness-host.ts";
import { message, refusal, until } from "../../support/given.ts";
import { hold } from "../../support/held-model.ts";
import { sleep } from "../../support/ledger.ts";

type HarnessObject = { readonly harness: AgentHarness };

const unique = () => ({ id: crypto.randomUUID() });

const HARNESSES = [
  ["AiSdkHarness", "HarnessHost"],
  ["ThinkHarness", "ThinkHarnessHost"],
] as const;

function givenOn(binding: (typeof HARNESSES)[number][1]) {
  const objects = env[binding] as unknown as DurableObjectNamespace<undefined>;
  const agent = new Given({
    objects,
    at: async (name) => objects.getByName(name) as unknown as Verbs,
    workflow: "CONTRACT_WORKFLOW",
    workflows: env.CONTRACT_WORKFLOW,
  });
  /** The harness in the object. */
  const inHarness = <T>(work: (harness: AgentHarness) => Promise<T>): Promise<T> =>
    runInDurableObject(agent.root, (object) => work((object as unknown as HarnessObject).harness));
  return { agent, inHarness };
}

/** A turn that stands in a tool which does not listen to its abort signal, until its name is deleted from `held`. */
async function givenHeld(binding: (typeof HARNESSES)[number][1], options: { thread?: string }) {
  const { agent } = givenOn(binding);
  const verbs = await agent.verbs();
  const name = crypto.randomUUID();
  const script = { ...unique(), tool: { name: "hold", input: { name } }, text: "x" };
  const { submissionId } = await verbs.submitMessages([message(script)], options);
  await until(() => held.has(name));
  return { agent, verbs, name, submissionId };
}

async function messagesOf(session: HarnessSession) {
  const watch = await session.watch();
  await watch.stop();
  return watch.state.messages;
}

// At the same time, because some wait for five seconds until a reset gives up.
describe.concurrent.each(HARNESSES)("a host with %s", (_, binding) => {
  it("L1 L6 O1: a submission is one operation, however often the object crashes", async () => {
    const { agent, inHarness } = givenOn(binding);
    const { script, release } = hold({ text: "answered" });
    const notify = method("hear");
    const { submissionId } = await (await agent.verbs()).submitMessages([message(script)], {
      notify,
    });
    for (let crash = 1; crash <= 3; crash++) {
      await until(async () => {
        const found = await (await agent.verbs()).inspectSubmission(submissionId);
        return found?.status === "running";
      });
      await agent.crash();
    }
    release();
    expect(await agent.ended(submissionId)).toMatchObject({
      status: "completed",
      output: "answered",
      attempts: 1,
    });
    const [own, second] = await inHarness(async (harness) => [
      await harness.session().wait(submissionId),
      await harness.session().wait(`${submissionId}/perdure-run-2`),
    ]);
    expect(own).toMatchObject({ status: "done", text: "answered" });
    expect(second).toMatchObject({ reason: "not_found" });
    expect((await agent.texts()).filter((text) => text.startsWith("user"))).toHaveLength(1);
    await until(() => heard.has(submissionId));
    expect(new Set(heard.get(submissionId)).size).toBe(1);
  });

  it("W1 W2: a workflow gets the answer of a turn over a crash", async () => {
    const { agent } = givenOn(binding);
    const { script, release } = hold({ text: "answered" });
    const prompt = JSON.stringify(script);
    const id = `wf-${crypto.randomUUID()}`;
    await (await agent.verbs()).runWorkflow(agent.host.workflow, { step: "text", prompt }, { id });
    await until(() => (modelCalls.get(prompt) ?? 0) > 0);
    await agent.crash();
    release();
    expect(await agent.output(id)).toBe("answered");
  });

  it("S1: a triggered task runs once for its key, and its prompt is a submission", async () => {
    const { agent } = givenOn(binding);
    const verbs = await agent.verbs();
    const { schedules } = capabilitiesOf(verbs);
    for (const task of ["note", "note", "ask", "ask"]) await schedules.trigger(task, { key: "k" });
    await until(async () => {
      const { items } = await schedules.runs("ask");
      return items[0]?.status === "completed";
    });
    await until(() => taskRuns.has(agent.name));
    expect(taskRuns.get(agent.name)).toHaveLength(1);
    const submissions = await verbs.listSubmissions();
    expect(submissions.map(({ status, output }) => [status, output])).toEqual([
      ["completed", "You said: Write the digest."],
    ]);
  });

  it("L5: an operation whose submission has ended is aborted after a crash", async () => {
    const { agent, inHarness } = givenOn(binding);
    const verbs = await agent.verbs();
    const later = { notBefore: Date.now() + 60_000 };
    const { submissionId } = await verbs.submitMessages([message("x")], later);
    await verbs.cancelSubmission(submissionId);
    const script = JSON.stringify({ ...unique(), delayMs: 600_000, text: "too late" });
    // As a crash right after the cancellation leaves it.
    await inHarness(async (harness) => {
      const parts = [{ type: "text", text: script } as const];
      await harness.session().submit({ parts }, { operationId: submissionId });
    });
    await until(() => (modelCalls.get(script) ?? 0) > 0);
    await agent.crash();
    await (await agent.verbs()).listSubmissions();
    const result = await inHarness((harness) => harness.session().wait(submissionId));
    expect(result).toMatchObject({ status: "unanswered" });
    expect(await agent.texts()).not.toContain("assistant: too late");
  });

  it("L4: threads are sessions of the harness, and that of an isolated turn is empty afterwards", async () => {
    const { agent, inHarness } = givenOn(binding);
    const verbs = await agent.verbs();
    const named = await verbs.submitMessages([message("aside")], { thread: "support" });
    const alone = await verbs.submitMessages([message("alone")], { thread: "isolated" });
    for (const { submissionId } of [named, alone]) await agent.ended(submissionId);
    const thread = await inHarness((harness) =>
      messagesOf(harness.session("perdure:thread/support")),
    );
    expect(thread.map(({ role }) => role)).toEqual(["user", "assistant"]);
    const id = `perdure:isolated/${alone.submissionId}`;
    await until(
      async () => (await inHarness((harness) => messagesOf(harness.session(id)))).length === 0,
    );
  });

  it("L5: a thread whose tool does not stop is cleared when the tool returns, and the call says so", async () => {
    const { agent, verbs, name, submissionId } = await givenHeld(binding, { thread: "t" });
    const cleared = await verbs.clearThread("t").then(
      () => undefined,
      (error: Error) => error.name,
    );
    expect(cleared).toBe(binding === "ThinkHarnessHost" ? "ResetTimeoutError" : undefined);
    expect(await verbs.inspectSubmission(submissionId)).toMatchObject({ status: "aborted" });
    const next = await verbs.submitMessages([message("again")], { thread: "t" });
    held.delete(name);
    expect(await agent.ended(next.submissionId)).toMatchObject({ status: "completed" });
    expect(await verbs.threadMessages("t")).toHaveLength(2);
  });

  it("L5: a thread that is cleared twice while a tool holds it is reset once, and keeps the next turn", async () => {
    const { agent, verbs, name } = await givenHeld(binding, { thread: "t" });
    let resets = 0;
    await runInDurableObject(agent.root, (object) => {
      const { harness } = object as unknown as HarnessObject;
      const sessionOf = harness.session.bind(harness);
      harness.session = (id) => {
        const session = sessionOf(id);
        const reset = session.reset.bind(session);
        // The second one comes while the next turn runs.
        const late = async () => {
          const delayMs = 500 * resets++;
          await until(() => !held.has(name));
          await sleep(delayMs);
          await reset();
        };
        return Object.assign(session, { reset: late });
      };
    });
    for (const _ of ["first", "second"])
      expect(await refusal(verbs.clearThread("t"))).toMatchObject({ name: "ResetTimeoutError" });
    const asked = message({ ...unique(), delayMs: 1_000, text: "kept" });
    const next = await verbs.submitMessages([asked], { thread: "t" });
    held.delete(name);
    expect(await agent.ended(next.submissionId)).toMatchObject({ status: "completed" });
    expect(await verbs.threadMessages("t")).toHaveLength(2);
    expect(resets).toBe(1);
  });

  it("L5: the turn after a cancelled one, whose tool does not stop, starts before the tool returns", async () => {
    const { agent, verbs, name, submissionId } = await givenHeld(binding, { thread: "t" });
    await verbs.cancelSubmission(submissionId);
    const next = await verbs.submitMessages([message("next")], { thread: "t" });
    await until(async () => (await verbs.inspectSubmission(next.submissionId))?.attempts === 1);
    held.delete(name);
    expect(await agent.ended(next.submissionId)).toMatchObject({
      status: binding === "ThinkHarnessHost" ? "completed" : "error",
    });
  });

  it("L7: the reply's message id is that of the conversation", async () => {
    const { agent } = givenOn(binding);
    const verbs = await agent.verbs();
    const { submissionId } = await verbs.submitMessages([message("Hello")]);
    const ended = await agent.ended(submissionId);
    const messages = await verbs.threadMessages("main");
    expect(ended).toMatchObject({ messageId: messages.at(-1)?.id });
  });

  it("L7: an answer that is no JSON ends in InvalidAnswerError", async () => {
    const { agent } = givenOn(binding);
    const verbs = await agent.verbs();
    const output = { type: "object", properties: { title: { type: "string" } } } as const;
    const asked = message({ ...unique(), text: "no JSON" });
    const { submissionId } = await verbs.submitMessages([asked], { output });
    expect(await agent.ended(submissionId)).toMatchObject({
      status: "error",
      errorName: "InvalidAnswerError",
    });
  });

  it("a second harness is refused", async () => {
    const { agent } = givenOn(binding);
    await agent.verbs();
    const refused = await runInDurableObject(agent.root, (object) => {
      type Opened = { useHarness(harness: AgentHarness): AgentHarness };
      try {
        (object as unknown as Opened).useHarness(new AiSdkHarness({ model: "none" }));
        return undefined;
      } catch (error) {
        return (error as Error).message;
      }
    });
    expect(refused).toContain("one harness for each agent");
  });
});

it("L6: a crash after a tool has run does not run the tool again with ThinkHarness", async () => {
  const { agent } = givenOn("ThinkHarnessHost");
  const account = crypto.randomUUID();
  const tool = { name: "charge", input: { account } };
  const { script, release } = hold({ tool, text: "paid" }, { passes: 1 });
  const { submissionId } = await (await agent.verbs()).submitMessages([message(script)]);
  await until(() => charges.get(account) === 1);
  await agent.crash();
  release();
  expect(await agent.ended(submissionId)).toMatchObject({ status: "completed" });
  expect(charges.get(account)).toBe(1);
});

const user = (text: string) => message(text);
const REFUSED = [
  ["budget", [user("x")], { budget: { tokens: 5 } }],
  ["repair", [user("x")], { output: { type: "string" }, repair: 1 }],
  ["strategy", [user("x")], { output: { type: "string" }, strategy: "tool" }],
  ["steer", [user("x")], { whenBusy: "steer" }],
  ["rollback", [user("x")], { whenBusy: "rollback" }],
  ["messages", [user("x"), user("y")], {}],
  ["messages", [{ ...user("x"), role: "assistant" }], {}],
] as const;

describe.concurrent("what a harness cannot do", () => {
  it.each(REFUSED)(
    "%s is refused at the call, and nothing is stored",
    async (option, said, options) => {
      const verbs = await givenOn("HarnessHost").agent.verbs();
      const refused = await refusal(verbs.submitMessages([...said], options as never));
      expect(refused).toMatchObject({
        name: "NotSupportedByHostError",
        host: "perdure/harness",
        option,
      });
      expect(await verbs.listSubmissions()).toEqual([]);
    },
  );
});

it("a turn of a sub-agent is refused at the call, and nothing is stored", async () => {
  const root = env.HarnessHost.getByName(crypto.randomUUID()) as never;
  const verbs = (await getSubAgentByName(root, HarnessHost, "child")) as unknown as Verbs;
  const refused = await refusal(verbs.submitMessages([user("x")]));
  expect(refused).toMatchObject({ name: "NotSupportedByHostError", option: "sub-agents" });
  expect(await verbs.listSubmissions()).toEqual([]);
});

describe.concurrent("a failed operation", () => {
  it("L5: says how a session works again that a cancelled turn has left with an open tool call", async () => {
    const { agent, verbs, name, submissionId } = await givenHeld("HarnessHost", {});
    await verbs.cancelSubmission(submissionId);
    held.delete(name);
    const next = await verbs.submitMessages([message("next")]);
    const ended = await agent.ended(next.submissionId);
    expect(ended).toMatchObject({ status: "error", errorName: "HarnessOperationError" });
    expect(ended?.error).toContain("call of hold without a result");
    expect(ended?.error).toContain("clearMessages()");
    await verbs.clearMessages();
    const last = await verbs.submitMessages([message("last")]);
    expect(await agent.ended(last.submissionId)).toMatchObject({ status: "completed" });
  });

  it("L8: is repeated as a second operation after a network failure", async () => {
    const { agent, inHarness } = givenOn("ThinkHarnessHost");
    const script = { ...unique(), fail: "Network connection lost.", failTimes: 1, text: "at last" };
    const { submissionId } = await (await agent.verbs()).submitMessages([message(script)]);
    expect(await agent.ended(submissionId)).toMatchObject({
      status: "completed",
      output: "at last",
      attempts: 2,
    });
    const ends = await inHarness(async (harness) => [
      await harness.session().wait(submissionId),
      await harness.session().wait(`${submissionId}/perdure-run-2`),
    ]);
    expect(ends.map(({ status }) => status)).toEqual(["unanswered", "done"]);
  });

  it("L6: is not repeated after a tool has run", async () => {
    const { agent } = givenOn("ThinkHarnessHost");
    const account = crypto.randomUUID();
    const script = {
      ...unique(),
      tool: { name: "charge", input: { account } },
      text: "fail after the tool",
    };
    const { submissionId } = await (await agent.verbs()).submitMessages([message(script)]);
    const ended = await agent.ended(submissionId);
    expect(ended).toMatchObject({ status: "error", attempts: 1 });
    expect(ended?.error).toContain("Network connection lost");
    expect(charges.get(account)).toBe(1);
  });

  it("L7: ends the submission with the harness's reason", async () => {
    const { agent } = givenOn("ThinkHarnessHost");
    const script = { ...unique(), fail: "The model refuses", status: 400 };
    const { submissionId } = await (await agent.verbs()).submitMessages([message(script)]);
    const ended = await agent.ended(submissionId);
    expect(ended).toMatchObject({
      status: "error",
      errorName: "HarnessOperationError",
      attempts: 1,
    });
    expect(ended?.error).toContain("The model refuses");
  });
});
