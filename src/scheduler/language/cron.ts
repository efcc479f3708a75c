/** Cron expressions, as croner reads them. Knows nothing of zones: it computes with clocks on walls, as if they were UTC's. */

import { Cron } from "croner";
import { BoundedCache } from "../calendar/bounded-cache.ts";

const cache = new BoundedCache<Cron>(200);

/**
 * An expression of five fields, or six with seconds first, or a nickname such
 * as `@daily`, to ask for its matches on a clock that is never put forward or
 * back (`nextRun(date)`). As in crontab(5), a date matches where the day of the
 * month or the day of the week does, if both are given; `+` before the day of
 * the week asks for both (https://github.com/hexagon/croner). Kept for the next call.
 *
 * @throws TypeError or RangeError of croner, for an expression that is none
 */
export function cronOf(expression: string): Cron {
  return cache.get(expression, () => {
    // Without `mode` croner would take seven fields with a year. Without a function it sets no timer.
    const cron = new Cron(expression, {
      // An offset of none, not the zone "UTC": the same, without asking Intl at each step.
      utcOffset: 0,
      mode: "5-or-6-parts",
      domAndDow: hasFreeDay(expression),
      paused: true,
    });
    // Croner takes a date for a job that runs once.
    if (cron.getPattern() === undefined) throw new TypeError("a date is no cron expression");
    return cron;
  });
}

/** In crontab(5) a day field that begins with a star is unrestricted, also one with a step: the other field must match, too. */
function hasFreeDay(expression: string): boolean {
  const [day = "", , weekday = ""] = expression.trim().split(/\s+/).slice(-3);
  return day.startsWith("*") || weekday.startsWith("*");
}
