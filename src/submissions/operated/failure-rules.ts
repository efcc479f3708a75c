/** What can be wrong with submissions that fail. One function for each cause. */

import { at, earliestOf, line, plural, someIds, sumOf, verb } from "../../engine/operated/text.ts";
import type { FailedSubmissions } from "../facts.ts";
import { type Finding, isDelayedRetry, type Rule } from "./rules.ts";

/** One crash or two can be deploys. Three of the same turn are caused by it. */
const POISON_CRASHES = 3;
/** As many failures are no accident of one submission. */
const MANY_FAILURES = 3;

const BUDGET = "BudgetExceededError";
const INTERRUPTED = "TurnInterruptedError";

const isRateLimited = ({ failure }: Pick<FailedSubmissions, "failure">) =>
  failure?.code === "rate-limited";
const isWithoutCredit = ({ failure }: Pick<FailedSubmissions, "failure">) =>
  failure?.code === "no-credit";

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
      title: `The model refuses ${plural(count, "submission")} since ${at(since, now)} because of its rate limit (429): ${[...retried, ...gone].join(", ")}.`,
      evidence: { count, since, ids: someIds(all), lastError: first.error },
      cause: "The account of the model's provider has used up its requests or tokens of a time.",
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

const modelNoCredit: Rule = ({ failed }, now) => {
  const ended = failed.filter(isWithoutCredit);
  const [first] = ended;
  if (!first) return [];
  const since = earliestOf(ended);
  const count = sumOf(ended);
  const finding: Finding = {
    code: "model-no-credit",
    severity: "error",
    title: `The account at the model's provider has no credit left: ${plural(count, "submission")} ended with it since ${at(since, now)}.`,
    evidence: { count, since, ids: someIds(ended), lastError: first.error },
    cause: "The account has used up its credit or its spending limit. No retry helps.",
    fix: {
      text: "First add credit or raise the spending limit at the provider, or use another model, then retry those that ended.",
      action: retryAll(ended),
    },
    link: { view: "submissions", filter: "status:error" },
  };
  return [finding];
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

const budgetUsedUp: Rule = ({ failed }) => {
  const ended = failed.filter(({ errorName }) => errorName === BUDGET);
  if (ended.length === 0) return [];
  const count = sumOf(ended);
  const finding: Finding = {
    code: "budget-used-up",
    about: "budget",
    severity: "error",
    title: `The budget of submissions is used up, and ${plural(count, "submission")} ended because of it.`,
    evidence: {
      count,
      since: earliestOf(ended),
      lastError: ended[0]?.error ?? "",
      ids: someIds(ended),
    },
    cause: "They needed more tokens or dollars than their option budget allows.",
    fix: { text: "Submit them with a higher budget; a retry has the same one." },
    link: { view: "submissions", filter: "status:error" },
  };
  return [finding];
};

const failingSubmissions: Rule = ({ failed, hourly }, now) => {
  const others = failed.filter(
    (one) =>
      !isRateLimited(one) &&
      !isWithoutCredit(one) &&
      one.errorName !== BUDGET &&
      one.errorName !== INTERRUPTED,
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

export const FAILURE_RULES: readonly Rule[] = [
  modelRateLimited,
  modelNoCredit,
  poisonTurn,
  budgetUsedUp,
  failingSubmissions,
];
