/** Leftovers of an idle agent: open work, dead letters, and an alarm. */

import type { Look } from "../words.ts";
import { type Finding, isOpen, time } from "./evidence.ts";

export function remainingWork(look: Look): Finding[] {
  const { agent } = look;
  const found = (kind: Finding["kind"], id: string, what: string): Finding => ({ kind, id, what });
  return [
    ...look.submissions
      .filter(isOpen)
      .map(({ id, key, status, attempts, failures }) =>
        found(
          "stuck",
          id,
          `submission ${key} of ${agent}: ${status}, attempt ${attempts}, failed before: ${failures ?? "never"}`,
        ),
      ),
    ...look.approvals.map((id) => found("stuck", id, `an approval of ${agent} is pending`)),
    ...openWork(look).map((work) => found("stuck", work, `is open work of ${agent}`)),
    ...look.deliveries
      .filter(({ state }) => state === "waiting")
      .map(({ id, kind, error }) =>
        found("stuck", id, `a delivery of ${agent} to a ${kind} waits: ${error ?? "no error"}`),
      ),
    ...look.deadLetters.map(({ id, error }) =>
      found("lost", id, `a dead letter of ${agent}: ${error}`),
    ),
    ...(look.alarm === null ? [] : [found("alarm", agent, `an alarm at ${time(look.alarm)}`)]),
  ];
}

/** Other open work than in the lists above. Workflows are judged by the platform's status. */
function openWork(look: Look): string[] {
  return look.openWork.filter(
    (work) => !/^(submission|approval|delivery|dead-letter|workflow) /.test(work),
  );
}
