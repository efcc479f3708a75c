/** Parses durations. A month and a year are as long as in Workflows. */

const UNITS = {
  second: 1_000,
  minute: 60_000,
  hour: 3_600_000,
  day: 86_400_000,
  week: 604_800_000,
  month: 30 * 86_400_000,
  year: 365 * 86_400_000,
} as const;

type Unit = keyof typeof UNITS;

/** Milliseconds, or a whole or decimal number and a unit: `"1 hour"`, `"1.5 days"`. A month is 30 days, a year 365. */
export type Duration = number | `${number} ${Unit}` | `${number} ${Unit}s`;

const TEXT = /^(\d+(?:\.\d+)?) ([a-z]+?)s?$/;

/** The valid forms, for error messages. */
export const DURATION_FORMS =
  'a positive number of milliseconds, or a text such as "30 seconds", "5 minutes" or "2 hours"';

/** A duration in whole milliseconds; undefined for one that is invalid or shorter than a millisecond. */
export function millisecondsOf(duration: unknown): number | undefined {
  const ms = typeof duration === "string" ? parsed(duration) : duration;
  return typeof ms === "number" && ms >= 1 ? Math.round(ms) : undefined;
}

function parsed(text: string): number {
  const [, count, unit] = TEXT.exec(text) ?? [];
  // NaN without a count, and for other units.
  return Number(count) * UNITS[unit as Unit];
}

/** Milliseconds as text, in the largest unit up to days that divides them: `"3 days"`. */
export function durationText(ms: number): string {
  const units = Object.entries(UNITS).slice(0, 4);
  const [unit, length] = units.findLast(([, each]) => ms >= each && ms % each === 0) ?? ["ms", 1];
  const count = ms / length;
  return `${count} ${unit}${unit === "ms" || count === 1 ? "" : "s"}`;
}
