/** Clock changes of a zone, found by the browser's own calendar. */

const MINUTE = 60_000;
const DAY = 1_440 * MINUTE;

export type ClockChange = {
  /** The instant of the change. */
  readonly at: number;
  readonly timezone: string;
  /** In minutes: positive for a gap, negative for a fold. */
  readonly shift: number;
};

/** The changes of a zone's clock in a period, found by the browser's own calendar. */
export function clockChanges(timezone: string, from: number, to: number): ClockChange[] {
  const changes: ClockChange[] = [];
  for (let at = Math.floor(from / MINUTE) * MINUTE; at < to; at += DAY) {
    const end = at + DAY;
    if (offsetOf(timezone, at) === offsetOf(timezone, end)) continue;
    let [low, high] = [at, end];
    while (high - low > MINUTE) {
      const middle = low + Math.floor((high - low) / (2 * MINUTE)) * MINUTE;
      if (offsetOf(timezone, middle) === offsetOf(timezone, at)) low = middle;
      else high = middle;
    }
    changes.push({ at: high, timezone, shift: offsetOf(timezone, high) - offsetOf(timezone, low) });
  }
  return changes;
}

const formats = new Map<string, Intl.DateTimeFormat>();

function formatOf(timeZone: string): Intl.DateTimeFormat {
  const known = formats.get(timeZone);
  if (known) return known;
  const format = new Intl.DateTimeFormat("en-GB", {
    timeZone,
    ...{ hourCycle: "h23", year: "numeric", month: "2-digit", day: "2-digit" },
    ...{ hour: "2-digit", minute: "2-digit" },
  });
  formats.set(timeZone, format);
  return format;
}

/** Minutes east of UTC. */
function offsetOf(timezone: string, at: number): number {
  const parts = Object.fromEntries(
    formatOf(timezone)
      .formatToParts(at)
      .map(({ type, value }) => [type, Number(value)]),
  );
  const { year = 0, month = 1, day = 1, hour = 0, minute = 0 } = parts;
  return Math.round(
    (Date.UTC(year, month - 1, day, hour, minute) - Math.floor(at / 60_000) * 60_000) / 60_000,
  );
}

/** A clock change in words, and what the scheduler does about it. */
export function changeText({ at, timezone, shift }: ClockChange): string {
  const shown = formatOf(timezone).format(at).replace(",", "");
  return shift > 0
    ? `${timezone}: the clock goes forward ${shift} minutes, to ${shown}. A run at a skipped time starts then.`
    : `${timezone}: the clock goes back ${-shift} minutes, to ${shown}. A time that comes twice runs once, the first time.`;
}
