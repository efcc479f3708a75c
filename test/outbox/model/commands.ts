/** The commands of the outbox's model test, and how often each comes. */

import fc from "fast-check";

export type OutboxCommand =
  /** Several events in one transaction, which commits or rolls back. */
  | { readonly op: "put"; readonly events: readonly NewEvent[]; readonly commits: boolean }
  | { readonly op: "redrive" | "delete"; readonly nth: number }
  | { readonly op: "redrive all"; readonly ageMs?: number; readonly place?: Place }
  | { readonly op: "delete before"; readonly ageMs: number }
  | { readonly op: "disable" | "enable" | "wake" | "page" };

import { stepsOf } from "../../support/model-test.ts";
import { type Answer, type NewEvent, PLACES, type Place } from "./outbox-model.ts";

/** They never add up to one of the delays. */
const TIMES_MS = [35_001, 70_003, 500_009];

const answers: fc.Arbitrary<readonly Answer[]> = fc
  .tuple(
    fc.array(fc.constantFrom<Answer>("fail", "fail", "fail", "later", "hang", "hang", "kill"), {
      maxLength: 3,
    }),
    fc.constantFrom<Answer>("take", "take", "take", "fail", "refuse", "gone"),
  )
  .map(([first, last]) => [...first, last]);

/** An id belongs to one place. Put for another place it is refused. */
const OFTEN = [...PLACES, "ordered", "hook"] as const;

const event: fc.Arbitrary<NewEvent> = fc
  .record({
    // Few ids, so that the same one is put again.
    number: fc.integer({ min: 1, max: 14 }),
    isLarge: fc.constantFrom(false, false, false, true),
    answers,
  })
  .map(({ number, ...rest }) => {
    const place = OFTEN[number % OFTEN.length] ?? "plain";
    return { id: `e${number}`, place, ...rest };
  });

const put: fc.Arbitrary<OutboxCommand> = fc.record({
  op: fc.constant("put" as const),
  events: fc.array(event, { minLength: 1, maxLength: 4 }),
  commits: fc.constantFrom(true, true, true, true, false),
});

const only = <
  Op extends Extract<OutboxCommand, { op: "disable" | "enable" | "wake" | "page" }>["op"],
>(
  op: Op,
) => fc.constant({ op });

const commands: fc.Arbitrary<OutboxCommand> = fc.oneof(
  { weight: 10, arbitrary: put },
  { weight: 8, arbitrary: only("wake") },
  { weight: 3, arbitrary: only("page") },
  { weight: 1, arbitrary: only("disable") },
  { weight: 2, arbitrary: only("enable") },
  {
    weight: 4,
    arbitrary: fc.record({
      op: fc.constantFrom("redrive" as const, "redrive" as const, "delete" as const),
      nth: fc.nat(5),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record(
      {
        op: fc.constant("redrive all" as const),
        ageMs: fc.constantFrom(0, 50_000),
        place: fc.constantFrom(...PLACES),
      },
      { requiredKeys: ["op"] },
    ),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      op: fc.constant("delete before" as const),
      ageMs: fc.constantFrom(0, 50_000),
    }),
  },
);

export const outboxSteps = stepsOf(commands, {
  weights: { command: 16, crash: 2, pass: 8, crashIn: 3 },
  times: TIMES_MS,
  maxWrite: 12,
});
