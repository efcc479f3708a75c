/** Open runs that need a look: those that stand still, whose step is retried, or that are paused. */

import type { WorkflowInfo } from "agents/workflows";
import { millisecondsOf } from "../../core/options/options.ts";
import type { OperatedAgent } from "../operated.ts";
import { eachEvent, timeOf } from "./events.ts";
import { isExpecting, isOver, liveStatus, NOT_OVER } from "./instances.ts";
import { nameOf } from "./steps.ts";

/** Runs that the platform is asked for. */
const MAX_ASKED = 20;
/** Younger runs are not asked for: most end sooner. */
const MIN_AGE_MS = 5 * 60_000;
/** The platform may start an attempt, or end a sleep, somewhat late. */
const LATE_MS = 2 * 60_000;
/** Default timeout of `step.do()`: https://developers.cloudflare.com/workflows/build/sleeping-and-retrying/ */
const STEP_TIMEOUT_MS = 10 * 60_000;
/** Of one step; retries within it are ordinary. */
const RETRIED_MS = 10 * 60_000;
/** A step that waits at the agent asks it after 10 s, and then after ten times as long each time. */
const FIRST_WAIT_MS = 10_000;
const WAIT_FACTOR = 10;
/** Idle gap of a stream of events. A run must not seem to stand still because its events come slowly. */
const GAP_MS = 1_000;

/** An open run that needs a look. */
export type OpenRun = Pick<WorkflowInfo, "workflowName" | "workflowId"> & {
  readonly state: "stalled" | "retried" | "paused";
  readonly since: number;
  readonly step?: string | undefined;
  readonly error?: string | undefined;
};

/** The oldest open runs that the agent tracks. */
export function oldestOpen({ host }: OperatedAgent, limit: number): WorkflowInfo[] {
  const status = NOT_OVER as WorkflowInfo["status"][];
  return host.getWorkflows({ status, orderBy: "asc", limit }).workflows;
}

/**
 * Asks the platform for some of these runs. What has ended is stored.
 *
 * @param tracked the oldest first
 */
export async function openRuns(
  operated: OperatedAgent,
  tracked: readonly WorkflowInfo[],
  now: number,
): Promise<OpenRun[]> {
  const old = tracked.filter((run) => !isOver(run) && now - run.updatedAt.getTime() >= MIN_AGE_MS);
  // The end of what these wait for wakes them.
  const [expecting, silent] = [true, false].map((is) =>
    old.filter((run) => isExpecting(operated, run) === is),
  ) as [WorkflowInfo[], WorkflowInfo[]];
  const asked = [...silent, ...expecting].slice(0, MAX_ASKED);
  const looks = asked.map((run) => look(operated, run, silent.includes(run), now));
  return (await Promise.all(looks)).flat();
}

async function look(
  operated: OperatedAgent,
  run: WorkflowInfo,
  isSilent: boolean,
  now: number,
): Promise<OpenRun[]> {
  const { workflowName, workflowId, updatedAt } = run;
  const live = await liveStatus(operated, run);
  if (!live || isOver(live)) return [];
  const isPaused = live.status === "paused";
  if (!isPaused && !isSilent) return [];
  const progress = new Progress();
  const read = await eachEvent(operated, run, (event) => progress.note(event), GAP_MS);
  const of = { workflowName, workflowId };
  if (isPaused)
    return [{ ...of, state: "paused", since: progress.pausedAt ?? updatedAt.getTime() }];
  const found = read?.isComplete && progress.problem(now);
  return found ? [{ ...of, ...found }] : [];
}

type OpenStep = {
  readonly name: string;
  readonly startedAt: number;
  readonly timeoutMs: number;
  /** When the platform goes on with it at the latest. */
  dueAt: number;
  /** Of its latest attempt that failed. */
  error?: string;
};

/** Where a run is, by its events. @internal */
export class Progress {
  readonly #open = new Map<string, OpenStep>();
  #lastAt: number | undefined;
  #isRollingBack = false;
  pausedAt: number | undefined;

  note(event: WorkflowInstanceEvent): void {
    const at = timeOf(event);
    const { type } = event;
    // A queue has no time limit.
    this.#lastAt = type === "workflow_queued" ? undefined : at;
    if (type === "workflow_queued") this.#open.clear();
    if (type === "workflow_paused") this.pausedAt = at;
    if (type.startsWith("rollback_")) this.#isRollingBack = true;
    if ("stepName" in event && !type.startsWith("rollback_")) this.#noteStep(event, at);
  }

  #noteStep(event: Extract<WorkflowInstanceEvent, { stepName: string }>, at: number): void {
    const { stepName } = event;
    const { name } = nameOf(stepName);
    const timeoutMs = timeoutOf(event, name);
    if (timeoutMs !== undefined)
      this.#open.set(stepName, { name, startedAt: at, timeoutMs, dueAt: at + timeoutMs });
    const step = this.#open.get(stepName);
    if (!step) return;
    if (event.type === "attempt_started") step.dueAt = at + step.timeoutMs;
    if (event.type === "attempt_completed") step.dueAt = at;
    if (event.type === "attempt_errored") {
      step.error = event.error.message;
      step.dueAt = at + (event.retryDelayMs ?? 0);
    }
    if (/^(step|sleep|wait)_(completed|errored|timed_out)$/.test(event.type))
      this.#open.delete(stepName);
  }

  problem(now: number): Pick<OpenRun, "state" | "since" | "step" | "error"> | undefined {
    const lastAt = this.#lastAt;
    if (lastAt === undefined || this.#isRollingBack) return undefined;
    const steps = [...this.#open.values()];
    const dueAt = Math.max(
      ...steps.map((step) => step.dueAt),
      // The code between two steps has the time of one.
      steps.length === 0 ? lastAt + STEP_TIMEOUT_MS : lastAt,
    );
    const { name, error } = steps.at(-1) ?? {};
    if (now - dueAt >= LATE_MS) return { state: "stalled", since: lastAt, step: name, error };
    const retried = steps.find(
      (step) => step.error !== undefined && now - step.startedAt >= RETRIED_MS,
    );
    if (!retried) return undefined;
    return {
      state: "retried",
      since: retried.startedAt,
      step: retried.name,
      error: retried.error,
    };
  }
}

/** Of what starts with this event: how long it may take. */
function timeoutOf(event: WorkflowInstanceEvent, name: string): number | undefined {
  switch (event.type) {
    case "step_started":
      return millisecondsOf(event.config?.timeout) ?? STEP_TIMEOUT_MS;
    case "sleep_started":
      return event.durationMs;
    case "wait_started":
      return waitMs(name, event.eventType);
    default:
      return undefined;
  }
}

/** How long a step waits for an event before it asks the agent. One of the app may wait for a year. */
function waitMs(name: string, eventType: string): number {
  if (!eventType.startsWith("perdure-")) return Number.POSITIVE_INFINITY;
  const [, round = "1"] = /wait(?:-(\d{1,2}))?$/.exec(name) ?? [];
  return FIRST_WAIT_MS * WAIT_FACTOR ** (Number(round) - 1);
}
