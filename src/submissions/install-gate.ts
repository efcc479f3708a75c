import type { Gate } from "./gate.ts";
import type { Submissions } from "./submissions.ts";
import { Admissions } from "./turns/admission.ts";

/** Lets a gate decide when turns start. Only `limits()` imports this file: agents without it do not load the code. */
export function installGate({ limiter, turns }: Submissions, gate: Gate): void {
  const { store, loop, statuses } = turns;
  limiter.gate = gate;
  limiter.admissions = new Admissions(
    {
      ...{ store, loop },
      announce: (submission) => statuses.announce(submission),
      end: (seen, end) => turns.endSeen(seen, end),
    },
    gate,
  );
}
