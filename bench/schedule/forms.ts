/** The measured schedules, and the same with other libraries. */

import { Cron } from "croner";
import { DateTime } from "luxon";
import { nextOccurrence } from "../../src/scheduler/index.ts";
import { median } from "../result.ts";

const ZONE = "America/New_York";

type Next = (after: number) => number | null;

/** Next occurrences per second, by implementation. */
export type Rates = readonly {
  readonly form: string;
  readonly by: string;
  readonly rate: number;
}[];

/** Calls each for at least this long per round, at alternating times eight months apart. */
export function rates(ms: number, turns: number): Rates {
  const all = contenders();
  const found = all.map(() => [] as number[]);
  for (let turn = 0; turn < turns; turn++) {
    for (const [index, { next }] of all.entries()) {
      measure(next, ms / 5);
      found[index]?.push(measure(next, ms));
    }
  }
  return all.map(({ form, by }, index) => ({ form, by, rate: median(found[index] ?? []) }));
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

type Contender = { readonly form: string; readonly by: string; readonly next: Next };

function contenders(): Contender[] {
  return [
    ours("every 15 minutes"),
    croner("every 15 minutes", "*/15 * * * *"),
    ours("every day at 09:00"),
    croner("every day at 09:00", "0 9 * * *"),
    { form: "every day at 09:00", by: "Luxon by hand", next: withLuxon },
    ours("every 3 days at 09:00"),
    ours("every weekday at 09:00"),
    croner("every weekday at 09:00", "0 9 * * 1-5"),
    ours("every 2 weeks on monday at 09:00"),
    ours("every month on 31 at 09:00"),
    croner("every month on 31 at 09:00", "0 9 31 * *"),
    ours("every month on last weekday at 09:00"),
    ours("every year on february 29 at 09:00"),
    croner("every year on february 29 at 09:00", "0 9 29 2 *"),
    ours("every 15 minutes between 22:00 and 02:00 on weekdays"),
    ours("cron 0 9 * * 1-5"),
    croner("cron 0 9 * * 1-5", "0 9 * * 1-5"),
    ours("cron */15 * * * *"),
    croner("cron */15 * * * *", "*/15 * * * *"),
  ];
}

/** By the public function and from the text, like an app. */
function ours(text: string): Contender {
  const next = (after: number) => nextOccurrence(text, { after, timezone: ZONE });
  return { form: text, by: "Perdure", next };
}

function croner(form: string, expression: string): Contender {
  const cron = new Cron(expression, { timezone: ZONE });
  const next = (after: number) => cron.nextRun(new Date(after))?.getTime() ?? null;
  return { form, by: "Croner", next };
}

function withLuxon(after: number): number {
  const now = DateTime.fromMillis(after, { zone: ZONE });
  const today = now.set({ hour: 9, minute: 0, second: 0, millisecond: 0 });
  return (today > now ? today : today.plus({ days: 1 })).toMillis();
}
