/**
 * The health report of an agent: its parts read their facts from rows, their rules turn them into findings, and findings
 * answer the four questions. Never throws.
 */

import { failureOf } from "../../core/failures.ts";
import type { Question } from "../../engine/operated/catalog.ts";
import type { Summary } from "../../engine/operated/part.ts";
import { readAlarmState } from "../../engine/wake.ts";
import type { FindingCode } from "../catalog.ts";
import { COUNTS, FINDINGS } from "../data.generated.ts";
import type { OperatedAgent } from "../operated.ts";
import { PARTS, type Part } from "../parts.ts";
import type { AgentReport, Finding, Severity } from "../protocol.ts";
import { ALARM_RULES } from "./alarms.ts";

/** Findings with the same code: those that concern most. */
export const MOST_PER_CODE = 20;

const ORDER: readonly Severity[] = ["error", "warning", "info"];
const QUESTIONS: readonly Question[] = ["starts", "succeeds", "delivers", "onTime"];
const NO_ENDS = {
  hourly: { completed: Array(24).fill(0), failed: Array(24).fill(0) },
  countedFrom: undefined,
};

/** What the report knows, and the parts that could not be read or judged. */
class Reading {
  readonly findings: Finding[] = [];
  readonly summaries: Summary[] = [];
  readonly broken: { readonly name: string; readonly error: string }[] = [];
  /** The questions that a broken part leaves without an answer. */
  readonly unknown = new Set<Question>();

  /** A part that throws is left out. */
  async of(part: Pick<Part, "name" | "answers" | "read">, operated: OperatedAgent, now: number) {
    try {
      const read = await part.read(operated, now);
      if (!read) return;
      this.summaries.push(read.summary);
      for (const rule of read.rules) this.#judge(part, rule);
    } catch (error) {
      this.#isBroken(part, error);
    }
  }

  #judge(part: Pick<Part, "name" | "answers">, rule: () => readonly Finding[]): void {
    try {
      this.findings.push(...rule());
    } catch (error) {
      this.#isBroken(part, error);
    }
  }

  #isBroken({ name: part, answers }: Pick<Part, "name" | "answers">, error: unknown): void {
    console.error(`[perdure] the health report has no ${part}:`, error);
    const { name, message } = failureOf(error);
    this.broken.push({ name: part, error: `${name}: ${message}`.slice(0, 500) });
    for (const question of answers) this.unknown.add(question);
  }
}

export async function healthReport(operated: OperatedAgent): Promise<AgentReport> {
  const now = operated.clock.now();
  const reading = new Reading();
  await Promise.all(PARTS.map((part) => reading.of(part, operated, now)));
  const { summaries } = reading;
  await reading.of(alarmsOf(reading), operated, now);
  const findings = sorted([...reading.findings, ...reading.broken.map(incomplete)]);
  return {
    at: now,
    counts: Object.assign({}, COUNTS, ...summaries.map(({ counts }) => counts)),
    ...(summaries.find(({ ends }) => ends)?.ends ?? NO_ENDS),
    verdicts: verdictsOf(reading, findings),
    findings,
  };
}

/** The alarm is judged by the work of all parts. */
function alarmsOf({ summaries, broken }: Reading): Pick<Part, "name" | "answers" | "read"> {
  return {
    name: "alarms",
    answers: ["onTime"],
    async read(operated, now) {
      const { outbox } = operated.capabilities;
      await outbox.ready();
      const wake = await readAlarmState(outbox.loop.lifecycle);
      const since = Math.min(
        ...summaries.map(({ workSince = Number.POSITIVE_INFINITY }) => workSince),
      );
      const facts = {
        wake,
        // A part that could not be read may have work.
        isIdle: broken.length === 0 && !summaries.some(({ isBusy }) => isBusy),
        workSince: Number.isFinite(since) ? since : undefined,
      };
      return {
        rules: ALARM_RULES.map((rule) => () => rule(facts, now)),
        summary: { counts: {}, judges: [] },
      };
    },
  };
}

/** Errors first, and at most {@link MOST_PER_CODE} of each code. */
function sorted(findings: readonly Finding[]): Finding[] {
  const all = findings.toSorted(
    (one, other) =>
      ORDER.indexOf(one.severity) - ORDER.indexOf(other.severity) ||
      other.evidence.count - one.evidence.count,
  );
  const seen = new Map<FindingCode, number>();
  return all.filter(({ code }) => {
    const count = seen.get(code) ?? 0;
    seen.set(code, count + 1);
    return count < MOST_PER_CODE;
  });
}

function incomplete({ name: about, error }: Reading["broken"][number]): Finding {
  return {
    code: "report-incomplete",
    about,
    severity: "error",
    title: `The report knows nothing of the agent's ${about}: they could not be read.`,
    evidence: { count: 1, ids: [], lastError: error },
    cause:
      about === "scheduler"
        ? "getScheduledTasks() or another method of the app throws, or a row is corrupt."
        : "A method of the app throws, or a row is corrupt.",
    fix: { text: "Correct what the error names. The log of the agent has its stack." },
    link: { view: "overview" },
  };
}

/** An information makes no verdict false. Without anything to judge by, or without a part, there is none. */
function verdictsOf(
  { summaries, unknown }: Reading,
  findings: readonly Finding[],
): AgentReport["verdicts"] {
  const judged = new Set(summaries.flatMap(({ judges }) => judges));
  const no = new Set<Question | null>(
    findings.filter(({ severity }) => severity !== "info").map(({ code }) => FINDINGS[code]),
  );
  const verdicts = QUESTIONS.map((question) => [
    question,
    no.has(question) ? false : unknown.has(question) || !judged.has(question) ? undefined : true,
  ]);
  return Object.fromEntries(verdicts) as AgentReport["verdicts"];
}
