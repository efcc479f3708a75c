/** A conversation of a Think agent that is cleared or reset while a turn of it runs, or right after a crash has interrupted one. */

import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { isPlainObject } from "../../../../src/core/options/options.ts";
import { ask, modelCalls, type Script, virtualClock } from "../../../../src/testing/index.ts";
import { givenThink, message, until } from "../../../support/given.ts";
import { hold } from "../../../support/held-model.ts";
import { HANG_MS } from "../../../support/sizes.ts";
import {
  type Agent,
  again,
  asked,
  ended,
  givenAgent,
  recovered,
  submit,
  texts,
  wakeNow,
} from "../../../support/think.ts";
import { charges, type ThinkAgent } from "../../../support/think-agent.ts";
import type { BuiltInAgent } from "../built-in.ts";
import { chatClient } from "../peers.ts";

/** As a client of the chat does it. */
async function clearByClient(agent: Agent): Promise<void> {
  const url = `http://agent/agents/think-agent/${agent.name}`;
  const { webSocket } = await agent.fetch(url, { headers: { Upgrade: "websocket" } });
  if (!webSocket) throw new Error("No web socket");
  webSocket.accept();
  webSocket.send(JSON.stringify({ type: "cf_agent_chat_clear" }));
  await until(async () => (await texts(agent)).length === 0);
  webSocket.close();
}

const VERBS = {
  "clearMessages()": (agent: Agent) => agent.clearMessages(),
  "the message of a client": clearByClient,
  "resetTurnState()": (agent: Agent) => agent.resetTurns(),
} as const;
const EACH = Object.keys(VERBS) as (keyof typeof VERBS)[];

/** Crashes the agent. Returns a stub of its next instance. */
async function crashed(agent: Agent): Promise<Agent> {
  await runInDurableObject<ThinkAgent, void>(agent, (_, ctx) => ctx.abort("crash")).catch(() => {});
  return again(agent);
}

/** A reply that does not come while the test runs. */
const endless = (rest: Script = {}): Script => ({
  id: crypto.randomUUID(),
  delayMs: 600_000,
  ...rest,
});

/** Whatever could still come has come: Think's recovery, and the ledger's. */
async function settled(agent: Agent): Promise<void> {
  for (let n = 0; n < 3; n++) {
    await wakeNow(agent);
    await recovered(agent);
  }
}

const SKIPPED = {
  status: "skipped",
  errorName: "TurnResetError",
  error: "Submission was skipped by turn reset.",
};

describe.each(EACH)("L5: %s", (verb) => {
  const act = VERBS[verb];
  const isKept = verb === "resetTurnState()";

  it.each([
    ["nothing of its reply", {}],
    ["a part of its reply", { first: "a beginning" }],
  ])(
    "L5: ends a turn that a crash has interrupted with %s, which never comes back",
    async (_, rest) => {
      const agent = givenAgent();
      const script = endless(rest);
      await submit(agent, script, { submissionId: "s" });
      await asked(script);
      const next = await crashed(agent);
      await act(next);
      expect(await ended(next, "s")).toMatchObject(SKIPPED);
      await settled(next);
      expect(modelCalls.get(ask(script))).toBe(1);
      const left = await texts(next);
      expect(isKept ? left.slice(0, 1) : left).toEqual(isKept ? [`user: ${ask(script)}`] : []);
      await submit(next, "and then", { submissionId: "next" });
      expect(await ended(next, "next")).toMatchObject({ status: "completed" });
      expect((await texts(next)).slice(-2)).toEqual([
        "user: and then",
        "assistant: You said: and then",
      ]);
      expect(await texts(next)).toHaveLength(left.length + 2);
      expect(await next.inspectSubmission("s")).toMatchObject(SKIPPED);
    },
  );

  it("L5: an interrupted turn leaves nothing in the next reply", async () => {
    const agent = givenAgent();
    const script = endless({ first: "a beginning" });
    await submit(agent, script, { submissionId: "s" });
    await asked(script);
    const next = await crashed(agent);
    await act(next);
    // At once: what the crash has interrupted has not been looked at by Think yet.
    await submit(next, { text: "said" }, { submissionId: "next" });
    expect(await ended(next, "next")).toMatchObject({ status: "completed", attempts: 1 });
    await settled(next);
    expect(modelCalls.get(ask(script))).toBe(1);
    const replies = (await texts(next)).filter((text) => text.startsWith("assistant"));
    expect(replies).toEqual(["assistant: said"]);
  });

  it("L5: a tool of an interrupted turn leaves nothing in the next reply", async () => {
    const agent = givenAgent();
    const account = crypto.randomUUID();
    const tool = { name: "charge", input: { account } };
    const { script } = hold({ tool }, { passes: 1 });
    await submit(agent, script, { submissionId: "s" });
    await asked(script, 2);
    const next = await crashed(agent);
    await act(next);
    expect(await ended(next, "s")).toMatchObject(SKIPPED);
    await settled(next);
    expect(modelCalls.get(ask(script))).toBe(2);
    expect(charges.get(account)).toBe(1);
    if (!isKept) expect(await texts(next)).toEqual([]);
  });

  it("L5: a reset ends a turn that Think's recovery continues", async () => {
    const agent = givenAgent();
    const script = endless();
    await submit(agent, script, { submissionId: "s" });
    await asked(script);
    const next = await crashed(agent);
    await next.listSubmissions();
    await asked(script, 2);
    await act(next);
    const end = await ended(next, "s");
    expect(["aborted", "skipped"]).toContain(end.status);
    await settled(next);
    expect(modelCalls.get(ask(script))).toBe(2);
    expect((await texts(next)).filter((text) => text.startsWith("user"))).toEqual(
      isKept ? [`user: ${ask(script)}`] : [],
    );
  });

  it.each([
    ["runs", { first: "a beginning" }],
    ["runs, though its model cannot be stopped", { hangTimes: 1 }],
  ])("L5: ends a turn that %s, and it never comes back", async (_, rest) => {
    const options = { stallTimeout: "10 minutes", retry: { baseDelay: 1 } } as const;
    const agent = givenAgent({ options });
    const script = endless(rest);
    await submit(agent, script, { submissionId: "s" });
    await asked(script);
    await act(agent);
    expect(await ended(agent, "s")).toMatchObject({
      status: "aborted",
      errorName: "TurnResetError",
    });
    using clock = virtualClock({ patience: HANG_MS });
    await clock.advance("11 minutes", agent);
    await settled(agent);
    expect(modelCalls.get(ask(script))).toBe(1);
    const left = await texts(agent);
    expect(isKept ? left.slice(0, 1) : left).toEqual(isKept ? [`user: ${ask(script)}`] : []);
  });
});

it.each([
  ["clearMessages()", undefined],
  ["the message of a client", undefined],
  ["the message of a client", "and then"],
] as const)(
  "L5: the app's own turn does not come back after a crash and %s, and is no part of a new conversation (%s)",
  async (verb, said) => {
    const agent = givenAgent();
    const text = "one two three four five six seven eight nine ten eleven twelve thirteen";
    const { script, release } = hold({ wordMs: 1, text }, { words: 12 });
    const client = await chatClient(agent);
    agent.saveMessages([message(script)]).catch(() => {});
    await until(() => JSON.stringify(client.frames).includes("twelve"));
    const next = await crashed(agent);
    await VERBS[verb](next);
    release();
    if (said) await next.saveMessages([message(said)]);
    await settled(next);
    expect(await texts(next)).toEqual(
      said ? [`user: ${said}`, `assistant: You said: ${said}`] : [],
    );
    expect(modelCalls.get(ask(script))).toBe(1);
  },
);

it("L5: resetTurnState() as the first call of a new agent changes nothing", async () => {
  const agent = givenThink() as unknown as Agent;
  await agent.resetAtOnce();
  await agent.submitMessages([message("hello")]);
  await until(async () => (await texts(agent)).length === 2);
});

it("L5: resetTurnState() before the object has started ends interrupted turns", async () => {
  const agent = givenAgent();
  const script = endless();
  await submit(agent, script, { submissionId: "s" });
  await submit(agent, "behind", { submissionId: "behind" });
  await asked(script);
  const next = await crashed(agent);
  await next.resetAtOnce();
  for (const id of ["s", "behind"]) expect(await ended(next, id)).toMatchObject(SKIPPED);
  await settled(next);
  expect(modelCalls.get(ask(script))).toBe(1);
  expect(await texts(next)).toEqual([`user: ${ask(script)}`]);
});

it("L5: clearThread() ends turns that were left running at the last crash", async () => {
  const agent = givenAgent();
  const script = endless();
  await submit(agent, script, { submissionId: "s", thread: "side" });
  await submit(agent, "behind", { submissionId: "behind", thread: "side" });
  await asked(script);
  const next = await crashed(agent);
  await next.clearThread("side");
  expect(await ended(next, "s")).toMatchObject({ status: "aborted" });
  expect(await ended(next, "behind")).toMatchObject({ status: "skipped" });
  await settled(next);
  expect(modelCalls.get(ask(script))).toBe(1);
  expect(await texts(next, "side")).toEqual([]);
});

describe("L1: the first call of a new agent", () => {
  const at = (agent: unknown) => agent as Record<string, (...args: unknown[]) => unknown>;
  const say = (text: string) => [message({ text }, "m")];
  /** Verbs that Think has, and that work before the agent has started. */
  const CALLS: Record<string, readonly unknown[]> = {
    resetTurnState: [],
    clearMessages: [],
    getMessages: [],
    saveMessages: [say("hello")],
    addMessages: [say("hello")],
    submitMessages: [say("hello"), { submissionId: "s" }],
    runTurn: [{ mode: "submit", input: "hello", submissionId: "s" }],
    inspectSubmission: ["s"],
    listSubmissions: [],
    cancelSubmission: ["s"],
    waitForSubmission: ["s"],
    deleteSubmission: ["s"],
    deleteSubmissions: [],
    cancelChat: ["r"],
    cancelAllChats: [],
    abortRequest: ["r"],
    abortAllRequests: [],
    continueLastTurn: [],
    hasPendingInteraction: [],
    waitUntilStable: [{ timeout: 1_000 }],
    pendingApprovals: [],
    approveExecution: ["e"],
    rejectExecution: ["e"],
    cancelAgentToolRun: ["r"],
    replyAttachments: [],
    getWorkflow: ["w"],
    getWorkflows: [],
    terminateWorkflow: ["w"],
    internal_reconcileScheduledTasks: [],
    getScheduledTasks: [],
    hasSubAgent: ["ThinkAgent", "none"],
    listSubAgents: [],
  };

  /** The value as JSON, without ids and times; of an object its fields; or the error. */
  async function outcome(
    namespace: DurableObjectNamespace<ThinkAgent | BuiltInAgent>,
    verb: string,
  ): Promise<unknown> {
    const stub = namespace.getByName(`first-${crypto.randomUUID()}`);
    return runInDurableObject(stub, async (agent) => {
      expect(at(agent)[verb]).toBeTypeOf("function");
      try {
        const value = await at(agent)[verb]?.(...(CALLS[verb] ?? []));
        if (!isPlainObject(value)) return JSON.stringify(value);
        return Object.keys(value).filter((field) => value[field] !== undefined);
      } catch (error) {
        return `${error}`;
      }
    });
  }

  it.each(Object.keys(CALLS))(
    "L1: %s() as the first call of a new agent does the same as in Think",
    async (verb) => {
      const ours = await outcome(env.ThinkAgent as never, verb);
      const theirs = await outcome(env.BuiltInAgent as never, verb);
      // Ours has more fields. Whether a request has its id by then is another test's matter.
      const fields = Array.isArray(theirs) && theirs.filter((field) => field !== "requestId");
      expect(ours).toEqual(fields ? expect.arrayContaining(fields) : theirs);
    },
  );
});
