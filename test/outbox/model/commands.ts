/** Random sequences for an outbox: of what they are made, and how often each of it comes. */

import fc from "fast-check";
import type { CalmStep, Step } from "./outbox-comparison.ts";
import { type Answer, type NewEvent, PLACES } from "./outbox-model.ts";

/** Steps of time that never add up to one of the delays. */
const TIMES_MS = [35_001, 70_003, 500_009];

const plot: fc.Arbitrary<readonly Answer[]> = fc
  .tuple(
    fc.array(fc.constantFrom<Answer>("fail", "fail", "fail", "later", "hang", "hang", "kill"), {
      maxLength: 3,
    }),
    fc.constantFrom<Answer>("take", "take", "take", "fail", "refuse", "gone"),
  )
  .map(([first, last]) => [...first, last]);

/** An id is for one place: put for another, it is refused. */
const OFTEN = [...PLACES, "ordered", "hook"] as const;

const event: fc.Arbitrary<NewEvent> = fc
  .record({
    // Few of them, so that the same one comes again.
    number: fc.integer({ min: 1, max: 14 }),
    isLarge: fc.constantFrom(false, false, false, true),
    plot,
  })
  .map(({ number, ...rest }) => {
    const place = OFTEN[number % OFTEN.length] ?? "plain";
    return { id: `e${number}`, place, ...rest };
  });

const put: fc.Arbitrary<CalmStep> = fc.record({
  op: fc.constant("put" as const),
  events: fc.array(event, { minLength: 1, maxLength: 4 }),
  commits: fc.constantFrom(true, true, true, true, false),
});

const only = <Op extends Extract<CalmStep, { op: "disable" | "enable" | "wake" | "page" }>["op"]>(
  op: Op,
) => fc.constant({ op });

const calm: fc.Arbitrary<CalmStep> = fc.oneof(
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

export const outboxStep: fc.Arbitrary<Step> = fc.oneof(
  { weight: 16, arbitrary: calm },
  { weight: 2, arbitrary: fc.constant({ op: "crash" as const }) },
  {
    weight: 8,
    arbitrary: fc.record({ op: fc.constant("pass" as const), ms: fc.constantFrom(...TIMES_MS) }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      op: fc.constant("crash in" as const),
      step: calm,
      point: fc.record({
        write: fc.integer({ min: 1, max: 12 }),
        when: fc.constantFrom("before" as const, "after" as const),
      }),
    }),
  },
);
