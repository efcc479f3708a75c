/** Where open work is stored, each with its rows in the order of their beginnings. Reads only. */

import type { WorkflowInfo } from "agents/workflows";
import { preview } from "../../../core/json.ts";
import { invalidMessage } from "../../../core/options/options.ts";
import { storedVersion } from "../../../engine/migrations.ts";
import { invalidFilter, type Position } from "../../../engine/page.ts";
import { openDeliveries } from "../../../outbox/store/open-work.ts";
import { openRuns, openTasks } from "../../../scheduler/open-work.ts";
import { openBatches, openSubmissions } from "../../../submissions/store/open-work.ts";
import type { Kernel } from "../../../workflow/agent/kernel.ts";
import { readKindNumbers } from "../../../workflow/waits/facts.ts";
import { openWaits } from "../../../workflow/waits/open-work.ts";
import { openArrivals } from "../../inbound/open-work.ts";
import type { Need, OpenItem } from "../types.ts";
import { needsOf, needsOfKind, ownBindingOf } from "./needs.ts";

/** A row of open work. Tools are the names in their records. */
export type Open = Omit<OpenItem, "version"> & {
  /** For a workflow: its binding. */
  readonly workflow?: string;
  /** Whether it belongs to the code that runs now: tasks are declared anew at each start. */
  readonly isCurrent?: true;
};

export type OpenOf = Pick<Kernel, "storage" | "features" | "agent" | "env" | "waits">;
type Source = (kernel: OpenOf, after: Position, limit: number) => readonly Open[];

const workflowNeed = (name: string): Need => ({ what: "workflow", name });
const taskNeed = (name: string): Need => ({ what: "task", name });

const submissions: Source = ({ storage: { sql } }, after, limit) =>
  openSubmissions(sql, after, limit).map(({ notify, tools, ...row }) => {
    const called = tools.map((name): Need => ({ what: "tool", name }));
    return { kind: "submission", ...row, needs: [...called, ...notify.flatMap(needsOf)] };
  });

const batches: Source = ({ storage: { sql } }, after, limit) =>
  openBatches(sql, after, limit).map(({ workflow, ...row }) => ({
    ...{ kind: "batch", ...row },
    needs: [workflowNeed(workflow)],
  }));

const waits: Source = (kernel, after, limit) =>
  openWaits(kernel.storage.sql, readKindNumbers(kernel.waits), after, limit).map(
    ({ workflow, ...row }) => ({
      ...row,
      needs: [workflowNeed(workflow), ...needsOfKind(kernel, row.kind)],
    }),
  );

/** True once the object has stored a task. */
const hasTasks = ({ storage }: OpenOf) => storedVersion(storage, "scheduler") > 0;

const tasks: Source = (kernel, after, limit) =>
  hasTasks(kernel)
    ? openTasks(kernel.storage.sql, after, limit).map((row) => ({
        ...{ kind: "task", ...row, isCurrent: true },
        needs: [taskNeed(row.id)],
      }))
    : [];

const runs: Source = (kernel, after, limit) =>
  hasTasks(kernel)
    ? openRuns(kernel.storage.sql, after, limit).map(({ taskId, ...row }) => ({
        ...{ kind: "run", ...row },
        needs: [taskNeed(taskId)],
      }))
    : [];

const deliveries: Source = ({ storage: { sql } }, after, limit) =>
  openDeliveries(sql, "waiting", after, limit).map(({ destination, ...row }) => ({
    kind: destination?.kind === "workflow-start" ? "workflow-start" : "delivery",
    ...row,
    needs: needsOf(destination),
  }));

const deadLetters: Source = ({ storage: { sql } }, after, limit) =>
  openDeliveries(sql, "dead", after, limit).map(({ destination, ...row }) => ({
    ...{ kind: "dead-letter", ...row },
    needs: needsOf(destination),
  }));

const arrivals: Source = ({ storage }, after, limit) =>
  storedVersion(storage, "inbound") > 0
    ? openArrivals(storage.sql, after, limit).map((row) => ({
        ...{ kind: "arrival", ...row },
        needs: [{ what: "feature", name: "inbound" }],
      }))
    : [];

/** In the order of items that began at the same time, after workflows. Cursors have the position of a source: append only. */
export const SOURCES: readonly Source[] = [
  ...[submissions, batches, waits, tasks, runs, deliveries, deadLetters, arrivals],
];

const NOT_OVER: WorkflowInfo["status"][] = [
  ...(["queued", "running", "waiting", "paused", "waitingForPause"] as const),
];
/** What the SDK returns at once, at most. */
const MOST_TRACKED = 100;

export type Workflows = { readonly rows: readonly Open[]; readonly next: string | null };

/** Tracked workflows that have not ended as far as the agent knows, the oldest first. Their times may be whole seconds. */
export function openWorkflows(kernel: OpenOf, cursor: string | null): Workflows {
  const { workflows, nextCursor } = trackedPage(kernel, cursor);
  return { rows: workflows.map(workflowRow(kernel)).sort(byTime), next: nextCursor };
}

/** @throws InvalidFilterError for a cursor that the SDK does not know */
function trackedPage({ agent }: OpenOf, cursor: string | null) {
  const all = { status: NOT_OVER, orderBy: "asc" as const, limit: MOST_TRACKED };
  try {
    return agent.getWorkflows({ ...all, ...(cursor !== null && { cursor }) });
  } catch (error) {
    if (cursor === null || !/cursor/i.test((error as Error).message)) throw error;
    const expected = "expected the cursor of an earlier page of this list";
    throw invalidFilter("cursor", invalidMessage("cursor", preview(cursor), expected));
  }
}

/** One of them. */
export function findWorkflow(kernel: OpenOf, workflowId: string): Open[] {
  const found = kernel.agent.getWorkflow(workflowId);
  return found && NOT_OVER.includes(found.status) ? [workflowRow(kernel)(found)] : [];
}

function workflowRow(kernel: OpenOf) {
  const own = ownBindingOf(kernel);
  const calls: Need[] = own === undefined ? [] : [{ what: "binding", name: own }];
  return ({ workflowId: id, workflowName: workflow, createdAt }: WorkflowInfo): Open => {
    const needs = [workflowNeed(workflow), ...calls];
    return { kind: "workflow", id, workflow, since: createdAt.getTime(), needs };
  };
}

function byTime(one: Open, other: Open): number {
  return one.since - other.since || (one.id < other.id ? -1 : 1);
}
