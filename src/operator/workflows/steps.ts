/** The steps of a workflow: those that wait at the agent from its rows, the others from the events of the platform. */

import type { WorkflowInfo } from "agents/workflows";
import { sumOfDollars } from "../../core/dollars.ts";
import { preview } from "../../core/json.ts";
import { keyPrefix } from "../../core/steps.ts";
import { isTerminal } from "../../submissions/states.ts";
import { type KeyedRow, withKeyPrefix } from "../../submissions/store/keyed.ts";
import { STATUS_OF } from "../../workflow/waits/kinds/approval.ts";
import { type StepRow, stepsWithPrefix } from "../../workflow/waits/steps.ts";
import type { OperatedAgent } from "../operated.ts";
import type { WorkflowStep } from "../protocol.ts";
import { eachEvent, timeOf } from "./events.ts";

/** Rows of each kind that are read. */
const MAX_ROWS = 1_000;
/** Of the platform. */
const MAX_STEPS = 1_000;
/** Submissions of a batch that are named. */
const MAX_IDS = 100;

/** In the order of their starts. */
export async function stepsOf(
  operated: OperatedAgent,
  tracked: WorkflowInfo,
): Promise<WorkflowStep[]> {
  return (await readSteps(operated, tracked)).steps;
}

export type ReadSteps = {
  /** Steps of the app, in the order of their starts. */
  readonly steps: WorkflowStep[];
  /** All steps of the platform, in the order of their starts; undefined where it does not list them. */
  readonly platform: WorkflowStep[] | undefined;
};

export async function readSteps(
  operated: OperatedAgent,
  tracked: WorkflowInfo,
): Promise<ReadSteps> {
  const rows = rowsOf(operated, tracked);
  const platform = (await platformSteps(operated, tracked))?.sort(byStart);
  const steps = [...rowSteps(rows), ...othersIn(platform ?? [], rows)].sort(byStart);
  return { steps, platform };
}

const byStart = (one: WorkflowStep, other: WorkflowStep) => one.startedAt - other.startedAt;

/** Those that do not wait at the agent. */
export async function otherSteps(
  operated: OperatedAgent,
  tracked: WorkflowInfo,
): Promise<WorkflowStep[]> {
  return othersIn((await platformSteps(operated, tracked)) ?? [], rowsOf(operated, tracked));
}

/** Parts of steps that have no row at the agent. */
const OTHER_PART = /[:~].*\b(race-winner|sleep-next|sleep-hop-\d+)$/;

function othersIn(
  platform: readonly WorkflowStep[],
  rows: ReturnType<typeof rowsOf>,
): WorkflowStep[] {
  const own = Object.values<readonly { readonly step: string | null }[]>(rows).flat();
  const names = [...new Set(own.flatMap(({ step }) => step ?? []))];
  // The steps that wait at the agent consist of several of the platform.
  const isOwn = (name: string) =>
    name.startsWith("perdure:") ||
    OTHER_PART.test(name) ||
    names.some((step) => isPartOf(name, step));
  return platform.filter(({ name }) => !isOwn(name)).slice(0, MAX_STEPS);
}

/** Whether a step of the platform is part of a step that waits at the agent. */
export function isPartOf(platformName: string, name: string): boolean {
  return platformName.startsWith(`${name}:`) || platformName.startsWith(`${name}~`);
}

function rowsOf({ storage: { sql }, capabilities }: OperatedAgent, tracked: WorkflowInfo) {
  const keyed = (kind: "prompt" | "batch") =>
    withKeyPrefix(sql, keyPrefix(kind, tracked), MAX_ROWS);
  const waits = capabilities.waits.stored.flatMap((kind) =>
    stepsWithPrefix(capabilities.waits.store, kind, keyPrefix(kind, tracked), MAX_ROWS),
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

/** Undefined where the platform has no events, or does not answer. */
async function platformSteps(
  operated: OperatedAgent,
  tracked: WorkflowInfo,
): Promise<WorkflowStep[] | undefined> {
  const steps = new Map<string, Started>();
  const read = await eachEvent(operated, tracked, (event) => note(steps, event));
  return read && [...steps.values()];
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
  const startedAt = timeOf(event);
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
export function nameOf(stepName: string): Pick<WorkflowStep, "name" | "count"> {
  const [, name = stepName, count = "1"] = /^(.+)-(\d{1,9})$/s.exec(stepName) ?? [];
  return { name, ...(count !== "1" && { count: Number(count) }) };
}
