/** Reads what the rules judge by. A part that cannot be read is left out, and has its error here. */

import { failureOf } from "../../core/failures.ts";
import type { InstalledInbound } from "../../inbound/index.ts";
import type { InboundFacts } from "../../inbound/internal.ts";
import { type OutboxFacts, outboxFacts } from "../../kernel/outbox/internal.ts";
import { type SubmissionFacts, submissionFacts } from "../../kernel/submissions/internal.ts";
import { type WaitFacts, waitFacts } from "../../kernel/waits/index.ts";
import type { Scheduler } from "../../scheduler/index.ts";
import type { SchedulerFacts } from "../../scheduler/internal.ts";
import type { OperatedAgent } from "../operated.ts";
import type { AlarmFacts } from "./rules/alarms.ts";
import { type McpFacts, mcpFacts } from "./rules/mcp.ts";
import type { WorkflowFacts } from "./rules/workflows.ts";

/** Tracked workflows that are read, which is the most that agents returns at once. */
const MOST_WORKFLOWS = 100;

export type ReportFacts = {
  readonly submissions?: SubmissionFacts;
  readonly outbox?: OutboxFacts;
  readonly inbound?: InboundFacts;
  readonly waits?: WaitFacts;
  readonly scheduler?: SchedulerFacts;
  readonly workflows?: WorkflowFacts;
  readonly mcp?: McpFacts;
  readonly alarms?: AlarmFacts;
};

export type Part = keyof ReportFacts;

/** A part that could not be read or judged. */
export type BrokenPart = { readonly part: Part; readonly error: string };

export async function readFacts(
  operated: OperatedAgent,
  now: number,
): Promise<{ facts: ReportFacts; broken: BrokenPart[] }> {
  const { host, capabilities, storage, env } = operated;
  const broken: BrokenPart[] = [];
  const read = async <Facts>(part: Part, work: () => Promise<Facts>): Promise<Facts | undefined> =>
    work().catch((error: unknown) => {
      broken.push(brokenPart(part, error));
      return undefined;
    });
  const scheduler = schedulerOf(operated);
  const [submissions, outbox, inbound, waits, tasks, workflows, mcp] = await Promise.all([
    read("submissions", async () =>
      submissionFacts(await capabilities.submissions.engine.factSource(), now),
    ),
    read("outbox", async () => outboxFacts(await capabilities.outbox.factSource())),
    read("inbound", async () => inboundOf(operated)?.log.facts(now)),
    read("waits", async () => {
      await capabilities.submissions.ready();
      return waitFacts(storage.sql, now);
    }),
    read("scheduler", async () => scheduler?.facts(now)),
    read("workflows", async () => workflowFacts(host, env)),
    read("mcp", async () => mcpFacts(host, now)),
  ]);
  const parts = {
    ...(submissions && { submissions }),
    ...(outbox && { outbox }),
    ...(inbound && { inbound }),
    ...(waits && { waits }),
    ...(tasks && { scheduler: tasks }),
    ...(workflows && { workflows }),
    ...(mcp && { mcp }),
  };
  const alarms = await read("alarms", () => alarmFacts(operated, parts));
  return { facts: { ...parts, ...(alarms && { alarms }) }, broken };
}

export function brokenPart(part: Part, error: unknown): BrokenPart {
  console.error(`[perdure] the health report has no ${part}:`, error);
  const { name, message } = failureOf(error);
  return { part, error: `${name}: ${message}`.slice(0, 500) };
}

function workflowFacts(host: OperatedAgent["host"], env: object): WorkflowFacts {
  const { workflows: newest } = host.getWorkflows({ limit: MOST_WORKFLOWS });
  const { workflows: errored } = host.getWorkflows({ status: "errored", limit: MOST_WORKFLOWS });
  return { newest, errored, env };
}

/** Undefined for an agent without schedules(): the report has no such part then. */
function inboundOf({ capabilities: { features } }: OperatedAgent): InstalledInbound | undefined {
  return features.has("inbound")
    ? (features.get("inbound", "healthReport()") as InstalledInbound)
    : undefined;
}

function schedulerOf({ capabilities: { features } }: OperatedAgent): Scheduler | undefined {
  return features.has("schedules")
    ? (features.get("schedules", "healthReport()") as Scheduler)
    : undefined;
}

async function alarmFacts(
  operated: OperatedAgent,
  { submissions, outbox, waits, scheduler }: ReportFacts,
): Promise<AlarmFacts> {
  const { submissions: ledger, outbox: sending, waits: gate } = operated.capabilities;
  const tasks = schedulerOf(operated);
  const modules = [ledger, sending, gate, ...(tasks ? [tasks] : [])];
  const wakes = await Promise.all(modules.map((module) => module.inspectWake()));
  const times = [
    ...(submissions?.open ?? []).map(({ createdAt }) => createdAt),
    ...(outbox?.groups ?? []).flatMap(({ state, since }) => (state === "waiting" ? since : [])),
    ...(waits?.pending ?? []).map(({ createdAt }) => createdAt),
    // A task is armed at once; how long ago it was declared is not stored.
    ...(scheduler?.tasks ?? []).flatMap(({ firesAt }) => (firesAt === null ? [] : 0)),
  ];
  return {
    wakes: wakes.filter((wake) => wake !== undefined),
    // A part that could not be read may have work.
    isIdle:
      submissions?.counts.pending === 0 &&
      submissions.counts.running === 0 &&
      outbox?.waiting === 0 &&
      waits?.open === 0 &&
      (!tasks || scheduler?.tasks.every(({ firesAt }) => firesAt === null) === true),
    workSince: times.length === 0 ? undefined : times.reduce((one, other) => Math.min(one, other)),
  };
}
