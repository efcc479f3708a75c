/**
 * O1-O5 on random sequences: events put in transactions, destinations that
 * fail, refuse, hang and come back, dead letters tried again and forgotten,
 * time, wakes, and crashes between and in the middle of steps, each compared
 * with a small model of the outbox after every step.
 *
 * The seed is fixed. `VITE_PERDURE_OUTBOX_MODEL_SEED` and
 * `VITE_PERDURE_OUTBOX_MODEL_RUNS` try others and more; a failure prints the
 * seed, the path to it and the shortest sequence that was found, and
 * `VITE_PERDURE_OUTBOX_MODEL_PATH` goes there.
 */

import fc from "fast-check";
import { it } from "vitest";
import { limitMs } from "../support/knobs.ts";
import { playSequences } from "../support/model-test.ts";
import { outboxStep } from "./model/commands.ts";
import { OutboxRun } from "./model/outbox-comparison.ts";

it(
  "O1-O5: the outbox behaves like the model in any order of events",
  () =>
    playSequences({
      name: "OUTBOX_MODEL",
      runs: 24,
      step: outboxStep,
      given: fc.constantFrom(undefined, { maxAge: 400_000, maxCount: 2 }),
      hastyMs: 500,
      begin: (keepDelivered, patienceMs) => new OutboxRun(keepDelivered, patienceMs),
    }),
  limitMs(600_000),
);
