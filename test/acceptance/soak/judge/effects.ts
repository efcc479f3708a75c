/** Effects of tools at the receiver, and results that the model has read. */

import { countEffects, isExpectedOutcome } from "../plans.ts";
import type { Records } from "../records.ts";
import type { ToolStep } from "../words.ts";
import type { Evidence, Finding } from "./evidence.ts";
import { rowsById } from "./submissions.ts";

/** The calls of one key: planned ones, and whether all of them must have happened. */
type Planned = {
  readonly key: string;
  readonly agent: string;
  readonly times: number;
  readonly isDurable: boolean;
  readonly isComplete: boolean;
};

export function effectFindings(evidence: Evidence): Finding[] {
  const { records } = evidence;
  const steps = Map.groupBy(records.steps, ({ key }) => key);
  return [
    ...plannedEffects(evidence).flatMap((planned) =>
      planned.isDurable
        ? chargeFindings(planned, steps.get(planned.key) ?? [])
        : callFindings(planned, records),
    ),
    ...forgottenResults(records),
  ];
}

function plannedEffects(evidence: Evidence): Planned[] {
  const { entries, records, platform } = evidence;
  const rows = rowsById(evidence);
  const merged = new Set([...rows.values()].flatMap(({ mergedInto }) => mergedInto ?? []));
  return entries.flatMap((entry): Planned[] => {
    const { agent } = entry;
    const all = (planned: ReadonlyMap<string, number>, isDurable: boolean, isComplete: boolean) =>
      [...planned].map(([key, times]) => ({ key, agent, times, isDurable, isComplete }));
    if (entry.kind === "workflow") {
      const outcomes = [...(records.outcomes.get(entry.id)?.keys() ?? [])];
      const isComplete =
        /^complete/.test(platform[entry.id] ?? "") &&
        outcomes.some((outcome) => isExpectedOutcome(JSON.parse(outcome), entry.expected));
      return [...all(entry.planned, false, false), ...all(entry.charges, true, isComplete)];
    }
    if (entry.kind === "put" || entry.ask === undefined) return [];
    const ids =
      entry.kind === "submission"
        ? [...entry.submissionIds, ...entry.retriedIds]
        : [...(records.arrived.get(entry.id) ?? [])];
    const isComplete = ids.some((id) => {
      const row = rows.get(id);
      // A turn that others have joined follows the script of the last one.
      return row?.status === "completed" && row.mergedInto === null && !merged.has(id);
    });
    const { effects, tool } = entry.ask;
    return all(countEffects(effects), tool === "charge", isComplete);
  });
}

/** Calls of an ordinary tool: maximum the number that the model has made. */
function callFindings({ key, agent, times }: Planned, { effects }: Records): Finding[] {
  const ran = effects.get(key) ?? 0;
  if (ran <= times) return [];
  const what = `of ${agent}: ran ${ran} times, planned ${times}`;
  return [{ kind: "effects run twice", id: key, what }];
}

/** Calls of a durable tool: each step under one key, exactly once where its turn has completed. */
function chargeFindings(
  { key, agent, times, isComplete }: Planned,
  steps: readonly ToolStep[],
): Finding[] {
  const findings: Finding[] = [];
  const found = (what: string) =>
    findings.push({ kind: "effects run twice", id: key, what: `of ${agent}: ${what}` });
  for (const step of ["take", "note"] as const) {
    const keys = new Set(steps.filter((one) => one.step === step).map((one) => one.idempotencyKey));
    if (keys.size > times) found(`${step} under ${keys.size} keys, planned ${times}`);
    if (isComplete && keys.size < times) {
      const what = `of ${agent}: ${step} under ${keys.size} keys, planned ${times}`;
      findings.push({ kind: "lost", id: key, what });
    }
  }
  /** The key of the `take` that drew each token. */
  const takes = new Map<string, string>();
  /** The token that each call has passed on: its `take` is finished then. */
  const finished = new Map<string, string>();
  const noted = new Map<string, string>();
  for (const { step, idempotencyKey, token } of steps) {
    if (step === "take") {
      const passedOn = finished.get(idempotencyKey);
      if (passedOn !== undefined) found(`take ran again after its result ${passedOn} was used`);
      takes.set(token, idempotencyKey);
      continue;
    }
    const before = noted.get(idempotencyKey);
    if (before !== undefined && before !== token) found(`note has the results ${before}, ${token}`);
    noted.set(idempotencyKey, token);
    const take = takes.get(token);
    if (take === undefined) found(`note has the result ${token}, which no take has drawn`);
    else finished.set(take, token);
  }
  return findings;
}

/** Results of finished calls that the model has read, and that a later attempt has not found again. */
function forgottenResults({ readings }: Pick<Records, "readings">): Finding[] {
  const findings: Finding[] = [];
  const known = new Map<string, string[]>();
  for (const { text, results } of readings) {
    for (const [key, own] of Map.groupBy(results, ([key]) => key)) {
      const before = known.get(`${text} ${key}`) ?? [];
      for (const [index, [, result]] of own.entries()) {
        const earlier = before[index];
        const isForgotten = earlier !== undefined && isResult(earlier) && earlier !== result;
        if (isForgotten) {
          const what = `the model has read ${earlier} and later ${result}, in the turn of ${text}`;
          findings.push({ kind: "forgotten", id: key, what });
        } else before[index] = result;
      }
      known.set(`${text} ${key}`, before);
    }
  }
  return findings;
}

function isResult(result: string): boolean {
  return /^"?(done|charged) /.test(result);
}
