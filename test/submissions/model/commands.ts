/** The commands of the ledger's model test, and how often each comes. */

import fc from "fast-check";
import type { WhenBusy } from "../../../src/submissions/submit-options.ts";
import { stepsOf } from "../../support/model-test.ts";
import type { PlannedTurn, Request, Rules } from "./entries.ts";

export type LedgerCommand =
  | ({ readonly op: "submit" } & Omit<Request, "id">)
  /** The nth submission with a key is submitted again, unchanged. */
  | { readonly op: "repeat"; readonly nth: number }
  | { readonly op: "cancel"; readonly nth: number; readonly of: "open" | "all" }
  | { readonly op: "release" | "retry" | "delete"; readonly nth: number }
  | { readonly op: "wake" | "reset" };

/** The steps of time below never add up to one of the delays, so that milliseconds do not matter. */
export const RULES: Rules = {
  maxPending: 5,
  maxAttempts: 3,
  maxConcurrentTurns: 2,
  delayMs: (failures) => 60_000 * 2 ** (failures - 1),
  debounce: { delayMs: 50_000, maxDelayMs: 80_000 },
};
const SHORT_MS = 35_000;
const LONG_MS = 1_000_000;
const NOT_BEFORE_MS = 50_000;
const EXPIRES_MS = 90_000;

const turn: fc.Arbitrary<PlannedTurn> = fc
  .record({
    fails: fc.constantFrom(0, 0, 0, 1, 2, 9),
    failure: fc.constantFrom("permanent", "transient", "transient", "reset"),
    holds: fc.constantFrom(0, 0, 1, 1, 2),
    ignoresAbort: fc.constantFrom(false, false, true),
    answers: fc.constantFrom(false, false, true),
    effects: fc.constantFrom(false, false, true),
    hook: fc.constantFrom("fast", "fast", "fast", "fast", "slow", "hangs"),
  })
  .map((drawn) => ({
    ...drawn,
    failure: drawn.fails === 0 ? ("permanent" as const) : drawn.failure,
    ignoresAbort: drawn.ignoresAbort && drawn.holds > 0,
  }));

type Submit = Extract<LedgerCommand, { op: "submit" }>;

const submit: fc.Arbitrary<Submit> = fc
  .record({
    op: fc.constant("submit" as const),
    key: fc.constantFrom(undefined, undefined, "a", "b", "c"),
    turn,
    thread: fc.constantFrom("main", "main", "main", "side", "side", "other", "isolated"),
    priority: fc.constantFrom(0, 0, 1, -1),
    whenBusy: fc.constantFrom<WhenBusy>(
      ...(["enqueue", "enqueue", "reject", "interrupt", "rollback", "steer", "steer"] as const),
    ),
    maxAttempts: fc.constantFrom(undefined, undefined, 1, 2),
    afterSideEffects: fc.constantFrom("tell" as const, "fail" as const, "repeat" as const),
    onConflict: fc.constantFrom("return" as const, "throw" as const),
    delayMs: fc.constantFrom(undefined, undefined, undefined, NOT_BEFORE_MS),
    expiresMs: fc.constantFrom(undefined, undefined, EXPIRES_MS),
    debounce: fc.constantFrom(undefined, undefined, undefined, undefined, "d"),
  })
  .map(withoutConflicts);

/** Options that exclude each other are left out. */
function withoutConflicts(request: Submit): Submit {
  const isolated = request.thread === "isolated" ? ({ whenBusy: "enqueue" } as const) : {};
  const debounced =
    request.debounce === undefined
      ? {}
      : ({ key: undefined, whenBusy: "enqueue", delayMs: undefined } as const);
  const urgent = ["interrupt", "rollback", "steer"].includes(request.whenBusy)
    ? ({ delayMs: undefined } as const)
    : {};
  const together = { ...request, ...isolated, ...urgent, ...debounced };
  const hasNoAnswer = together.whenBusy === "steer" || together.debounce !== undefined;
  return hasNoAnswer ? { ...together, turn: { ...request.turn, answers: false } } : together;
}

const commands: fc.Arbitrary<LedgerCommand> = fc.oneof(
  { weight: 8, arbitrary: submit },
  { weight: 1, arbitrary: fc.record({ op: fc.constant("repeat" as const), nth: fc.nat(5) }) },
  {
    weight: 4,
    arbitrary: fc.record({
      op: fc.constant("cancel" as const),
      nth: fc.nat(5),
      of: fc.constantFrom("open" as const, "open" as const, "all" as const),
    }),
  },
  { weight: 5, arbitrary: fc.record({ op: fc.constant("release" as const), nth: fc.nat(2) }) },
  { weight: 4, arbitrary: fc.constant({ op: "wake" as const }) },
  { weight: 2, arbitrary: fc.record({ op: fc.constant("retry" as const), nth: fc.nat(5) }) },
  { weight: 2, arbitrary: fc.record({ op: fc.constant("delete" as const), nth: fc.nat(5) }) },
  { weight: 2, arbitrary: fc.constant({ op: "reset" as const }) },
);

export const ledgerSteps = stepsOf(commands, {
  weights: { command: 20, crash: 2, pass: 3, crashIn: 4 },
  times: [SHORT_MS, LONG_MS],
  maxWrite: 8,
});
