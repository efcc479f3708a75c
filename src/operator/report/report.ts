/**
 * The health report of an agent: its modules read their facts from their rows (src/<module>/facts.ts), rules turn them
 * into findings (rules/<module>.ts), and findings answer the four questions. Writes nothing, and never throws.
 */

import type { OperatedAgent } from "../operated.ts";
import type { AgentReport, Finding, Severity } from "../protocol.ts";
import { FINDINGS, type FindingCode, type Question } from "./codes.ts";
import { type BrokenPart, brokenPart, type Part, type ReportFacts, readFacts } from "./facts.ts";
import { ALARM_RULES } from "./rules/alarms.ts";
import { INBOUND_RULES } from "./rules/inbound.ts";
import { MCP_RULES } from "./rules/mcp.ts";
import { OUTBOX_RULES } from "./rules/outbox.ts";
import { RECENT_RULES } from "./rules/recent.ts";
import { SCHEDULER_RULES } from "./rules/scheduler.ts";
import { SUBMISSION_RULES } from "./rules/submissions.ts";
import { WAIT_RULES } from "./rules/waits.ts";
import { WORKFLOW_RULES } from "./rules/workflows.ts";

/** Findings with the same code: those that concern most. */
export const MOST_PER_CODE = 20;

const ORDER: readonly Severity[] = ["error", "warning", "info"];
const QUESTIONS: readonly Question[] = ["starts", "succeeds", "delivers", "onTime"];
const NO_HOURS = { completed: Array(24).fill(0), failed: Array(24).fill(0) };

/** Which questions cannot be answered without a part. */
const NEEDED_FOR: Readonly<Record<Part, readonly Question[]>> = {
  submissions: ["starts", "succeeds"],
  outbox: ["delivers"],
  inbound: ["starts"],
  waits: ["onTime"],
  scheduler: ["onTime"],
  workflows: ["succeeds"],
  mcp: ["succeeds"],
  alarms: ["onTime"],
};

export async function healthReport(operated: OperatedAgent): Promise<AgentReport> {
  const now = operated.clock.now();
  const { facts, broken } = await readFacts(operated, now);
  const findings = findingsIn(facts, broken, now);
  return {
    at: now,
    counts: countsOf(facts),
    hourly: facts.submissions?.hourly ?? NO_HOURS,
    countedFrom: facts.submissions?.countedFrom,
    verdicts: verdictsOf(facts, findings, broken),
    findings,
  };
}

/** Errors first, and at most {@link MOST_PER_CODE} of each code. */
function findingsIn(facts: ReportFacts, broken: BrokenPart[], now: number): Finding[] {
  const judge = <Facts>(
    part: Part,
    of: Facts | undefined,
    rules: readonly ((facts: Facts, now: number) => Finding[])[],
  ): Finding[] =>
    of === undefined
      ? []
      : rules.flatMap((rule) => {
          try {
            return rule(of, now);
          } catch (error) {
            broken.push(brokenPart(part, error));
            return [];
          }
        });
  const found = [
    ...judge("submissions", facts.submissions, SUBMISSION_RULES),
    ...judge("submissions", facts.submissions, RECENT_RULES),
    ...judge("outbox", facts.outbox, OUTBOX_RULES),
    ...judge("inbound", facts.inbound, INBOUND_RULES),
    ...judge("waits", facts.waits, WAIT_RULES),
    ...judge("scheduler", facts.scheduler, SCHEDULER_RULES),
    ...judge("workflows", facts.workflows, WORKFLOW_RULES),
    ...judge("mcp", facts.mcp, MCP_RULES),
    ...judge("alarms", facts.alarms, ALARM_RULES),
  ];
  const all = [...found, ...broken.map(incomplete)].sort(
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

function incomplete({ part, error }: BrokenPart): Finding {
  return {
    code: "report-incomplete",
    about: part,
    severity: "error",
    title: `The report knows nothing of the agent's ${part}: they could not be read.`,
    evidence: { count: 1, ids: [], lastError: error },
    cause:
      part === "scheduler"
        ? "getScheduledTasks() or another method of the app throws, or a row is corrupt."
        : "A method of the app throws, or a row is corrupt.",
    fix: { text: "Correct what the error names. The log of the agent has its stack." },
    link: { view: "overview" },
  };
}

function countsOf({
  submissions,
  outbox,
  inbound,
  waits,
  scheduler,
  workflows,
}: ReportFacts): AgentReport["counts"] {
  const none = { pending: 0, running: 0, completed: 0, error: 0, aborted: 0, skipped: 0 };
  const tasks = { active: 0, paused: 0, finished: 0, invalid: 0 };
  for (const { state } of scheduler?.tasks ?? []) tasks[state]++;
  const byStatus: Record<string, number> = {};
  for (const { status } of workflows?.newest ?? []) byStatus[status] = (byStatus[status] ?? 0) + 1;
  return {
    submissions: submissions?.counts ?? none,
    outbox: { waiting: outbox?.waiting ?? 0, deadLetters: outbox?.deadLetters ?? 0 },
    inbound: inbound?.counts ?? { accepted: 0, filtered: 0, refused: 0 },
    approvals: waits?.approvals ?? 0,
    tasks,
    workflows: byStatus,
  };
}

/** An information makes no verdict false. Without anything to judge by, or without a part, there is none. */
function verdictsOf(
  facts: ReportFacts,
  findings: readonly Finding[],
  broken: readonly BrokenPart[],
): AgentReport["verdicts"] {
  const { submissions, outbox, inbound, waits, scheduler, workflows } = facts;
  const total = (counts: object | undefined) =>
    Object.values(counts ?? {}).reduce((sum: number, count: number) => sum + count, 0);
  const { pending = 0, running = 0 } = submissions?.counts ?? {};
  const accepted = total(submissions?.counts);
  const has: Record<Question, boolean> = {
    starts: accepted + total(inbound?.counts) > 0,
    succeeds: accepted - pending - running + (workflows?.newest.length ?? 0) > 0,
    delivers:
      (outbox?.waiting ?? 0) + (outbox?.deadLetters ?? 0) + (outbox?.endpoints.length ?? 0) > 0,
    onTime: (scheduler?.tasks.length ?? 0) + (waits?.open ?? 0) + pending + running > 0,
  };
  const unknown = new Set(broken.flatMap(({ part }) => NEEDED_FOR[part]));
  const no = new Set<Question | null>(
    findings.filter(({ severity }) => severity !== "info").map(({ code }) => FINDINGS[code]),
  );
  const verdicts = QUESTIONS.map((question) => [
    question,
    no.has(question) ? false : unknown.has(question) || !has[question] ? undefined : true,
  ]);
  return Object.fromEntries(verdicts) as AgentReport["verdicts"];
}
