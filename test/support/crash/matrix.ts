/**
 * The crash matrix: the object crashes at any write or delivery of a scenario. The scenarios are data in the crash tests of
 * each module. This file plays them as tests and checks that no verb is left out.
 *
 * `VITE_PERDURE_CRASH_STRIDE=1` plays all points, and every seventh of those of a second crash. Otherwise every 29th point
 * is played, and for every second scenario a second crash, soon after its most interesting write.
 */

import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import {
  type CrashReport,
  type CrashScenario,
  crashAtEveryWrite,
  type Moment,
} from "../../../src/testing/index.ts";
import { HANG_MS, sizeOf } from "../sizes.ts";
import { describeLeftRows } from "./rows.ts";

type Objects = Rpc.DurableObjectBranded | undefined;

type Scenario<T extends Objects> = Omit<CrashScenario<T>, "name" | "stride" | "again" | "moments">;

export type Plan<T extends Objects> = Scenario<T> & {
  /** Verbs that it calls, e.g. `Outbox.put`. */
  readonly verbs: readonly string[];
  /** The first write that matches: a crash soon after it is always played, and every second crash follows on it. */
  readonly soonAfter: RegExp;
};

/** A scenario of the matrix, whatever its objects are. */
export type Planned = Pick<Plan<Objects>, "verbs" | "soonAfter"> & {
  crash(
    points: Pick<CrashScenario<Objects>, "name" | "moments" | "stride" | "again">,
  ): Promise<CrashReport>;
};

export function planned<T extends Objects>({ verbs, soonAfter, ...scenario }: Plan<T>): Planned {
  return {
    verbs,
    soonAfter,
    crash: (points) =>
      crashAtEveryWrite<T>({
        concurrency: CONCURRENCY,
        timeout: HANG_MS,
        ...scenario,
        check: async (stub, run) => [
          ...((await scenario.check?.(stub, run)) ?? []),
          ...(await describeLeftRows(run.stub(), scenario.expect)),
        ],
        ...points,
      } as CrashScenario<T>),
  };
}

/** By name, which says what the caller does. */
export type Plans = Readonly<Record<string, Planned>>;

/** A class, or a module of functions, whose members are verbs. */
type Owner = object | (abstract new (...args: never[]) => object);

export type Verbs = {
  /** By name. Every public method of the classes, and every function of the modules, is a verb. */
  readonly owners: Readonly<Record<string, Owner>>;
  /** Verbs that no crash can harm, and why. */
  readonly harmless: Readonly<Record<string, string>>;
};

/** A prime that divides none of the three moments: both the writes and the moments vary. */
const STRIDE = sizeOf("CRASH_STRIDE", 29);
const IS_FULL = STRIDE === 1;
/** Of the points of a second crash. */
const STRIDE_AGAIN = IS_FULL ? 7 : 3 * STRIDE - 1;
const MOMENTS: readonly Moment[] = ["soon after", "before", "after"];
/** Plays of one scenario at a time. Vitest runs five scenarios at a time. */
const CONCURRENCY = 4;
const TIMEOUT_MS = 3_600_000;

/** A second crash is tried in every second scenario, and in a full run in all. */
export const isCrashedAgain = (index: number): boolean => IS_FULL || index % 2 === 0;

/** Each scenario begins with another moment, so that its first points differ. */
export function momentsFrom(index: number): readonly Moment[] {
  const first = index % MOMENTS.length;
  return [...MOMENTS.slice(first), ...MOMENTS.slice(0, first)];
}

type Total = { points: number; crashed: number; wrong: number };

/**
 * Plays each scenario as a test and prints what was found. `npm test` adds up the last line of each file.
 *
 * @param play once, and perhaps once more with a second crash
 * @returns the counts, complete when all tests have run
 */
export function playScenarios<Scenario extends { readonly name: string }>(
  title: string,
  scenarios: readonly Scenario[],
  play: (scenario: Scenario, index: number) => Promise<readonly CrashReport[]>,
): Readonly<Total> {
  const lines: string[] = [];
  const total: Total = { points: 0, crashed: 0, wrong: 0 };
  afterAll(() => {
    lines.push(`crash matrix total: ${total.points} points, ${total.wrong} wrong`);
    console.log(lines.join("\n"));
  });
  describe.concurrent(title, () => {
    it.each(scenarios.map((scenario, index) => ({ name: scenario.name, scenario, index })))(
      "$name",
      async ({ scenario, index }) => {
        const reports = await play(scenario, index);
        for (const report of reports) {
          lines.push(String(report));
          total.points += report.points;
          total.crashed += report.crashed;
          total.wrong += report.wrong.length;
        }
        expect(reports.flatMap(({ wrong }) => wrong)).toEqual([]);
      },
      TIMEOUT_MS,
    );
  });
  return total;
}

/**
 * Plays the scenarios of a module. Call it once in a file.
 *
 * @param guarantees prefix of the names of the tests, e.g. `O1 O2`
 */
export function playMatrix(guarantees: string, plans: Plans, { owners, harmless }: Verbs): void {
  const called = new Set<string>();
  let restore = () => {};

  beforeAll(() => {
    const forget = noteCalls(owners, called);
    // Errors that the scenarios cause on purpose.
    const log = vi.spyOn(console, "error").mockImplementation(() => {});
    restore = () => {
      forget();
      log.mockRestore();
    };
  });
  afterAll(() => restore());

  const total = playScenarios(
    `${guarantees}: all is well after a crash at any write or delivery of`,
    Object.entries(plans).map(([name, plan]) => ({ name, plan })),
    async ({ name, plan }, index) => {
      const moments = momentsFrom(IS_FULL ? 0 : index);
      const once = await plan.crash({ name, moments, stride: STRIDE });
      if (!isCrashedAgain(index)) return [once];
      const again = { name, moments, stride: STRIDE_AGAIN, again: plan.soonAfter };
      return [once, await plan.crash(again)];
    },
  );

  it(`${guarantees}: every verb is crashed, or cannot be harmed`, () => {
    const played = new Set(Object.values(plans).flatMap(({ verbs }) => verbs));
    const accounted = [...played, ...Object.keys(harmless)];
    expect(accounted.toSorted()).toEqual(verbsOf(owners).toSorted());
    expect([...played].filter((verb) => !called.has(verb))).toEqual([]);
    // The number of writes varies from play to play, so the last points of some scenarios are not reached: three of a short one.
    const missed = total.points - total.crashed;
    expect(missed).toBeLessThanOrEqual(Math.max(3, Math.floor(total.points / 4)));
  });
}

/** All public members of the owners, as `Owner.name`. */
function verbsOf(owners: Verbs["owners"]): string[] {
  return Object.entries(owners).flatMap(([owner, value]) =>
    Object.getOwnPropertyNames(membersOf(value))
      .filter((name) => name !== "constructor")
      .map((name) => `${owner}.${name}`),
  );
}

function membersOf(owner: Owner): object {
  return typeof owner === "function" ? (owner.prototype as object) : owner;
}

/**
 * Records which methods are called, so that a scenario that names a verb must call it. Functions of a module cannot be
 * watched and count as called. Returns a function that undoes it.
 */
function noteCalls(owners: Verbs["owners"], called: Set<string>): () => void {
  const undo: (() => void)[] = [];
  for (const verb of verbsOf(owners)) {
    const [owner = "", name = ""] = verb.split(".");
    const value = owners[owner] ?? {};
    const members = membersOf(value);
    const property = Object.getOwnPropertyDescriptor(members, name);
    if (typeof value !== "function" || typeof property?.value !== "function") {
      called.add(verb);
      continue;
    }
    const method = property.value as (...args: unknown[]) => unknown;
    const noted = function (this: unknown, ...args: unknown[]) {
      called.add(verb);
      return method.apply(this, args);
    };
    Object.defineProperty(members, name, { ...property, value: noted });
    undo.push(() => Object.defineProperty(members, name, property));
  }
  return () => {
    for (const one of undo) one();
  };
}
