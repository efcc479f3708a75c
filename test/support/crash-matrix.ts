/**
 * The crash matrix: each verb of a room, and what happens to it when the object
 * dies at any write or delivery. The scenarios are data, one file for each
 * room; this one plays them as tests, and sees to it that no verb is left out.
 *
 * `VITE_PERDURE_CRASH_STRIDE=1` plays all points, and every seventh of those of
 * a second crash. Without it every so manieth is played, and for each scenario
 * the one soon after its most interesting write, with a second crash.
 */

import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import {
  type CrashReport,
  type CrashScenario,
  crashAtEveryWrite,
  type Moment,
} from "../../src/testing/index.ts";
import { knob } from "./knobs.ts";

type Objects = Rpc.DurableObjectBranded | undefined;

type Scenario<T extends Objects> = Omit<CrashScenario<T>, "name" | "stride" | "again" | "moments">;

export type Plan<T extends Objects> = Scenario<T> & {
  /** Verbs that it plays, e.g. `Outbox.put`. */
  readonly verbs: readonly string[];
  /** The first write that matches: a crash soon after it is always played, and every second crash follows on it. */
  readonly soonAfter: RegExp;
};

/** What is played under a name, whatever the objects are. */
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
        ...scenario,
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
  /** What no crash can do anything to, and why. */
  readonly harmless: Readonly<Record<string, string>>;
};

/** A prime that divides none of the three moments: both the writes and the moments vary. */
const STRIDE = knob("CRASH_STRIDE", 29);
const IS_FULL = STRIDE === 1;
/** Of the points of a second crash. */
const STRIDE_AGAIN = IS_FULL ? 7 : 3 * STRIDE - 1;
const MOMENTS: readonly Moment[] = ["soon after", "before", "after"];
/** Plays of one scenario at a time; five scenarios are played beside each other. */
const CONCURRENCY = 4;

/** Another moment comes first in each scenario, so that also the first points differ. */
function momentsFrom(index: number): readonly Moment[] {
  const first = IS_FULL ? 0 : index % MOMENTS.length;
  return [...MOMENTS.slice(first), ...MOMENTS.slice(0, first)];
}

/**
 * Plays the plans of one kind of object, a test for each. Call it once in a file for each room.
 *
 * @param guarantees begins the names of the tests, e.g. `O1 O2`
 */
export function playMatrix(guarantees: string, plans: Plans, { owners, harmless }: Verbs): void {
  const lines: string[] = [];
  const total = { points: 0, crashed: 0, wrong: 0 };
  const called = new Set<string>();
  let restore = () => {};

  beforeAll(() => {
    const forget = noteCalls(owners, called);
    // What goes wrong as it is meant to.
    const log = vi.spyOn(console, "error").mockImplementation(() => {});
    restore = () => {
      forget();
      log.mockRestore();
    };
  });
  afterAll(() => {
    restore();
    lines.push(`crash matrix total: ${total.points} points, ${total.wrong} wrong`);
    console.log(lines.join("\n"));
  });

  describe.concurrent(`${guarantees} whenever the object crashes, all is well in the end`, () => {
    it.each(Object.entries(plans).map(([name, plan], index) => ({ name, plan, index })))(
      "$name",
      async ({ name, plan, index }) => {
        const moments = momentsFrom(index);
        const once = await plan.crash({ name, moments, stride: STRIDE });
        const again = await plan.crash({
          ...{ name, moments, stride: STRIDE_AGAIN },
          again: plan.soonAfter,
        });
        for (const report of [once, again]) {
          lines.push(String(report));
          total.points += report.points;
          total.crashed += report.crashed;
          total.wrong += report.wrong.length;
        }
        expect([...once.wrong, ...again.wrong]).toEqual([]);
      },
      1_200_000,
    );
  });

  it(`${guarantees} every verb is played, or cannot be harmed`, () => {
    const played = new Set(Object.values(plans).flatMap(({ verbs }) => verbs));
    const accounted = [...played, ...Object.keys(harmless)];
    expect(accounted.toSorted()).toEqual(verbsOf(owners).toSorted());
    expect([...played].filter((verb) => !called.has(verb))).toEqual([]);
    // Plays differ a little, and leave the last points of some out.
    expect(total.crashed).toBeGreaterThan(total.points * 0.75);
  });
}

/** All that can be called from outside, as `Owner.name`. */
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
 * Remembers which methods were called: a scenario that names a verb plays it. Functions of a module are taken at their
 * word. Returns what undoes it.
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
