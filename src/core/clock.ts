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

/** The platform's alarms reach no further, epoch milliseconds. */
export const LAST_ALARM = Date.UTC(2189, 0, 1);

/** The same clock, which stands still where the machine's is set back, until that has caught up. */
export function steady({ now, random }: Clock): Clock {
  let latest = Number.NEGATIVE_INFINITY;
  return {
    now: () => {
      latest = Math.max(latest, now());
      return latest;
    },
    random,
  };
}

export const systemClock: Clock = { now: () => Date.now(), random: () => Math.random() };
