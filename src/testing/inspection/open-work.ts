/** Unfinished work of an inspection, as lines. Pure: the time is an argument. */

import type { LoggedArrival } from "../../features/inbound/types.ts";
import type { DeliveryInfo, Endpoint } from "../../outbox/types.ts";
import type { ScheduledRun, ScheduledTaskInfo } from "../../scheduler/types.ts";
import type { SubmissionInspection } from "../../submissions/types.ts";
import type { Approval } from "../../workflow/waits/kinds/approval-types.ts";

type Lists = Omit<WorkInspection, "open">;

/** Unfinished work. Work for a later time (`notBefore`, schedules) and undecided approvals are no part of it. */
export function describeOpenWork(work: Lists, now: number): string[] {
  return openLines(work, now, () => true);
}

/** Unfinished work that can run at this time: without retries that are due later. */
export function describeDueWork(work: Lists, now: number): string[] {
  return openLines(work, now, (dueAt) => dueAt <= now);
}

function openLines(
  { submissions, deliveries, approvals, tasks, runs }: Lists,
  now: number,
  isWanted: (dueAt: number) => boolean,
): string[] {
  return [
    ...submissions
      .filter(({ status, dueAt = 0, attempts }) => {
        if (status === "running") return true;
        // A first attempt at a later time is planned, and a later one is a retry.
        return status === "pending" && (attempts > 0 || dueAt <= now) && isWanted(dueAt);
      })
      .map(({ submissionId, status }) => `L1 submission ${submissionId} is still ${status}`),
    ...deliveries.flatMap((delivery) => {
      if (delivery.state !== "waiting" || !isWanted(delivery.dueAt)) return [];
      const { id, attempt, lastError } = delivery;
      const why = lastError === undefined ? "" : ` (${lastError})`;
      return [`O2 delivery ${id} still waits, at attempt ${attempt}${why}`];
    }),
    ...runs
      .filter(({ endedAt, status, attempts }) => {
        if (endedAt !== undefined || status === "skipped") return false;
        // The time of a retry is not public.
        return status === "running" || attempts === 0 || isWanted(Number.POSITIVE_INFINITY);
      })
      .map(
        ({ taskId, scheduledFor, status }) =>
          `S5 the run of ${taskId} at ${isoTime(scheduledFor)} is still ${status}`,
      ),
    ...tasks.flatMap(({ taskId, state, next }) => {
      const isDue = state === "active" && next !== null && next <= now;
      return isDue ? [`S1 ${taskId} was due at ${isoTime(next)}`] : [];
    }),
    ...approvals
      .filter(({ status, expiresAt }) => status === "pending" && expiresAt <= now)
      .map(({ approvalId }) => `W2 approval ${approvalId} has expired and is open`),
  ];
}

/** Open and planned work that was stored before a time, all of which needs an alarm. */
export function describeStoredWork(work: Lists, before: number): string[] {
  const { submissions, deliveries, approvals, runs } = work;
  const old = {
    ...work,
    submissions: submissions.filter(({ createdAt }) => createdAt < before),
    deliveries: deliveries.filter(({ createdAt }) => createdAt < before),
    runs: runs.filter(({ firedAt }) => firedAt < before),
    tasks: [],
    approvals: [],
  };
  const open = describeOpenWork(old, Number.POSITIVE_INFINITY);
  const decisions = approvals
    .filter(({ status, createdAt }) => status === "pending" && createdAt < before)
    .map(({ approvalId }) => `W2 approval ${approvalId} is open`);
  return [...open, ...decisions];
}

export function isoTime(time: number): string {
  return new Date(time).toISOString();
}

/** The work of an object. Lists are empty where the object does not have the capability. Times are epoch milliseconds. */
export type WorkInspection = {
  /** Unfinished work, one line each, beginning with the number of its guarantee. Empty for an idle object. */
  readonly open: readonly string[];
  /** Open and ended submissions, newest first. */
  readonly submissions: readonly SubmissionInspection[];
  /** Waiting deliveries, dead letters, and delivered or discarded ones that are kept, newest first. */
  readonly deliveries: readonly DeliveryInfo[];
  /** Webhook URLs that are not healthy. */
  readonly endpoints: readonly Endpoint[];
  /** Open and decided approvals, newest first. */
  readonly approvals: readonly Approval[];
  /** Declared tasks, by id. */
  readonly tasks: readonly ScheduledTaskInfo[];
  /** Runs of these tasks. */
  readonly runs: readonly ScheduledRun[];
  /** The log of inbound events, newest first. */
  readonly inbound: readonly LoggedArrival[];
  /** When the alarm of the object is due; null without one. */
  readonly alarm: number | null;
  /** True when a list has more than `limit` items; the rest was not read. */
  readonly isCut: boolean;
};
