/** The steps of a workflow: those that wait at the agent from its rows, the others from the events of the platform. */

import type { WorkflowInfo } from "agents/workflows";
import { sumOfDollars } from "../../core/dollars.ts";
import { preview } from "../../core/json.ts";
import { keyPrefix, partName } from "../../core/steps.ts";
import { TimeoutError, withTimeout } from "../../core/timeout.ts";
import {
  endRun as endRunIn,
  isTerminal,
  type KeyedRow,
  withKeyPrefix,
} from "../../kernel/submissions/internal.ts";
import { STATUS_OF, type StepRow, stepsWithPrefix } from "../../kernel/waits/index.ts";
import type { OperatedAgent } from "../operated.ts";
import type { WorkflowStep } from "../protocol.ts";
import { instanceOf, PLATFORM_MS } from "./instances.ts";

/** Rows of each kind that are read. */
const MAX_ROWS = 1_000;
/** Of the platform. */
const MAX_STEPS = 1_000;
/** Submissions of a batch that are named. */
const MAX_IDS = 100;
const MAX_EVENTS = 5_000;
/** The events that there are come one after the other. After this time without one, the next has not happened yet. */
const IDLE_MS = 250;

/** In the order of their starts. */
export async function stepsOf(
  operated: OperatedAgent,
  tracked: WorkflowInfo,
): Promise<WorkflowStep[]> {
  const rows = rowsOf(operated, tracked);
  const own = rowSteps(rows);
  const others = await otherSteps(operated, tracked, rows);
  return [...own, ...others].sort((one, other) => one.startedAt - other.startedAt);
}

/** Those that do not wait at the agent. */
export async function otherSteps(
  operated: OperatedAgent,
  tracked: WorkflowInfo,
  rows = rowsOf(operated, tracked),
): Promise<WorkflowStep[]> {
  const own = Object.values<readonly { readonly step: string | null }[]>(rows).flat();
  const names = [...new Set(own.flatMap(({ step }) => step ?? []))];
  const platform = await platformSteps(operated, tracked);
  // The steps that wait at the agent consist of several of the platform.
  const isOwn = (name: string) =>
    name.startsWith("perdure:") || names.some((step) => isPartOf(name, step));
  return platform.filter(({ name }) => !isOwn(name)).slice(0, MAX_STEPS);
}

/** From which step of the platform a workflow is restarted. */
type RestartPoint = {
  readonly name: string;
  readonly count?: number;
  readonly type?: "do" | "sleep" | "waitForEvent";
  /** When it started, if that is known: what came after it is asked again. */
  readonly startedAt: number | undefined;
};

/** A step that waits at the agent consists of several of the platform. The first of them asks the agent. */
export async function restartPointOf(
  operated: OperatedAgent,
  tracked: WorkflowInfo,
  { name, count = 1 }: { readonly name: string; readonly count?: number },
): Promise<RestartPoint> {
  const platform = (await platformSteps(operated, tracked)).sort(
    (one, other) => one.startedAt - other.startedAt,
  );
  const found = platform.find((step) => step.name === name && (step.count ?? 1) === count);
  if (found) {
    const { kind, startedAt } = found;
    const type = kind === "event" ? "waitForEvent" : (kind as "do");
    return { name, count, type, startedAt };
  }
  const own = rowSteps(rowsOf(operated, tracked)).find((step) => step.name === name);
  if (!own) return { name, count, startedAt: undefined };
  const first = platform.find((step) => isPartOf(step.name, name));
  // Without the events of the platform, the name is that of a step without a key.
  const { kind } = own;
  const part = first?.name ?? partName({ kind, stepName: name, key: undefined }, "submit");
  return { name: part, startedAt: Math.min(own.startedAt, first?.startedAt ?? own.startedAt) };
}

/**
 * The run continues from a step. What its steps have asked for since then counts as asked for by an earlier run, as after a
 * restart from the beginning: a prompt that has failed is tried again, an approval is asked for again.
 */
export function endRun(
  { storage, capabilities }: OperatedAgent,
  tracked: WorkflowInfo,
  since: number,
  run: string,
): void {
  const { sql } = storage;
  storage.transactionSync(() => {
    for (const kind of capabilities.waits.stored)
      endRunIn(sql, "perdure_waits", keyPrefix(kind, tracked), since, run);
    for (const kind of ["prompt", "batch"] as const) {
      endRunIn(sql, "perdure_submissions", keyPrefix(kind, tracked), since, run);
    }
  });
}

/** Whether a step of the platform is part of a step that waits at the agent. */
function isPartOf(platformName: string, name: string): boolean {
  return platformName.startsWith(`${name}:`) || platformName.startsWith(`${name}~`);
}

function rowsOf({ storage: { sql }, capabilities }: OperatedAgent, tracked: WorkflowInfo) {
  const keyed = (kind: "prompt" | "batch") =>
    withKeyPrefix(sql, keyPrefix(kind, tracked), MAX_ROWS);
  const waits = capabilities.waits.stored.flatMap((kind) =>
    stepsWithPrefix(sql, keyPrefix(kind, tracked), MAX_ROWS),
  );
  return { waits, prompts: keyed("prompt"), items: keyed("batch") };
}

function rowSteps({ waits, prompts, items }: ReturnType<typeof rowsOf>): WorkflowStep[] {
  const batches = Map.groupBy(items, ({ step }) => step ?? "").values();
  return [
    ...waits.map(stepOfWait),
    ...prompts.map(stepOfPrompt),
    ...Array.from(batches, stepOfBatch),
  ];
}

function stepOfWait(row: StepRow): WorkflowStep {
  const { kind, waitId, status, step, createdAt, settledAt } = row;
  const isApproval = kind === "approval";
  return {
    name: step,
    kind,
    status: isApproval ? STATUS_OF[status] : status,
    startedAt: createdAt,
    ...(settledAt !== null && { endedAt: settledAt }),
    ...(isApproval && { approvalId: waitId }),
    ...textsOf(row),
  };
}

function stepOfPrompt(row: KeyedRow): WorkflowStep {
  const { submissionId, status, createdAt, settledAt, step } = row;
  return {
    name: step ?? submissionId,
    kind: "prompt",
    status,
    startedAt: createdAt,
    ...(settledAt !== null && { endedAt: settledAt }),
    submissionIds: [submissionId],
    ...costOf([row]),
    ...textsOf(row),
  };
}

function costOf(rows: readonly KeyedRow[]): Pick<WorkflowStep, "cost"> {
  const cost = sumOfDollars(rows.map((row) => row.cost));
  return cost === undefined ? {} : { cost };
}

/** The texts that a row has. */
function textsOf({ error, input, output }: Pick<KeyedRow, "error" | "input" | "output">) {
  const texts = Object.entries({ error, input, output }).filter(([, text]) => text);
  return Object.fromEntries(texts) as Pick<WorkflowStep, "error" | "input" | "output">;
}

/** It runs while any of its prompts is open. */
function stepOfBatch(rows: readonly KeyedRow[]): WorkflowStep {
  const isOpen = rows.some(({ status }) => !isTerminal(status));
  const failed = rows.find(({ status }) => isTerminal(status) && status !== "completed");
  const ended = Math.max(...rows.map(({ settledAt }) => settledAt ?? 0));
  return {
    name: rows[0]?.step ?? "",
    kind: "batch",
    status: isOpen ? "running" : (failed?.status ?? "completed"),
    startedAt: Math.min(...rows.map(({ createdAt }) => createdAt)),
    ...(!isOpen && { endedAt: ended }),
    submissionIds: rows.slice(0, MAX_IDS).map(({ submissionId }) => submissionId),
    ...costOf(rows),
    ...(failed && failed.error !== null && { error: failed.error }),
  };
}

/** Empty where the platform has no events, or does not answer. */
async function platformSteps(
  operated: OperatedAgent,
  tracked: WorkflowInfo,
): Promise<WorkflowStep[]> {
  const steps = new Map<string, Started>();
  const until = performance.now() + PLATFORM_MS;
  const within = <T>(work: Promise<T>, most = PLATFORM_MS) =>
    withTimeout(work, Math.max(0, Math.min(most, until - performance.now())));
  try {
    const instance = await within(instanceOf(operated, tracked));
    if (typeof instance?.subscribe !== "function") return [];
    using events = await within(instance.subscribe());
    for (let read = 0; read < MAX_EVENTS; read++) {
      const { done, value } = await within(events.next(), IDLE_MS);
      if (done || !value) break;
      note(steps, value);
    }
  } catch (error) {
    // The next event has not happened yet, or the platform is slow.
    if (!(error instanceof TimeoutError)) {
      console.warn(
        `[perdure] the steps of workflow ${tracked.workflowId} could not be read:`,
        error,
      );
    }
  }
  return [...steps.values()];
}

type Started = { -readonly [Key in keyof WorkflowStep]: WorkflowStep[Key] };

const STARTS: Readonly<Record<string, string>> = {
  step_started: "do",
  sleep_started: "sleep",
  wait_started: "event",
};
const ENDS: Readonly<Record<string, string>> = {
  step_completed: "completed",
  sleep_completed: "completed",
  wait_completed: "completed",
  wait_timed_out: "expired",
  step_errored: "failed",
};

function note(steps: Map<string, Started>, event: WorkflowInstanceEvent): void {
  if (!("stepName" in event)) return;
  const { type, stepName } = event;
  const startedAt = timeOf(event.timestamp);
  const kind = STARTS[type];
  // A step with retries, and one that a restart repeats, starts again.
  if (kind) steps.set(stepName, { ...nameOf(stepName), kind, status: "running", startedAt });
  const step = steps.get(stepName);
  if (!step) return;
  if (type === "attempt_errored") step.error = event.error.message.slice(0, 1_000);
  const status = ENDS[type];
  if (!status) return;
  step.status = status;
  step.endedAt = startedAt;
  if (status === "completed") delete step.error;
  if ("output" in event) step.output = preview(event.output, 1_000);
}

/** The platform adds to each name which of the steps of this name it is. */
function nameOf(stepName: string): Pick<WorkflowStep, "name" | "count"> {
  const [, name = stepName, count = "1"] = /^(.+)-(\d{1,9})$/s.exec(stepName) ?? [];
  return { name, ...(count !== "1" && { count: Number(count) }) };
}

function timeOf(timestamp: unknown): number {
  return new Date(timestamp as number).getTime();
}
