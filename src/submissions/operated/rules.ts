/** What can keep submissions from starting or from ending. One function for each cause. */

import type * as operated from "../../engine/operated/part.ts";
import { at, idsOf, line, plural, verb } from "../../engine/operated/text.ts";
import type { OpenSubmission, SubmissionFacts } from "../facts.ts";
import type { Action, FINDINGS } from "./catalog.ts";

/** Fewer pending turns are the usual queue of a busy agent. */
const BACKLOG_COUNT = 20;
/** A person who waits for an answer has given up by then. */
const BACKLOG_MS = 2 * 60_000;
/** Leaves time to act before `submitMessages()` refuses work. */
const NEAR_LIMIT = 0.8;
/** A ready turn starts at once. After a failed storage call it starts 30 s later; four times that is a fault. */
const NOT_STARTED_MS = 2 * 60_000;
/** A model that streams shows progress every few seconds, and most tools end sooner. */
const NO_PROGRESS_MS = 60_000;
/** No model call and hardly a tool takes so long. */
const HANGS_MS = 10 * 60_000;
/** The longest backoff by default is 5 minutes: a longer delay was asked for by a provider. */
const LONG_RETRY_MS = 5 * 60_000;

export type Finding = operated.Finding<keyof typeof FINDINGS, Action>;
export type Rule = operated.Rule<SubmissionFacts, Finding>;

/** Pending, and its time has come: nothing but the turns before it may hold it up. */
function isReady({ status, dueAt }: OpenSubmission, now: number): boolean {
  return status === "pending" && (dueAt ?? 0) <= now;
}

function readySince({ createdAt, dueAt }: OpenSubmission): number {
  return Math.max(createdAt, dueAt ?? 0);
}

const runningIn = (open: readonly OpenSubmission[]) =>
  open.filter(({ status }) => status === "running");

const backlog: Rule = ({ open }, now) => {
  const ready = open.filter((one) => isReady(one, now));
  const since = Math.min(...ready.map(readySince));
  if (ready.length < BACKLOG_COUNT || now - since < BACKLOG_MS) return [];
  const threads = Map.groupBy(ready, ({ thread }) => thread);
  const [thread, waiting = []] =
    [...threads].sort(([, one], [, other]) => other.length - one.length)[0] ?? [];
  const isOne = waiting.length > ready.length / 2;
  return [
    {
      code: "backlog",
      severity: "warning",
      title: `${ready.length} submissions in ${plural(threads.size, "thread")} wait for their turn, the first since ${at(since, now)}.`,
      evidence: { count: ready.length, since, ids: idsOf(ready) },
      cause: isOne
        ? `Turns of a thread run one after the other, and the thread ${JSON.stringify(thread)} has ${waiting.length} of them.`
        : "More work is accepted than the turns that run at the same time can do.",
      fix: {
        text: isOne
          ? "Use more threads, or list those that are pending, and cancel what is no longer needed."
          : "Raise maxConcurrentTurns, or list those that are pending, and cancel what is no longer needed.",
        // No action: what waits was accepted, and most of it is wanted.
      },
      link: { view: "submissions", filter: "status:pending" },
    },
  ];
};

const backlogNearLimit: Rule = ({ counts, open, limits }) => {
  const { pending } = counts;
  if (pending < NEAR_LIMIT * limits.maxPending) return [];
  const isFull = pending >= limits.maxPending;
  const waiting = open.filter(({ status }) => status === "pending");
  return [
    {
      code: "backlog-near-limit",
      severity: isFull ? "error" : "warning",
      title: `${pending} submissions are pending, and at most ${limits.maxPending} may be.`,
      evidence: { count: pending, ids: idsOf(waiting) },
      cause: isFull
        ? "submitMessages() throws BacklogFullError until some of them have ended."
        : "At the limit, submitMessages() throws BacklogFullError.",
      fix: {
        text: "Raise maxPending, or list those that are pending, and cancel what is no longer needed.",
      },
      link: { view: "submissions", filter: "status:pending" },
    },
  ];
};

const workDoesNotStart: Rule = ({ open, limits }, now) => {
  const running = runningIn(open);
  // Without a free slot they wait for one: that is a backlog.
  if (running.length >= limits.maxConcurrentTurns) return [];
  const busy = new Set(running.map(({ thread }) => thread));
  const isLate = (one: OpenSubmission) =>
    isReady(one, now) && now - readySince(one) >= NOT_STARTED_MS;
  const stuck = [...Map.groupBy(open, ({ thread }) => thread)].flatMap(([thread, turns]) => {
    // Submissions behind a retry, or behind one that waits for a limit, wait for it: the first one says whether the thread is late.
    const first = turns.find((one) => one.attempts > 0 || one.isLimited || isReady(one, now));
    return first && isLate(first) && !busy.has(thread) ? turns.filter(isLate) : [];
  });
  if (stuck.length === 0) return [];
  const since = Math.min(...stuck.map(readySince));
  const count = stuck.length;
  return [
    {
      code: "work-does-not-start",
      severity: "error",
      title: `${plural(count, "submission")} ${verb(count, "is", "are")} ready since ${at(since, now)} and ${verb(count, "does", "do")} not start, though ${limits.maxConcurrentTurns - running.length} more turns may run.`,
      evidence: { count, since, ids: idsOf(stuck) },
      cause: "The agent has lost its wake, or a call of its storage has failed and is retried.",
      fix: {
        text: "Deploy the Worker again: each start of the agent reads the queue. Its log has lines that begin with [perdure].",
      },
      link: { view: "submissions", filter: "status:pending" },
    },
  ];
};

/** Waits for its next attempt, longer than a backoff lasts, and keeps its thread closed. */
export function isDelayedRetry(one: OpenSubmission, now: number): boolean {
  const { status, attempts, dueAt, isLimited } = one;
  return status === "pending" && !isLimited && attempts > 0 && (dueAt ?? 0) - now > LONG_RETRY_MS;
}

const threadStuck: Rule = ({ open }, now) => {
  const ready = Map.groupBy(
    open.filter((one) => isReady(one, now)),
    ({ thread }) => thread,
  );
  return open
    .filter((one) => isDelayedRetry(one, now))
    .flatMap((head) => {
      const { thread, submissionId, dueAt, failed } = head;
      const behind = ready.get(thread) ?? [];
      if (behind.length === 0) return [];
      const since = Math.min(...behind.map(readySince));
      return [
        {
          code: "thread-stuck",
          about: thread,
          severity: "warning",
          title: `${plural(behind.length, "submission")} of the thread ${JSON.stringify(line(thread))} ${verb(behind.length, "waits", "wait")} since ${at(since, now)} for a retry at ${at(dueAt ?? now, now)}.`,
          evidence: {
            count: behind.length,
            since,
            ids: [submissionId, ...idsOf(behind)].slice(0, 10),
            ...(failed && { lastError: failed.error }),
          },
          cause:
            "A turn of this thread has failed and is retried later; the turns behind it keep their order.",
          fix: {
            text: `Cancel the submission ${submissionId}, so that the next one starts.`,
            action: { do: "cancel", submissionId },
          },
          link: { view: "submissions", id: submissionId },
        } satisfies Finding,
      ];
    });
};

const turnHangs: Rule = ({ open, limits }, now) => {
  const limit = Math.min(NO_PROGRESS_MS, limits.stallTimeoutMs);
  const silent = runningIn(open).filter((one) => now - progressOf(one, now) >= limit);
  return [...Map.groupBy(silent, ({ thread }) => thread)].flatMap(([thread, turns]) => {
    const [first] = turns.toSorted((one, other) => progressOf(one, now) - progressOf(other, now));
    if (!first) return [];
    const since = progressOf(first, now);
    const count = turns.length;
    const { submissionId } = first;
    return [
      {
        code: "turn-hangs",
        about: thread,
        severity: now - since >= HANGS_MS ? "error" : "warning",
        title: `${plural(count, "turn")} of the thread ${JSON.stringify(line(thread))} ${verb(count, "runs", "run")} without progress since ${at(since, now)}.`,
        evidence: { count, since, ids: idsOf(turns) },
        cause: "The model or a tool does not answer.",
        fix: {
          text: `Cancel the submission ${submissionId} and retry it. Without that it ends with TurnStalledError after stallTimeout.`,
          action: { do: "cancel", submissionId },
        },
        link: { view: "submissions", id: submissionId },
      } satisfies Finding,
    ];
  });
};

const progressOf = ({ progressAt }: OpenSubmission, now: number) => progressAt ?? now;

export const START_RULES: readonly Rule[] = [
  backlog,
  backlogNearLimit,
  workDoesNotStart,
  turnHangs,
  threadStuck,
];
