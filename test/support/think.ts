/** Calls to a Think agent, and access to its storage. */

import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import type { SubmitMessagesOptions } from "../../src/submissions/submit-options.ts";
import { ask, modelCalls, type Script } from "../../src/testing/index.ts";
import { givenThink, message, until } from "./given.ts";
import { repliesBegun } from "./replies-begun.ts";
import { HANG_MS } from "./sizes.ts";
import {
  type AppHooks,
  appHooks,
  type ThinkAgent,
  type ThinkTestOptions,
  thinkOptions,
} from "./think-agent.ts";

export type Agent = DurableObjectStub<ThinkAgent>;

/** A new agent with options for its ledger and hooks of its app. */
export function givenAgent({
  options = {},
  ...hooks
}: AppHooks & { options?: ThinkTestOptions } = {}) {
  const agent = givenThink() as unknown as Agent;
  appHooks.set(agent.name ?? "", hooks);
  thinkOptions.set(agent.name ?? "", options);
  return agent;
}

/** The same agent after a crash, which no stub survives. */
export function again(agent: Agent): Agent {
  return givenThink(agent.name) as unknown as Agent;
}

export function submit(agent: Agent, script: Script | string, options: SubmitMessagesOptions = {}) {
  return agent.submitMessages([message(script)], options);
}

/** Waits for the end of a submission. */
export async function ended(agent: Agent, submissionId: string) {
  const found = await agent.waitForSubmission(submissionId, { timeoutMs: HANG_MS });
  if (!found || found.status === "pending" || found.status === "running") {
    throw new Error(`${submissionId} is ${found?.status}`);
  }
  return found;
}

export async function running(agent: Agent, submissionId: string): Promise<void> {
  await until(async () => (await agent.inspectSubmission(submissionId))?.status === "running");
}

/** Waits until a submission has joined the turn of another one. */
export async function joined(agent: Agent, submissionId: string, to: string): Promise<void> {
  await until(async () => (await agent.inspectSubmission(submissionId))?.mergedInto === to);
}

/** Waits until the model was called so often with this script, and what its reply begins with was read. */
export async function asked(script: Script, times = 1): Promise<void> {
  const text = ask(script);
  // A call that hangs has no reply.
  const counts = script.hangTimes === undefined ? repliesBegun : modelCalls;
  await until(() => (counts.get(text) ?? 0) >= times);
}

/** Waits until Think's own recovery has nothing to do. */
export async function recovered(agent: Agent): Promise<void> {
  await until(() =>
    runInDurableObject<ThinkAgent, boolean>(agent, async ({ tasks }) => {
      const open = await tasks.list({ status: ["pending", "running", "waiting"], limit: 1 });
      return open.length === 0;
    }),
  );
}

/** Every job of the agent becomes due, and its alarm comes. */
export async function wakeNow(agent: Agent): Promise<void> {
  await runInDurableObject(agent, (_, { storage }) => {
    storage.sql.exec("UPDATE cf_agents_jobs SET time = ? WHERE time > ?", Date.now(), Date.now());
  });
  await runDurableObjectAlarm(agent);
}

/** `role: text` of the messages of a thread; parts that are neither text nor a step's start by their type. */
export async function texts(agent: Agent, thread = "main"): Promise<string[]> {
  const messages: Awaited<ReturnType<ThinkAgent["threadMessages"]>> =
    await agent.threadMessages(thread);
  return messages.map(({ role, parts }) => {
    const shown = parts.filter(({ type }) => type !== "step-start");
    return `${role}: ${shown.map((part) => (part.type === "text" ? part.text : `[${part.type}]`)).join("")}`;
  });
}
