/** Lengths of time as people write them: `"90 seconds"`, `"2 hours"`, or a number of milliseconds. */

const UNITS = {
  second: 1_000,
  minute: 60_000,
  hour: 3_600_000,
  day: 86_400_000,
  week: 604_800_000,
} as const;

type Unit = keyof typeof UNITS;

/** Milliseconds, or a whole or decimal number and a unit: `"1 hour"`, `"1.5 days"`. */
export type Duration = number | `${number} ${Unit}` | `${number} ${Unit}s`;

const TEXT = /^(\d+(?:\.\d+)?) (second|minute|hour|day|week)s?$/;

/** How to write one, for messages about what is none. */
export const DURATION_FORMS =
  'a positive number of milliseconds, or a text such as "30 seconds", "5 minutes" or "2 hours"';

/** The same in whole milliseconds; undefined for what is no positive length of time. */
export function millisecondsOf(duration: unknown): number | undefined {
  const ms = typeof duration === "string" ? parsed(duration) : duration;
  if (typeof ms !== "number") return undefined;
  const whole = ms === Number.POSITIVE_INFINITY ? ms : Math.round(ms);
  return whole >= 1 ? whole : undefined;
}

function parsed(text: string): number {
  const [, count, unit] = TEXT.exec(text) ?? [];
  return count === undefined ? Number.NaN : Number(count) * UNITS[unit as Unit];
}

/** Milliseconds in the largest unit that they are a whole number of: `"3 days"`. */
export function durationText(ms: number): string {
  const units = (Object.entries(UNITS) as [Unit, number][]).filter(([unit]) => unit !== "week");
  const [unit, length] = units.findLast(([, each]) => ms >= each && ms % each === 0) ?? ["ms", 1];
  const count = ms / length;
  return `${count} ${unit}${unit === "ms" || count === 1 ? "" : "s"}`;
}
