/** Schedules as literal types: S2 what the parser takes compiles, and a mistake is shown where it stands. */

import { describe, expect, expectTypeOf, it } from "vitest";
import {
  type AnyTasks,
  type CheckedTasks,
  defineScheduledTasks,
} from "../../../src/scheduler/define.ts";
import type { Schedule } from "../../../src/scheduler/language/literal.ts";
import { parseSchedule } from "../../../src/scheduler/language/parse.ts";
import type { ScheduledTask } from "../../../src/scheduler/types.ts";
import { VALID, type ValidText } from "./valid-texts.ts";

type NormalText = (typeof VALID)[ValidText];

function define<const T extends AnyTasks>(tasks: T & CheckedTasks<T>): T {
  return tasks;
}

describe("Schedule", () => {
  it("S2: the type accepts every text that the parser accepts, and its usual spelling", () => {
    expectTypeOf<Schedule<ValidText>>().toEqualTypeOf<ValidText>();
    expectTypeOf<Schedule<NormalText>>().toEqualTypeOf<NormalText>();
    for (const text of [...Object.keys(VALID), ...Object.values(VALID)]) {
      expect(() => parseSchedule(text, { timezone: "UTC" })).not.toThrow();
    }
  });

  it("S2: the type accepts white space of any kind, as the parser does", () => {
    const text = "every\n  day\tat 09:00,\r\n17:30\n";
    expectTypeOf<Schedule<typeof text>>().toEqualTypeOf<typeof text>();
    expect(parseSchedule(text, { timezone: "UTC" }).text).toBe("every day at 09:00,17:30");
  });

  it("S2: wide types pass", () => {
    expectTypeOf<Schedule<string>>().toEqualTypeOf<string>();
    expectTypeOf<Schedule<`every ${number} minutes`>>().toEqualTypeOf<`every ${number} minutes`>();
    expectTypeOf<Schedule<`every day at ${string}`>>().toEqualTypeOf<`every day at ${string}`>();
  });

  it("S2: an invalid time, date or count has its message", () => {
    expectTypeOf<
      Schedule<"every day at 25:00">
    >().toEqualTypeOf<`"25:00" is not a valid time (00:00 to 23:59)`>();
    expectTypeOf<
      Schedule<"every day at 09:00, 9:30">
    >().toEqualTypeOf<`"9:30" is not a valid time (00:00 to 23:59)`>();
    expectTypeOf<
      Schedule<"every day at 09:00 until 2026-02-30">
    >().toEqualTypeOf<`"2026-02-30" is not a valid date (YYYY-MM-DD)`>();
    expectTypeOf<
      Schedule<"every day at 09:00 except 2026-12-25,26-12-25">
    >().toEqualTypeOf<`"26-12-25" is not a valid date (YYYY-MM-DD)`>();
    expectTypeOf<
      Schedule<"every 0 minutes">
    >().toEqualTypeOf<`"0" is not a valid count (1 to 52596000)`>();
    expectTypeOf<
      Schedule<"every 100000000 minutes">
    >().toEqualTypeOf<`"100000000" is not a valid count (1 to 52596000)`>();
    expectTypeOf<Schedule<"every day">>().toEqualTypeOf<'expected "at" and a time (HH:MM)'>();
    expectTypeOf<
      Schedule<"every month on 1 at">
    >().toEqualTypeOf<'expected "at" and a time (HH:MM)'>();
  });

  it("S2: an invalid word has its message", () => {
    expectTypeOf<Schedule<"every 1 hours">>().toEqualTypeOf<'expected "1 hour", not "1 hours"'>();
    expectTypeOf<Schedule<"every 2 hour">>().toEqualTypeOf<'expected "2 hours", not "2 hour"'>();
    expectTypeOf<
      Schedule<"daily at 09:00">
    >().toEqualTypeOf<'a schedule begins with every, cron or once, not "daily"'>();
    expectTypeOf<
      Schedule<"every week on mondey at 09:00">
    >().toEqualTypeOf<'"mondey" is not a weekday (monday to sunday, or mon to sun)'>();
    expectTypeOf<
      Schedule<"every month on sixth monday at 09:00">
    >().toEqualTypeOf<'"sixth monday" is not a day of a month (1 to 31, first day, last day, first monday, last friday or first weekday)'>();
    expectTypeOf<
      Schedule<"every year on february 30 at 09:00">
    >().toEqualTypeOf<'"february 30" is not a day of a year: february has no such day'>();
    expectTypeOf<
      Schedule<"cron 0 9 * * in UTC">
    >().toEqualTypeOf<"there are 4 cron fields: expected 5, or 6 with seconds first">();
    expectTypeOf<
      Schedule<"every day at 09:00 in UTC in UTC">
    >().toEqualTypeOf<'"in" is repeated'>();
    expectTypeOf<
      Schedule<"every day at 09:00 on monday">
    >().toEqualTypeOf<'expected in, except, starting, until or the end, not "on"'>();
  });

  it("S2: a union is split into its valid and invalid texts", () => {
    expectTypeOf<Schedule<"every minute" | "every minutes">>().toEqualTypeOf<
      | "every minute"
      | '"every" must be followed by a number, minute, hour, day, weekday, weekend, week, month, quarter, year or a weekday, not "minutes"'
    >();
  });
});

describe("CheckedTasks", () => {
  it("S4: each mistake is shown at its own task's schedule", () => {
    const wide: string = "every day at 09:00";
    const tasks = define({
      good: { schedule: "every weekday at 09:00", prompt: "go" },
      bad: {
        // @ts-expect-error "25:00" is not a valid time
        schedule: "every day at 25:00",
        prompt: "go",
      },
      wide: { schedule: wide, prompt: "go" },
      worse: {
        prompt: "go",
        // @ts-expect-error singular
        schedule: "every 1 hours",
      },
    });
    expectTypeOf(tasks.good.schedule).toEqualTypeOf<"every weekday at 09:00">();
    expectTypeOf(tasks.wide.schedule).toEqualTypeOf<string>();
    expect(tasks.good.schedule).toBe("every weekday at 09:00");

    type Bad = { bad: { schedule: "every day at 25:00"; prompt: string } };
    expectTypeOf<NonNullable<CheckedTasks<Bad>["bad"]["schedule"]>>().toEqualTypeOf<{
      readonly mistake: '"25:00" is not a valid time (00:00 to 23:59)';
    }>();
  });
});

describe("defineScheduledTasks()", () => {
  it("S4: the handler of each task is typed, also beside an invalid task", () => {
    const shared = defineScheduledTasks({ hourly: { schedule: "every hour", prompt: "go" } });
    const minutes: number = 5;
    const tasks = defineScheduledTasks({
      ...shared,
      often: { schedule: `every ${minutes} minutes`, prompt: "go", except: ["2026-12-25"] },
      good: {
        schedule: "every day at 09:00",
        handler: (context) => {
          expectTypeOf(context.idempotencyKey).toEqualTypeOf<string>();
        },
      },
      bad: {
        // @ts-expect-error no such weekday
        schedule: "every mondey at 09:00",
        handler: ({ signal }) => {
          expectTypeOf(signal).toEqualTypeOf<AbortSignal>();
        },
      },
    });
    expect(Object.keys(tasks)).toEqual(["hourly", "often", "good", "bad"]);
  });

  it("S4: timezone on an interval is an error at its place, as in Think's types", () => {
    const minutes: number = 5;
    defineScheduledTasks({
      // @ts-expect-error intervals count real time
      plain: { schedule: "every 15 minutes", timezone: "UTC", prompt: "go" },
      // @ts-expect-error also as a pattern
      pattern: { schedule: `every ${minutes} minutes` as const, timezone: "UTC", prompt: "go" },
      // @ts-expect-error in any case, and with a handler
      hourly: { schedule: "Every  hour", timezone: "UTC", handler: () => {} },
      limited: { schedule: "every 2 hours starting 2026-01-05", timezone: "UTC", prompt: "go" },
      excepted: { schedule: "every hour", timezone: "UTC", except: ["2026-12-25"], prompt: "go" },
      window: { schedule: "every hour between 09:00 and 17:00", timezone: "UTC", prompt: "go" },
      none: { schedule: "every 15 minutes", timezone: undefined, prompt: "go" },
    });
  });

  it("S4: a wrong option of one task hides no error of the others", () => {
    defineScheduledTasks({
      // @ts-expect-error no such overlap
      option: { schedule: "every day at 09:00", overlap: "sometimes", prompt: "go" },
      // @ts-expect-error 25:00 is not a valid time
      time: { schedule: "every day at 25:00", prompt: "go" },
      // @ts-expect-error neither a prompt nor a handler
      neither: { schedule: "every day at 09:00" },
      // @ts-expect-error a prompt and a handler
      both: { schedule: "every day at 09:00", prompt: "go", handler: () => {} },
      // @ts-expect-error no number
      waiting: { schedule: "every day at 09:00", prompt: "go", maxWaiting: "3" },
      // @ts-expect-error no schedule
      missing: { prompt: "go" },
      // @ts-expect-error no function
      noHandler: { schedule: "every day at 09:00", handler: 5 },
      // @ts-expect-error no text
      schedule: { schedule: 5, prompt: "go" },
      handler: {
        schedule: "every day at 09:00",
        handler: (context) => {
          expectTypeOf(context.scheduledFor).toEqualTypeOf<number>();
        },
      },
      // @ts-expect-error no such weekday
      weekday: { schedule: "every mondey at 09:00", prompt: "go" },
      own: { schedule: "every day at 09:00", prompt: "go", owner: "sales", description: "Works." },
    });
  });

  it("S4: a handler may return anything, like the workflow that it started", () => {
    const tasks = defineScheduledTasks({
      value: { schedule: "every day at 09:00", handler: () => 7 },
      promise: { schedule: "every day at 09:00", handler: async () => ({ id: "started" }) },
    });
    expect(Object.keys(tasks)).toEqual(["value", "promise"]);
  });

  it("S4: tasks of an interface are accepted, and one that does not fit is refused", () => {
    interface Own {
      schedule: string;
      prompt: string;
      team: string;
    }
    interface Wrong {
      schedule: number;
      prompt: string;
    }
    const own: Own = { schedule: "every hour", prompt: "go", team: "sales" };
    const wrong: Wrong = { schedule: 5, prompt: "go" };
    const tasks = defineScheduledTasks({ own });
    expectTypeOf(tasks.own).toEqualTypeOf<Own>();
    // @ts-expect-error a schedule is a text
    defineScheduledTasks({ own, wrong });
  });

  it("S4: a record that is built at run time is returned as it is", () => {
    const built: Record<string, ScheduledTask> = {};
    expectTypeOf(defineScheduledTasks(built)).toExtend<Record<string, ScheduledTask>>();
    expect(defineScheduledTasks(built)).toBe(built);
  });
});
