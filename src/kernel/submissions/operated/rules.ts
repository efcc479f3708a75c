/** What can be wrong with submissions. One function for each cause. */

import type * as operated from "../../../core/operated/part.ts";
import {
  at,
  earliestOf,
  idsOf,
  line,
  plural,
  someIds,
  sumOf,
  verb,
} from "../../../core/operated/text.ts";
import type { FailedSubmissions, OpenSubmission, SubmissionFacts } from "../facts.ts";
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
/** One crash or two can be deploys. Three of the same turn are caused by it. */
const POISON_CRASHES = 3;
/** As many failures are no accident of one submission. */
const MANY_FAILURES = 3;

const BUDGET = "BudgetExceededError";
const INTERRUPTED = "TurnInterruptedError";

type Finding = operated.Finding<keyof typeof FINDINGS, Action>;
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
    // Submissions behind a retry wait for it: the first one says whether the thread is late.
    const first = turns.find((one) => one.attempts > 0 || isReady(one, now));
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
function isDelayedRetry({ status, attempts, dueAt }: OpenSubmission, now: number): boolean {
  return status === "pending" && attempts > 0 && (dueAt ?? 0) - now > LONG_RETRY_MS;
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
            "A turn of this thread has failed and is retried later, often because its provider asked to wait; the turns behind it keep their order.",
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

const isRateLimited = ({ failure }: Pick<FailedSubmissions, "failure">) =>
  failure?.code === "rate-limited";

const modelRateLimited: Rule = ({ open, failed }, now) => {
  const waiting = open.flatMap((one) =>
    one.failed && isRateLimited(one.failed)
      ? [{ ...one.failed, count: 1, since: one.failed.at, ids: [one.submissionId] }]
      : [],
  );
  const ended = failed.filter(isRateLimited);
  const isLasting =
    waiting.length >= MANY_FAILURES ||
    open.some(
      (one) =>
        one.failed &&
        isRateLimited(one.failed) &&
        (one.attempts >= MANY_FAILURES || isDelayedRetry(one, now)),
    );
  const all = [...waiting, ...ended];
  const [first] = all;
  if (!first) return [];
  const since = earliestOf(all);
  const count = sumOf(all);
  const retried =
    waiting.length > 0 ? [`${waiting.length} ${verb(waiting.length, "is", "are")} retried`] : [];
  const gone = ended.length > 0 ? [`${sumOf(ended)} ended with it`] : [];
  return [
    {
      code: "model-rate-limited",
      // A retry or two are ordinary.
      severity: ended.length > 0 ? "error" : isLasting ? "warning" : "info",
      title: `The model refuses ${plural(count, "submission")} since ${at(since, now)} because of its rate limit or quota (429): ${[...retried, ...gone].join(", ")}.`,
      evidence: { count, since, ids: someIds(all), lastError: first.error },
      cause: "The account of the model's provider has used up its requests, tokens or credit.",
      fix: {
        text: `${[
          `First raise the limit at the provider, use another model, or lower maxConcurrentTurns${ended.length > 0 ? ", then retry those that ended" : ""}.`,
          ...(waiting.length > 0 ? ["Those that have not ended are retried by themselves."] : []),
        ].join(" ")}`,
        ...(ended.length > 0 && { action: retryAll(ended) }),
      },
      link: { view: "submissions", filter: ended.length > 0 ? "status:error" : "status:pending" },
    },
  ];
};

const poisonTurn: Rule = ({ open, failed }, now) => {
  const crashing = open.filter(({ crashes }) => crashes >= POISON_CRASHES);
  const ended = failed.filter(({ errorName }) => errorName === INTERRUPTED);
  const findings = crashing.map(
    ({ submissionId, crashes, createdAt, thread }): Finding => ({
      code: "poison-turn",
      about: submissionId,
      severity: "error",
      title: `The submission ${submissionId} of the thread ${JSON.stringify(line(thread))} was interrupted ${crashes} times since ${at(createdAt, now)}.`,
      evidence: { count: crashes, since: createdAt, ids: [submissionId] },
      cause: "Its turn crashes the agent, e.g. because it needs more than 128 MB of memory.",
      fix: {
        text: "Cancel it, and correct the tool or the messages that crash the agent.",
        action: { do: "cancel", submissionId },
      },
      link: { view: "submissions", id: submissionId },
    }),
  );
  if (ended.length === 0) return findings;
  const count = sumOf(ended);
  const since = earliestOf(ended);
  const ofEnded: Finding = {
    code: "poison-turn",
    severity: "error",
    title: `${plural(count, "submission")} ended since ${at(since, now)} because ${verb(count, "its turn was", "their turns were")} interrupted.`,
    evidence: { count, since, ids: someIds(ended), lastError: ended[0]?.error ?? "" },
    cause: "The agent crashed in each attempt, or after tools with effects had run.",
    fix: {
      text: "First look at what the tools of each did, then retry it or leave it.",
      // No action for several: that is a decision for each.
      ...(count === 1 && {
        action: { do: "retry", submissionId: someIds(ended)[0] ?? "" } as const,
      }),
    },
    link: { view: "submissions", filter: "status:error" },
  };
  return [ofEnded, ...findings];
};

const budgetUsedUp: Rule = ({ failed, tokensToday, limits }) => {
  const isUsedUp = tokensToday >= limits.tokensPerDay;
  const ended = failed.filter(({ errorName }) => errorName === BUDGET);
  const [ofDay, own] = [true, false].map((is) =>
    ended.filter(({ failure }) => (failure?.code === "budget-of-day") === is),
  ) as [FailedSubmissions[], FailedSubmissions[]];
  const finding = (
    some: FailedSubmissions[],
    used: string,
    rest: Pick<Finding, "about" | "cause" | "fix">,
  ) => {
    const count = sumOf(some);
    const stopped = count === 0 ? "" : `, and ${plural(count, "submission")} ended because of it`;
    return {
      code: "budget-used-up",
      severity: "error",
      title: `${used}${stopped}.`,
      evidence: {
        count,
        ...(count > 0 && { since: earliestOf(some), lastError: some[0]?.error ?? "" }),
        ids: someIds(some),
      },
      ...rest,
      link: { view: "submissions", filter: "status:error" },
    } satisfies Finding;
  };
  const today = isUsedUp
    ? `${tokensToday} of ${limits.tokensPerDay} tokens of today (UTC) are used up`
    : "The tokens of a day (UTC) were used up";
  const ofDays = finding(ofDay, today, {
    cause: `From then on, submissions end with ${BUDGET} before their next model call.`,
    fix: {
      text: isUsedUp
        ? "First raise budget.tokensPerDay, or wait for the next day (UTC), then retry those that ended."
        : "Retry those that ended: today (UTC) has tokens left.",
      ...(ofDay.length > 0 && { action: retryAll(ofDay) }),
    },
  });
  const ofOwn = finding(own, "The token budget of submissions is used up", {
    about: "budget.tokens",
    cause: "They needed more tokens than their option budget.tokens allows.",
    fix: { text: "Submit them with a higher budget.tokens; a retry has the same budget." },
  });
  return [...(isUsedUp || ofDay.length > 0 ? [ofDays] : []), ...(own.length > 0 ? [ofOwn] : [])];
};

const failingSubmissions: Rule = ({ failed, hourly }, now) => {
  const others = failed.filter(
    (one) => !isRateLimited(one) && one.errorName !== BUDGET && one.errorName !== INTERRUPTED,
  );
  const completed = hourly.completed.reduce((sum, count) => sum + count, 0);
  const all = sumOf(others);
  return others.map((one): Finding => {
    const { count, since, error, errorName, ids, cause } = one;
    return {
      code: "failing-submissions",
      about: cause,
      severity: all >= MANY_FAILURES || completed < count ? "error" : "warning",
      title: `${plural(count, "submission")} ended with ${line(errorName)} since ${at(since, now)}; ${completed} completed in the last 24 hours.`,
      evidence: { count, since, ids, lastError: error },
      cause: `The latest error is: ${line(error)}`,
      fix: {
        text: `First correct what the error names, then retry ${verb(count, "it", "them")}.`,
        action: retryAll([one]),
      },
      link: { view: "submissions", filter: "status:error" },
    };
  });
};

/** Causes that a filter takes. */
const MOST_CAUSES = 20;

/** All that failed with the same causes since the first of them was accepted. */
function retryAll(groups: readonly FailedSubmissions[]) {
  const createdAfter = Math.min(...groups.map(({ createdAt }) => createdAt));
  const cause = groups
    .toSorted((one, other) => other.count - one.count)
    .slice(0, MOST_CAUSES)
    .map((one) => one.cause);
  return { do: "retry", filter: { status: "error", createdAfter, cause } } as const;
}

export const SUBMISSION_RULES: readonly Rule[] = [
  backlog,
  backlogNearLimit,
  workDoesNotStart,
  turnHangs,
  threadStuck,
  modelRateLimited,
  poisonTurn,
  budgetUsedUp,
  failingSubmissions,
];
