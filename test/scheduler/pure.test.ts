/** Names and decisions, over all that they may be given. */

import type { ThinkScheduledTaskContext, ThinkScheduledTasks } from "@cloudflare/think";
import fc from "fast-check";
import { describe, expect, expectTypeOf, it } from "vitest";
import { digest } from "../../src/core/text.ts";
import { instanceIdFor, jitterShare } from "../../src/scheduler/keys.ts";
import type { Run, TaskRow } from "../../src/scheduler/rows.ts";
import { admit, startable } from "../../src/scheduler/runs/overlap.ts";
import { readTask } from "../../src/scheduler/tasks/declared.ts";
import { dueOccurrences } from "../../src/scheduler/tasks/occurrences.ts";
import { planChanges } from "../../src/scheduler/tasks/reconcile.ts";
import type {
  CatchUp,
  Overlap,
  ScheduledTaskContext,
  ScheduledTasks,
} from "../../src/scheduler/types.ts";
import { ANY_CHARACTER } from "../support/characters.ts";

const MINUTE = 60_000;
const T0 = Date.UTC(2030, 0, 7);
const VALID = /^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$/;

const KEPT = { ageMs: 30 * 86_400_000, hasOpenRuns: () => false };
const OVERLAPS: Overlap[] = ["skip", "queue", "cancelPrevious", "allow"];
const CONTEXT = { defaultTimezone: "UTC", checkOwner: undefined, jitterShare: () => 0.5 };

describe("instanceIdFor", () => {
  const key = fc.oneof(
    fc.string({ unit: ANY_CHARACTER, maxLength: 300 }),
    fc.string({ maxLength: 300 }),
    fc.stringMatching(/^[A-Za-z0-9_-]{0,150}$/),
  );

  it("an instance id is always valid, always the same, and a valid key unchanged", () => {
    fc.assert(
      fc.property(key, (text) => {
        const id = instanceIdFor(text);
        expect(id).toMatch(VALID);
        expect(instanceIdFor(text)).toBe(id);
        if (VALID.test(text)) expect(id).toBe(text);
      }),
    );
  });

  it("keys that differ in special characters have different instance ids", () => {
    const alike = ["a:b", "a/b", "a b", "-a-b", "a--b:", "a:b:", ":a:b"];
    expect(new Set(alike.map(instanceIdFor)).size).toBe(alike.length);
    fc.assert(
      fc.property(key, key, (a, b) => {
        if (a !== b) expect(instanceIdFor(a)).not.toBe(instanceIdFor(b));
      }),
    );
    // Halves of surrogate pairs, which UTF-8 does not tell apart.
    expect(instanceIdFor("\ud800")).not.toBe(instanceIdFor("\ud801"));
  });

  it("an instance id begins with the readable part of its key", () => {
    expect(instanceIdFor("report:2026-01-05")).toMatch(/^report-2026-01-05-[\w-]{22}$/);
    expect(instanceIdFor("")).toMatch(/^id-/);
    expect(instanceIdFor("é".repeat(200))).toMatch(/^id-/);
  });
});

it("the jitter of a task is always the same, and jitters are spread evenly", () => {
  const shares = Array.from({ length: 1_000 }, (_, index) => jitterShare("me", `t${index}`));
  expect(Math.min(...shares)).toBeGreaterThanOrEqual(0);
  expect(Math.max(...shares)).toBeLessThan(1);
  const lower = shares.filter((share) => share < 0.5).length;
  expect(lower).toBeGreaterThan(400);
  expect(lower).toBeLessThan(600);
  expect(jitterShare("me", "t1")).toBe(shares[1]);
  expect(jitterShare("you", "t1")).not.toBe(shares[1]);
});

function declared(options: object = {}) {
  return readTask("t", { schedule: "every 10 minutes", handler: () => {}, ...options }, CONTEXT);
}

function rowOf(over: Partial<TaskRow> = {}): TaskRow {
  const valid = new Map([["t", declared()]]);
  const [row] = planChanges({ valid, invalid: new Map() }, new Map(), T0, KEPT).insert;
  if (!row) throw new Error("No row was planned");
  return { ...row, ...over };
}

describe("due occurrences", () => {
  const catchUp = fc.oneof<fc.Arbitrary<CatchUp>[]>(
    fc.constantFrom<CatchUp>("latest", "none", "all"),
    fc.integer({ min: 1, max: 300 * MINUTE }).map((all) => ({ all })),
  );

  it("S1 S3: each occurrence that has passed fires or is missed once, and the next one is the first after them", () => {
    const offset = fc.integer({ min: 0, max: 400 * MINUTE });
    const jitter = fc.option(fc.integer({ min: 1, max: 30 * MINUTE }), { nil: undefined });
    fc.assert(
      fc.property(catchUp, offset, jitter, (policy, late, jitterMs) => {
        const options = { catchUp: policy, ...(jitterMs !== undefined && { jitter: jitterMs }) };
        const task = declared(options);
        const row = rowOf();
        const now = T0 + late;
        const horizon = now - task.offsetMs;
        const passed = Math.max(0, Math.floor((horizon - T0) / (10 * MINUTE)));
        const due = dueOccurrences(task, row, now);
        if (passed === 0) {
          expect(due).toBeUndefined();
          return;
        }
        const occurrences = due?.occurrences.map(({ occurrence }) => occurrence) ?? [];
        expect(occurrences.length + (due?.missed ?? 0)).toBe(passed);
        expect(due?.nextAt).toBe(T0 + (passed + 1) * 10 * MINUTE);
        expect(occurrences).toEqual([...new Set(occurrences)].toSorted((a, b) => a - b));
        const latest = T0 + passed * 10 * MINUTE;
        // Those that fire are the newest, without a hole.
        expect(occurrences).toEqual(
          occurrences.map((_, i) => latest - (occurrences.length - 1 - i) * 10 * MINUTE),
        );
        const isOnTime = horizon - latest <= MINUTE;
        if (policy === "latest" || isOnTime) expect(occurrences.at(-1)).toBe(latest);
        if (policy === "none") expect(occurrences.length).toBe(isOnTime ? 1 : 0);
      }),
    );
  });

  it("S1: a task that is paused or has no occurrence left has no due occurrences", () => {
    const now = T0 + 60 * MINUTE;
    expect(dueOccurrences(declared(), rowOf({ pausedAt: T0 }), now)).toBeUndefined();
    expect(dueOccurrences(declared(), rowOf({ nextAt: null }), now)).toBeUndefined();
  });
});

const someRun = fc.record({
  occurrence: fc.integer({ min: 0, max: 50 }),
  status: fc.constantFrom("waiting" as const, "running" as const),
  cause: fc.constantFrom(
    "schedule" as const,
    "catch-up" as const,
    "trigger" as const,
    "backfill" as const,
  ),
  attempts: fc.integer({ min: 0, max: 2 }),
  notBefore: fc.constantFrom(0, 100),
});

const someRuns = fc.array(someRun, { maxLength: 12 }).map((runs) =>
  runs.map(
    (run, index): Run => ({
      ...run,
      attempts: run.status === "running" ? Math.max(1, run.attempts) : run.attempts,
      taskId: "t",
      triggerKey: String(index),
      firedAt: 0,
      lagMs: 0,
      endedAt: null,
      errorName: null,
      errorMessage: null,
      reason: null,
      submissionId: null,
    }),
  ),
);

describe("runs that may start", () => {
  it("S3: only waiting runs that are due start, one at a time unless overlap is allow", () => {
    fc.assert(
      fc.property(fc.constantFrom(...OVERLAPS), someRuns, (overlap, open) => {
        const next = startable(overlap, open, 50);
        for (const run of next) expect(run).toMatchObject({ status: "waiting", notBefore: 0 });
        const isRunning = open.some(({ status }) => status === "running");
        if (overlap !== "allow") expect(next.length).toBeLessThanOrEqual(isRunning ? 0 : 1);
        const backfills = [...next, ...open.filter(({ status }) => status === "running")].filter(
          ({ cause }) => cause === "backfill",
        );
        const before = open.filter((run) => run.cause === "backfill" && run.status === "running");
        expect(backfills.length).toBeLessThanOrEqual(Math.max(1, before.length));
      }),
    );
  });

  it("S3: a waiting run starts when no other runs and its time has come", () => {
    fc.assert(
      fc.property(fc.constantFrom(...OVERLAPS), someRuns, (overlap, runs) => {
        const open = runs.filter(({ status }) => status === "waiting");
        expect(startable(overlap, open, 100).length > 0).toBe(open.length > 0);
      }),
    );
  });

  it("S3: a backfill is not cancelled, and no reason to skip a run", () => {
    fc.assert(
      fc.property(fc.constantFrom(...OVERLAPS), someRuns, (overlap, open) => {
        const task = { overlap, catchUpMs: "latest", maxWaiting: 1_000 } as const;
        const { room, cancelled } = admit(task, open);
        const others = open.filter(({ cause }) => cause !== "backfill");
        expect(cancelled.some(({ cause }) => cause === "backfill")).toBe(false);
        expect(cancelled).toEqual(overlap === "cancelPrevious" ? others : []);
        expect(room === 0).toBe(overlap === "skip" && others.length > 0);
      }),
    );
  });

  it("S3: a run that enters while missed occurrences are caught up queues behind them", () => {
    fc.assert(
      fc.property(someRuns, (open) => {
        const maxWaiting = 3;
        const { room } = admit({ overlap: "skip", catchUpMs: 60_000, maxWaiting }, open);
        const others = open.filter(({ cause }) => cause !== "backfill");
        const isCatchingUp = others.some(({ cause }) => cause === "catch-up");
        const waiting = others.filter(({ status }) => status === "waiting").length;
        const isSkipped = isCatchingUp ? waiting >= maxWaiting : others.length > 0;
        expect(room === 0).toBe(isSkipped);
      }),
    );
  });
});

describe("changes of rows by a reconcile", () => {
  it("S4: unchanged declarations change no row, at any time", () => {
    const valid = new Map([["t", declared()]]);
    const stored = new Map([["t", rowOf()]]);
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 1e12 }), (later) => {
        const changes = planChanges({ valid, invalid: new Map() }, stored, T0 + later, KEPT);
        expect(changes).toEqual({ insert: [], update: [], omit: [], delete: [] });
      }),
    );
  });

  it("S4: the row of an invalid task is kept, and that of an undeclared one is omitted", () => {
    const error = new Error("no");
    const invalid = new Map([["t", { taskId: "t", schedule: "x", error }]]);
    const stored = new Map([
      ["t", rowOf()],
      ["u", rowOf({ taskId: "u" })],
    ]);
    const changes = planChanges({ valid: new Map(), invalid }, stored, T0, KEPT);
    const omit = [{ ...rowOf({ taskId: "u" }), omittedAt: T0 }];
    expect(changes).toEqual({ insert: [], update: [], omit, delete: [] });
  });

  it.each([
    ["an interval", "every 10 minutes", 7, 7],
    ["an interval that is due", "every 10 minutes", -3, -3],
    ["a time of day that is due", "every day at 23:59", -1, -1],
    ["a time that the task has no more", "every day at 23:59", -2, 1_439],
  ])(
    "S1: a new task continues %s that another scheduler has armed",
    (_, schedule, armed, expected) => {
      const valid = new Map([["t", declared({ schedule })]]);
      const at = (minute: number) => T0 + minute * MINUTE;
      const adopted = new Map([["t", { at: at(armed), isDone: false }]]);
      const [row] = planChanges({ valid, invalid: new Map() }, new Map(), T0, KEPT, adopted).insert;
      expect(row?.nextAt).toBe(at(expected));
    },
  );

  it("S3 S4: an edit is stored at once, or with the occurrence that is overdue", () => {
    const edited = declared({ schedule: "every 15 minutes" });
    const at = (now: number) =>
      planChanges(
        { valid: new Map([["t", edited]]), invalid: new Map() },
        new Map([["t", rowOf()]]),
        now,
        KEPT,
      ).update;
    expect(at(T0 + 9 * MINUTE)).toMatchObject([{ missed: 0, nextAt: T0 + 24 * MINUTE }]);
    expect(at(T0 + 10 * MINUTE)).toEqual([]);
  });

  it("S4: after an edit of a task whose long times are stored as a digest, its next occurrence fires", () => {
    const row = rowOf({ fingerprint: digest("times of more than 2,000 characters") });
    const due = dueOccurrences(
      declared({ schedule: "every 15 minutes", catchUp: "all" }),
      row,
      T0 + 25 * MINUTE,
    );
    expect(due).toMatchObject({ occurrences: [{ occurrence: T0 + 10 * MINUTE }], missed: 0 });
  });
});

it("Think's types of declarations and handlers are accepted", () => {
  expectTypeOf<ThinkScheduledTasks>().toExtend<ScheduledTasks>();
  expectTypeOf<ScheduledTaskContext>().toExtend<ThinkScheduledTaskContext>();
});
