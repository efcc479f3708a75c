import type { Gate } from "./gate.ts";
import type { Submissions } from "./submissions.ts";
import { Admissions } from "./turns/admission.ts";

/** Lets a gate decide when turns start. Only `limits()` imports this file: agents without it do not load the code. */
export function installGate({ ledger, turns }: Submissions, gate: Gate): void {
  ledger.gate = gate;
  ledger.admissions = new Admissions(
    {
      get store() {
        return ledger.store;
      },
      loop: ledger.loop,
      announce: (submission) => ledger.announce(submission),
      end: (seen, end) => turns.settlement.end(seen, end),
    },
    gate,
  );
}
