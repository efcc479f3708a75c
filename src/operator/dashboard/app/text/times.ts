/** Times as people read them. */

const STEPS: readonly (readonly [Intl.RelativeTimeFormatUnit, number])[] = [
  ["day", 86_400_000],
  ["hour", 3_600_000],
  ["minute", 60_000],
  ["second", 1_000],
];

const relative = new Intl.RelativeTimeFormat("en", { numeric: "always", style: "narrow" });
const clock = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

/** E.g. `3m ago` or `in 2h`. */
export function agoText(at: number, now: number): string {
  const difference = at - now;
  for (const [unit, ms] of STEPS) {
    if (Math.abs(difference) >= ms) return relative.format(Math.trunc(difference / ms), unit);
  }
  return "now";
}

/** In the browser's zone and language. */
export function localText(at: number): string {
  return clock.format(at);
}
