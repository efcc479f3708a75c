/** The schedules that are measured, and the same made otherwise. */

import { Cron } from "croner";
import { DateTime } from "luxon";
import { nextOccurrence } from "../../src/scheduler/index.ts";

const ZONE = "America/New_York";

type Next = (after: number) => number | null;

/** Calls for at least this long; they alternate between moments eight months apart. */
export function run(ms: number): void {
  console.log(`next occurrences a second, in ${ZONE}`);
  for (const [name, next] of contenders()) {
    measure(next, ms / 5);
    console.log(`${name.padEnd(56)}${measure(next, ms).toLocaleString("en").padStart(12)}`);
  }
}

function measure(next: Next, ms: number): number {
  const from = Date.UTC(2027, 0, 1);
  const begin = performance.now();
  let calls = 0;
  while (performance.now() - begin < ms) {
    for (let call = 0; call < 100; call++, calls++) {
      next(from + (calls % 2) * 20_000_000_000 + (calls % 100_000) * 1_000);
    }
  }
  return Math.round(calls / ((performance.now() - begin) / 1_000));
}

function contenders(): [string, Next][] {
  return [
    ours("every 15 minutes"),
    ours("every day at 09:00"),
    ["  by hand with Luxon", withLuxon],
    croner("0 9 * * *"),
    ours("every 3 days at 09:00"),
    ours("every weekday at 09:00"),
    croner("0 9 * * 1-5"),
    ours("every 2 weeks on monday at 09:00"),
    ours("every month on 31 at 09:00"),
    croner("0 9 31 * *"),
    ours("every month on last weekday at 09:00"),
    ours("every year on february 29 at 09:00"),
    croner("0 9 29 2 *"),
    ours("every 15 minutes between 22:00 and 02:00 on weekdays"),
    ours("cron 0 9 * * 1-5"),
    ours("cron */15 * * * *"),
    croner("*/15 * * * *"),
  ];
}

/** By the public function and from the text, as an app does it. */
function ours(text: string): [string, Next] {
  const next = (after: number) =>
    nextOccurrence(text, { after, timezone: ZONE })?.getTime() ?? null;
  return [text, next];
}

function croner(expression: string): [string, Next] {
  const cron = new Cron(expression, { timezone: ZONE });
  return ["  Croner, with the zone", (after) => cron.nextRun(new Date(after))?.getTime() ?? null];
}

function withLuxon(after: number): number {
  const now = DateTime.fromMillis(after, { zone: ZONE });
  const today = now.set({ hour: 9, minute: 0, second: 0, millisecond: 0 });
  return (today > now ? today : today.plus({ days: 1 })).toMillis();
}
