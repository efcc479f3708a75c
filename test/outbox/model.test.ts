/**
 * O1-O5 on random sequences: events put in transactions, destinations that fail, refuse, hang and recover, dead letters
 * redriven and deleted, time, wakes, and crashes between and within commands. The outbox is compared with a small model
 * after every step (test/support/model-test.ts).
 *
 * The seed is fixed. `VITE_PERDURE_OUTBOX_MODEL_SEED` and `VITE_PERDURE_OUTBOX_MODEL_RUNS` try others and more. A
 * failure prints the seed, the path and the shortest sequence that fails; `VITE_PERDURE_OUTBOX_MODEL_PATH` replays it.
 */

import fc from "fast-check";
import { it } from "vitest";
import { testAgainstModel } from "../support/model-test.ts";
import { limitMs } from "../support/sizes.ts";
import { outboxSteps } from "./model/commands.ts";
import { OutboxComparison } from "./model/outbox-comparison.ts";

it(
  "O1-O5: the outbox does what the model does after any sequence of commands and crashes",
  () =>
    testAgainstModel({
      name: "OUTBOX_MODEL",
      runs: 24,
      steps: outboxSteps,
      start: fc.constantFrom(undefined, { maxAge: 400_000, maxCount: 2 }),
      shrinkMs: 500,
      subject: (keepDelivered) => new OutboxComparison(keepDelivered),
    }),
  limitMs(600_000),
);
