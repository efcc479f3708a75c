/**
 * Plays random sequences of commands on an object and on a model of it, and compares both after each command. A failure prints
 * the seed, the path and the shortest sequence: `VITE_PERDURE_ACCEPTANCE_SEED` replays the seed.
 */

import fc from "fast-check";
import { expect } from "vitest";
import { BOUND_MS } from "../app/given.ts";
import { readSize } from "../sizes.ts";

/** Bound of each comparison while fast-check looks for the shortest sequence. */
const SHRINK_MS = 2_000;

/** The object and its model, made for one sequence. */
export type Subject<Command> = {
  /** Performs the command on both, and compares the replies. */
  perform(command: Command): Promise<void>;
  /** The state of the object, by public verbs and receivers. */
  look(): Promise<object>;
  /** The state that the model expects. */
  expected(): object;
  /** Ends open work, so that the last comparison has all ends. */
  finish?(): Promise<void>;
  /** Releases what the sequence holds. */
  end?(): void;
};

/**
 * @param runs sequences, unless `VITE_PERDURE_ACCEPTANCE_RUNS` is set
 * @param lanes parts of them that run at the same time, where sequences mostly wait and share no clock
 */
export async function playSequences<Command>(
  commands: fc.Arbitrary<Command>,
  makeSubject: () => Subject<Command> | Promise<Subject<Command>>,
  runs: number,
  lanes = 1,
): Promise<void> {
  let boundMs = BOUND_MS;
  const sequences = fc.array(commands, { minLength: 8, maxLength: 24, size: "max" });
  const property = fc.asyncProperty(sequences, async (sequence) => {
    const subject = await makeSubject();
    try {
      for (const [index, command] of sequence.entries()) {
        await named(`command ${index + 1}, ${JSON.stringify(command)}`, async () => {
          await subject.perform(command);
          await agree(subject, boundMs);
        });
      }
      await named("the last command", async () => {
        await subject.finish?.();
        await agree(subject, boundMs);
      });
    } catch (error) {
      // The first failure is certain. Shorter sequences are tried faster.
      if (boundMs === BOUND_MS) console.error("first", JSON.stringify(sequence), error);
      boundMs = SHRINK_MS;
      throw error;
    } finally {
      subject.end?.();
    }
  });
  const numRuns = Math.ceil(readSize("ACCEPTANCE_RUNS", runs) / lanes);
  const seed = readSize("ACCEPTANCE_SEED", 20_261_128);
  // A path of one number is the first sequence of that lane.
  const play = (lane: number) =>
    fc.assert(property, { numRuns, seed, path: String(lane * numRuns) });
  await Promise.all(Array.from({ length: lanes }, (_, lane) => play(lane)));
}

/** Waits until the object is as the model expects. */
async function agree({ look, expected }: Subject<never>, boundMs: number): Promise<void> {
  const wanted = JSON.stringify(expected());
  const deadline = performance.now() + boundMs;
  for (let pauseMs = 5; ; pauseMs = Math.min(2 * pauseMs, 80)) {
    const found = await look();
    if (JSON.stringify(found) === wanted) return;
    if (performance.now() > deadline) expect(found).toEqual(expected());
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
  }
}

async function named(what: string, work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    throw new Error(`After ${what}: ${(error as Error).message}`, { cause: error });
  }
}
