/** The clock and the source of randomness. Decisions take them as an argument, so that tests control both. */

export type Clock = {
  /** The current time, epoch milliseconds. */
  readonly now: () => number;
  /** A number in [0, 1). */
  readonly random: () => number;
};

/** The latest time of an alarm on the platform, epoch milliseconds. */
export const LAST_ALARM = Date.UTC(2189, 0, 1);

/** A clock that is monotonic: it never returns less than before, even if the machine's clock is set back. */
export function monotonic({ now, random }: Clock): Clock {
  let latest = Number.NEGATIVE_INFINITY;
  return {
    now: () => {
      latest = Math.max(latest, now());
      return latest;
    },
    random,
  };
}

/** The earliest of these times, or null where there is none. */
export function earliest(times: Iterable<number | null>): number | null {
  let first: number | null = null;
  for (const time of times) if (time !== null && (first === null || time < first)) first = time;
  return first;
}

export const systemClock: Clock = { now: () => Date.now(), random: () => Math.random() };
