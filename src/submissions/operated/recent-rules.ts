/** What can be wrong with submissions that do not fail, and with the storage. One function for each cause. */

import { at, idsOf, line } from "../../engine/operated/text.ts";
import type { RecentSubmission } from "../recent.ts";
import type { Rule } from "./rules.ts";

/** Fewer are accidents of a model, whatever their share. */
const FEW = 5;
/** A model answers nothing, or is cut off, now and then; one of ten has a cause. */
const BAD_SHARE = 0.1;
/** A schema that suits its model is met nearly always. */
const REPAIRED_SHARE = 0.25;
/** A tool refuses what models try now and then; more than a fifth has a cause. */
const FAILED_SHARE = 0.2;
/** Latest calls of a model, compared with twice as many before them. */
const SLOW_OF = 20;
/** A model whose p95 grew by less may just have longer answers. */
const SLOW_FACTOR = 3;
/** Nobody waits for less. */
const SLOW_MS = 5_000;
/** A quarter of these is {@link FEW}. They are compared with those before them. */
const RETRIED_OF = 20;
/** Later, what has caused it is over. */
const RETRIED_MS = 3_600_000;
/** https://developers.cloudflare.com/durable-objects/platform/limits/ */
const MOST_BYTES = 10e9;
const NEAR_LIMIT = 0.8;
const AT_LIMIT = 0.95;
/** Retention keeps as many by default. */
const MANY_KEPT = 100_000;

const sumOf = (numbers: readonly number[]) => numbers.reduce((sum, one) => sum + one, 0);

const hasEnded = ({ settledAt }: RecentSubmission) => settledAt !== null;
const firstEnd = (some: readonly RecentSubmission[]) =>
  Math.min(...some.map(({ settledAt }) => settledAt ?? Number.POSITIVE_INFINITY));
const linkTo = ([id = ""]: readonly string[]) => ({ view: "submissions", id });

/** Completed submissions whose answers are no whole answers. */
const badAnswers =
  (
    code: "answers-empty" | "answers-partial",
    isBad: (one: RecentSubmission) => boolean,
    what: string,
    { cause, fix }: { cause: string; fix: string },
  ): Rule =>
  ({ recent }, now) => {
    const completed = recent.newest.filter(({ status }) => status === "completed");
    const bad = completed.filter(isBad);
    const { length: count } = bad;
    if (count < FEW || count < BAD_SHARE * completed.length) return [];
    const since = firstEnd(bad);
    const ids = idsOf(bad);
    return [
      {
        code,
        severity: "warning",
        title: `${count} of the latest ${completed.length} completed submissions have ${what}, the first since ${at(since, now)}.`,
        evidence: { count, since, ids },
        cause: `${cause}, the latest with the finish reason "${bad[0]?.finishReason}".`,
        fix: { text: fix },
        link: linkTo(ids),
      },
    ];
  };

const answersEmpty = badAnswers("answers-empty", ({ isEmpty }) => isEmpty, "an empty answer", {
  cause: "The model ended its turns without a text and without a call of a tool",
  fix: 'Raise the output limit for "length", look at the content filter, or correct a prompt that asks for nothing. Then submit again what matters.',
});

const answersPartial = badAnswers(
  "answers-partial",
  ({ isPartial }) => isPartial,
  "a partial answer",
  {
    cause: "The model ended its answers before they were whole",
    fix: 'Raise the output limit for "length", or look at the content filter. Then submit again what matters.',
  },
);

const answersRepaired: Rule = ({ recent }, now) => {
  const asked = recent.newest.filter((one) => one.hasSchema && hasEnded(one));
  const repaired = asked.filter(({ repairs }) => repairs);
  const { length: count } = repaired;
  if (count < FEW || count < REPAIRED_SHARE * asked.length) return [];
  const repairs = repaired.flatMap((one) => one.repairs ?? []);
  const [{ error: lastError } = { error: "" }] = repairs;
  const tokens = sumOf(repairs.map((one) => one.tokens));
  const since = firstEnd(repaired);
  const ids = idsOf(repaired);
  return [
    {
      code: "answers-repaired",
      severity: "warning",
      title: `The model was asked ${sumOf(repairs.map((one) => one.count))} times more for its answer in ${count} of the latest ${asked.length} submissions with a schema, since ${at(since, now)}; ${tokens} tokens went into refused answers.`,
      evidence: { count, since, ids, lastError },
      cause: `Its answers do not match the schema: ${line(lastError)}`,
      fix: {
        text: "Simplify the schema or describe its fields, or use another model or strategy.",
      },
      link: linkTo(ids),
    },
  ];
};

const toolFails: Rule = ({ recent }, now) =>
  recent.tools
    .filter(({ calls, failed }) => failed >= FEW && failed > FAILED_SHARE * calls)
    .map(({ tool, calls, failed: count, since, error: lastError, ids }) => ({
      code: "tool-fails",
      about: tool,
      severity: "warning",
      title: `The tool ${JSON.stringify(line(tool))} failed in ${count} of its latest ${calls} calls since ${at(since, now)}.`,
      evidence: { count, since, ids, lastError },
      cause: `The latest error is: ${line(lastError)}`,
      fix: {
        text: "Correct the tool, or its description if the model calls it wrongly. The model has seen each error, so look at what its answers say.",
      },
      link: linkTo(ids),
    }));

const modelSlow: Rule = ({ recent }, now) =>
  [...Map.groupBy(recent.modelCalls, ({ model }) => model)].flatMap(([model, calls]) => {
    const [latest, before] = [calls.slice(0, SLOW_OF), calls.slice(SLOW_OF, 3 * SLOW_OF)];
    const [p95, usual] = [latest, before].map(getP95) as [number, number];
    const isSlow = p95 >= SLOW_MS && p95 > SLOW_FACTOR * usual;
    if (before.length < 2 * SLOW_OF || !isSlow) return [];
    const slow = latest.filter(({ durationMs }) => durationMs > SLOW_FACTOR * usual);
    const since = Math.min(...slow.map(({ startedAt }) => startedAt));
    const ids = [...new Set(slow.map(({ submissionId }) => submissionId))].slice(0, 10);
    return [
      {
        code: "model-slow",
        about: model,
        severity: "warning",
        title: `The model ${line(model)} is slow since ${at(since, now)}: p95 of its latest ${SLOW_OF} calls is ${seconds(p95)}, and was ${seconds(usual)}.`,
        evidence: { count: slow.length, since, ids },
        cause: "Its provider is slow, or prompts and answers have grown.",
        fix: {
          text: "Compare the tokens of its calls in the traces. If they have not grown, look at the provider's status, or use another model.",
        },
        link: linkTo(ids),
      },
    ];
  });

const seconds = (ms: number) => `${(ms / 1_000).toFixed(1)} s`;

function getP95(calls: readonly { readonly durationMs: number }[]): number {
  const sorted = calls.map(({ durationMs }) => durationMs).toSorted((one, other) => one - other);
  return sorted[Math.ceil(0.95 * sorted.length) - 1] ?? 0;
}

const retriesGrow: Rule = ({ recent }, now) => {
  // Submissions that ended with an error have a finding of their own.
  const tried = recent.newest.filter(
    (one) => one.status !== "error" && (one.retries || hasEnded(one)),
  );
  const isRetried = ({ retries }: RecentSubmission) => retries !== undefined;
  const retried = tried.slice(0, RETRIED_OF).filter(isRetried);
  const { length: count } = retried;
  const retries = retried.flatMap((one) => one.retries ?? []);
  const [first] = retries.toSorted((one, other) => other.at - one.at);
  if (count < FEW || !first || now - first.at >= RETRIED_MS) return [];
  const before = tried.slice(RETRIED_OF);
  const ids = idsOf(retried);
  return [
    {
      code: "retries-grow",
      severity: "warning",
      title: `${count} of the latest ${Math.min(tried.length, RETRIED_OF)} submissions were retried, ${sumOf(retries.map((one) => one.count))} times; of the ${before.length} before them, ${before.filter(isRetried).length} were.`,
      evidence: {
        count,
        since: Math.min(...retries.map((one) => one.at)),
        ids,
        lastError: first.error,
      },
      cause: `The latest error is: ${line(first.error)}`,
      fix: {
        text: "Correct what the error names, or add a model to fall back to: submissions fail when their attempts are used up.",
      },
      link: linkTo(ids),
    },
  ];
};

const storageGrows: Rule = ({ storage: { bytes, submissions }, limits }) => {
  const share = bytes / MOST_BYTES;
  const isKept = limits.maxAgeMs === Infinity && limits.maxCount === Infinity;
  if (share < NEAR_LIMIT && !(isKept && submissions >= MANY_KEPT)) return [];
  return [
    {
      code: "storage-grows",
      severity: share >= AT_LIMIT ? "error" : "warning",
      title: `The agent stores ${(bytes / 1e9).toFixed(1)} GB, of at most 10, and ${submissions} submissions.`,
      evidence: { count: submissions, ids: [] },
      cause: isKept
        ? "Retention is off: retention.maxAge and maxCount are Infinity."
        : "The app's own tables, conversations, or what retention keeps are large.",
      fix: {
        text: "Lower retention, or delete what is not needed, e.g. with deleteSubmissions(). At 10 GB, each write fails.",
      },
      link: { view: "submissions" },
    },
  ];
};

export const RECENT_RULES: readonly Rule[] = [
  answersEmpty,
  answersPartial,
  answersRepaired,
  toolFails,
  modelSlow,
  retriesGrow,
  storageGrows,
];
