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
import { expect, it } from "vitest";
import { knob, textKnob } from "./support/knobs.ts";
import { OutboxRun } from "./support/outbox-run.ts";
import { outboxStep } from "./support/outbox-steps.ts";

const RUNS = knob("OUTBOX_MODEL_RUNS", 60);
const SEED = knob("OUTBOX_MODEL_SEED", 20_261_121);
/** How long the outbox may take for a step while a shorter sequence is looked for. */
const HASTY_MS = 500;

it("O1-O5 the outbox does what the model does, whatever comes in whatever order", async () => {
  const tally = { steps: 0, crashes: 0, ms: Date.now() };
  let patienceMs = 5_000;
  const property = fc.asyncProperty(
    fc.array(outboxStep, { minLength: 6, maxLength: 30, size: "max" }),
    fc.constantFrom(undefined, { maxAge: 400_000, maxCount: 2 }),
    async (steps, keepDelivered) => {
      const run = new OutboxRun(keepDelivered, patienceMs);
      try {
        await run.play(steps);
      } catch (error) {
        // While it looks for a shorter sequence it need not be sure; the first one is.
        if (patienceMs > HASTY_MS) console.error("first", JSON.stringify(steps), error);
        patienceMs = HASTY_MS;
        throw error;
      }
      tally.steps += steps.length;
      tally.crashes += run.crashes;
    },
  );
  const path = textKnob("OUTBOX_MODEL_PATH");
  await fc.assert(property, { numRuns: RUNS, seed: SEED, ...(path && { path }) });
  tally.ms = Date.now() - tally.ms;
  console.log(`seed ${SEED}: ${RUNS} sequences`, tally);
  expect(tally.crashes).toBeGreaterThan(0);
}, 600_000);
