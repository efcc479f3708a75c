/** Plays random sequences of steps against something and its model, and tells of the shortest that goes wrong. */

import fc from "fast-check";
import { expect } from "vitest";
import { knob, textKnob } from "./knobs.ts";

/** One sequence, compared with the model after every step. */
type SequenceRun<Step> = { play(steps: Step[]): Promise<void>; readonly crashes: number };

export type Sequences<Step, Given> = {
  /** The knobs begin with it: `<name>_RUNS`, `<name>_SEED` and `<name>_PATH`. */
  readonly name: string;
  readonly runs: number;
  readonly step: fc.Arbitrary<Step>;
  /** What a sequence begins with. */
  readonly given: fc.Arbitrary<Given>;
  /** How long a step may take while a shorter sequence is looked for, in milliseconds. */
  readonly hastyMs: number;
  readonly begin: (given: Given, patienceMs: number) => SequenceRun<Step>;
};

/** @throws with the seed, the path and the shortest sequence that was found */
export async function playSequences<Step, Given>({
  name,
  runs,
  step,
  given,
  hastyMs,
  begin,
}: Sequences<Step, Given>): Promise<void> {
  const numRuns = knob(`${name}_RUNS`, runs);
  const seed = knob(`${name}_SEED`, 20_261_121);
  const path = textKnob(`${name}_PATH`);
  const tally = { steps: 0, crashes: 0, ms: Date.now() };
  let patienceMs = 5_000;
  const sequence = fc.array(step, { minLength: 6, maxLength: 30, size: "max" });
  const property = fc.asyncProperty(sequence, given, async (steps, start) => {
    const run = begin(start, patienceMs);
    try {
      await run.play(steps);
    } catch (error) {
      // While it looks for a shorter sequence it need not be sure; the first one is.
      if (patienceMs > hastyMs) console.error("first", JSON.stringify(steps), error);
      patienceMs = hastyMs;
      throw error;
    }
    tally.steps += steps.length;
    tally.crashes += run.crashes;
  });
  await fc.assert(property, { numRuns, seed, ...(path && { path }) });
  tally.ms = Date.now() - tally.ms;
  console.log(`seed ${seed}: ${numRuns} sequences`, tally);
  expect(tally.crashes).toBeGreaterThan(0);
}
