/** Random sequences: of what they are made, and how often each of it comes. */

import fc from "fast-check";
import type { WhenBusy } from "../../../src/submissions/types.ts";
import type { Ask, Plot, Rules } from "./entries.ts";
import type { CalmStep, Step } from "./ledger-comparison.ts";

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

const plot: fc.Arbitrary<Plot> = fc
  .record({
    fails: fc.constantFrom(0, 0, 0, 1, 2, 9),
    failure: fc.constantFrom("permanent", "transient", "transient", "reset"),
    holds: fc.constantFrom(0, 0, 1, 1, 2),
    deaf: fc.constantFrom(false, false, true),
    answers: fc.constantFrom(false, false, true),
    effects: fc.constantFrom(false, false, true),
    hook: fc.constantFrom("fast", "fast", "fast", "fast", "slow", "hangs"),
  })
  .map((drawn) => ({
    ...drawn,
    failure: drawn.fails === 0 ? ("permanent" as const) : drawn.failure,
    deaf: drawn.deaf && drawn.holds > 0,
  }));

type Submit = { readonly op: "submit" } & Omit<Ask, "id">;

const submit: fc.Arbitrary<Submit> = fc
  .record({
    op: fc.constant("submit" as const),
    key: fc.constantFrom(undefined, undefined, "a", "b", "c"),
    plot,
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
  .map(allowed);

/** What cannot be combined is left out. */
function allowed(ask: Submit): Submit {
  const isolated = ask.thread === "isolated" ? ({ whenBusy: "enqueue" } as const) : {};
  const debounced =
    ask.debounce === undefined
      ? {}
      : ({ key: undefined, whenBusy: "enqueue", delayMs: undefined } as const);
  const urgent = ["interrupt", "rollback", "steer"].includes(ask.whenBusy)
    ? ({ delayMs: undefined } as const)
    : {};
  const together = { ...ask, ...isolated, ...urgent, ...debounced };
  const givesNone = together.whenBusy === "steer" || together.debounce !== undefined;
  return givesNone ? { ...together, plot: { ...ask.plot, answers: false } } : together;
}

const calm: fc.Arbitrary<CalmStep> = fc.oneof(
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

export const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 20, arbitrary: calm },
  { weight: 2, arbitrary: fc.constant({ op: "crash" as const }) },
  {
    weight: 3,
    arbitrary: fc.record({
      op: fc.constant("pass" as const),
      ms: fc.constantFrom(SHORT_MS, LONG_MS),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      op: fc.constant("crash in" as const),
      step: calm,
      point: fc.record({
        write: fc.integer({ min: 1, max: 8 }),
        when: fc.constantFrom("before" as const, "after" as const),
      }),
    }),
  },
);
