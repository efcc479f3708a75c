/** Each workflow has ended, and has reported the answers of its own steps. */

import type { WorkflowEntry } from "../ledger.ts";
import { isExpectedOutcome } from "../plans.ts";
import { type Evidence, type Finding, time } from "./evidence.ts";

export function workflowFindings(evidence: Evidence): Finding[] {
  return evidence.entries.flatMap((entry) =>
    entry.kind === "workflow" ? oneWorkflow(entry, evidence) : [],
  );
}

function oneWorkflow(
  { id, agent, acceptedAt, askedAt, expected, isTerminated }: WorkflowEntry,
  { records, platform, looks }: Evidence,
): Finding[] {
  const status = platform[id] ?? "unknown";
  const what = `workflow of ${agent}, asked at ${time(askedAt)}, ${status}`;
  if (acceptedAt === undefined) return [{ kind: "stuck", id, what: `${what}: no answer` }];
  const outcomes = [...(records.outcomes.get(id)?.keys() ?? [])];
  const reported = outcomes.map((outcome) => JSON.parse(outcome) as string[]);
  if (/^(queued|running|paused|waiting)/.test(status)) {
    return [{ kind: "stuck", id, what: `${what}, its outcome: ${outcomes[0] ?? "none yet"}` }];
  }
  const look = looks.find((one) => one.agent === agent);
  if (look && look.workflows[id] === undefined) {
    return [{ kind: "lost", id, what: `${what}: the agent does not track it` }];
  }
  const wrong = reported.filter((outcome) => !isExpectedOutcome(outcome, expected));
  if (wrong.length > 0) {
    const kind = wrong.flat().some((result) => result.includes("!")) ? "failed" : "wrong answer";
    return [{ kind, id, what: `${what}: ${JSON.stringify(wrong)}, expected ${expected}` }];
  }
  if (isTerminated && /^(terminated|complete)/.test(status)) return [];
  if (reported.length === 0) return [{ kind: "lost", id, what: `${what}: no outcome came` }];
  return status === "complete" ? [] : [{ kind: "failed", id, what }];
}
