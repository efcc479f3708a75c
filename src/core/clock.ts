/**
 * Time and chance, passed in wherever a decision depends on them, so that
 * tests can hold both still.
 */

export type Clock = {
  /** The current time, epoch milliseconds. */
  readonly now: () => number;
  /** A number in [0, 1). */
  readonly random: () => number;
};

export const systemClock: Clock = { now: () => Date.now(), random: () => Math.random() };
