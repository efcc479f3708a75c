/** Reports of real agents, and their fixes applied. */

import { runInDurableObject } from "cloudflare:test";
import { expect } from "vitest";
import { capabilitiesOf } from "../../../src/hosts/public.ts";
import { CAPABILITIES } from "../../../src/hosts/verbs.ts";
import type { FindingCode } from "../../../src/operator/catalog.ts";
import { operatedOf } from "../../../src/operator/operated.ts";
import type { Action, AgentReport, Finding } from "../../../src/operator/protocol.ts";
import { healthReport } from "../../../src/operator/report/report.ts";
import type { ScheduledTask } from "../../../src/scheduler/index.ts";
import { givenThink, until } from "../../support/given.ts";
import { type Agent, again } from "../../support/think.ts";
import {
  type Declared,
  declared,
  type ThinkAgent,
  thinkOptions,
} from "../../support/think-agent.ts";

export const MINUTE = 60_000;
export const HOUR = 60 * MINUTE;

/** A new agent with options, and tasks. */
export function givenAgent(
  options: object = {},
  tasks?: () => Readonly<Record<string, ScheduledTask>>,
): Agent {
  const name = `report-${crypto.randomUUID()}`;
  thinkOptions.set(name, options);
  // The types of Think know fewer schedules.
  if (tasks) declared.set(name, { tasks: tasks as unknown as Declared["tasks"] });
  return givenThink(name) as unknown as Agent;
}

/** The same agent after a crash. */
export async function crashed(agent: Agent): Promise<Agent> {
  await inside(agent, (object) => object.die()).catch(() => {});
  return again(agent);
}

type ReportOptions = {
  /**
   * How much later the report is made, for the rules that judge by time. The alarm stays where it is, so a much later report also
   * finds `work-without-alarm`.
   */
  readonly later?: number;
  /** Bindings that the deployed Worker has in place of those of the test. */
  readonly env?: object;
};

export function reportOf(
  agent: Agent,
  { later = 0, env }: ReportOptions = {},
): Promise<AgentReport> {
  return inside(agent, (object) => {
    const operated = operatedOf(object[CAPABILITIES]);
    const clock = { now: () => Date.now() + later, random: Math.random };
    return healthReport({ ...operated, clock, ...(env && { env }) });
  });
}

export function inside<T>(
  agent: Agent,
  work: (object: ThinkAgent, state: DurableObjectState) => T | Promise<T>,
): Promise<T> {
  return runInDurableObject<ThinkAgent, T>(agent, work);
}

/** Waits until the report has a finding with this code, and checks what every finding has. */
export async function found(
  agent: Agent,
  code: FindingCode,
  options: ReportOptions = {},
): Promise<Finding> {
  let last: AgentReport | undefined;
  const finding = await until(async () => {
    last = await reportOf(agent, options);
    return last.findings.find((one) => one.code === code);
  }).catch(() => {
    throw new Error(`There is no finding ${code}, but ${JSON.stringify(last?.findings)}`);
  });
  const { title, cause, fix, evidence, link, about } = finding;
  // Otherwise two findings would pass for one.
  const same = last?.findings.filter((one) => one.code === code && one.about === about);
  expect(same).toHaveLength(1);
  for (const sentence of [title, cause, fix.text]) expect(sentence.length).toBeGreaterThan(10);
  expect(title).toMatch(/[.:]/);
  expect(evidence.ids.length).toBeLessThanOrEqual(10);
  expect(link.view).not.toBe("");
  // An id may have the digits of a year.
  expect(JSON.stringify([title, cause, fix.text])).not.toMatch(/NaN|Infinity|undefined|1970/);
  return finding;
}

/** Waits until the report has no finding with this code. */
export async function gone(
  agent: Agent,
  code: FindingCode,
  options: ReportOptions = {},
): Promise<void> {
  await until(async () => !codesIn(await reportOf(agent, options)).includes(code));
}

export function codesIn({ findings }: AgentReport): FindingCode[] {
  return findings.map(({ code }) => code);
}

/** Does what an action says, by the agent's verbs. */
export async function apply(agent: Agent, action: Action | undefined): Promise<void> {
  if (action === undefined) throw new Error("The fix has no action");
  if ("filter" in action) await applyToAll(agent, action);
  else if ("submissionId" in action) {
    if (action.do === "cancel") await agent.cancelSubmission(action.submissionId);
    else await agent.retrySubmission(action.submissionId);
  } else if ("url" in action) {
    if (action.do === "enable-endpoint")
      await capabilitiesOf(agent).outbox.enableEndpoint(action.url);
    else await capabilitiesOf(agent).outbox.disableEndpoint(action.url);
  } else if (action.do === "redrive" && "deliveryId" in action)
    await capabilitiesOf(agent).outbox.redrive(action.deliveryId);
  else if (action.do === "replay")
    await capabilitiesOf(agent).inbound.replay(action.source, action.id);
  else if (action.do === "resume-task") await capabilitiesOf(agent).schedules.resume(action.taskId);
  else if (action.do === "remove-task") await capabilitiesOf(agent).schedules.remove(action.taskId);
  else if (action.do === "trigger-task")
    await capabilitiesOf(agent).schedules.trigger(action.taskId);
  else if (action.do === "backfill") {
    const { taskId, from, to } = action;
    await capabilitiesOf(agent).schedules.backfill(taskId, { from, to });
  } else if (action.do === "restart-workflow") await agent.restart(action.workflowId);
  else if (action.do === "resume-workflow")
    await capabilitiesOf(agent).operations.operate({ action, by: "ada", reason: "fix" });
  else throw new Error(`The tests do not know the action ${action.do}`);
}

/** All pages of an action with a filter, as the page and the command line do it. */
async function applyToAll(agent: Agent, action: Extract<Action, { filter: object }>) {
  for (let cursor: string | undefined; ; ) {
    const page = cursor === undefined ? {} : { cursor };
    ({ cursor } = await capabilitiesOf(agent).operations.operate({
      action,
      by: "ada",
      reason: "fix",
      ...page,
    }));
    if (cursor === undefined) return;
  }
}

/** What a fix would change: the ids of a dry run, which has to count what the finding has counted. */
export async function rowsOf(agent: Agent, { fix, evidence }: Finding): Promise<string[]> {
  if (!fix.action) throw new Error("The fix has no action");
  const request = { action: fix.action, by: "ada", reason: "look", dryRun: true };
  const { count, rows = [] } = await capabilitiesOf(agent).operations.operate(request);
  expect(count).toBe(evidence.count);
  return rows.map(({ id }) => id).sort();
}
