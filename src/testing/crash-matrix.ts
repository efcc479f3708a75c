/**
 * A crash at every write and every delivery of a scenario, each in an object
 * of its own, and whether all is well in the end. Decides which points there
 * are; one play is `crash-play.ts`.
 */

import { type Played, play } from "./crash-play.ts";
import { InvalidScenarioError } from "./errors.ts";
import type { CrashPoint, Life } from "./life.ts";
import { type Checked, type CrashScenario, checkScenario } from "./scenario.ts";

type Objects = Rpc.DurableObjectBranded | undefined;

/** A crash after which something was wrong. */
export type WrongPoint = CrashPoint & {
  /** The statement, or the delivery. */
  readonly what: string;
  readonly problems: readonly string[];
};

/** What {@link crashAtEveryWrite} has found. `String(report)` is for people. */
export type CrashReport = {
  readonly name: string;
  /** Plays with a crash. */
  readonly points: number;
  /** Those of them in which it came: the order of writes may differ from play to play, and leave the last one out. */
  readonly crashed: number;
  readonly wrong: readonly WrongPoint[];
  /** The statements of the play without a crash; of the second life, where the scenario is played `again`. */
  readonly writes: readonly string[];
  toString(): string;
};

/** Of a statement, for people. */
const MAX_SHOWN = 70;

/**
 * Plays a scenario once without a crash, to count its writes and deliveries, and then once for each of them and each
 * moment with a crash there. After each, {@link invariantsOf} the object has to be empty, and the scenario's own check.
 * What objects log meanwhile is dropped: the log of an object that has died can hold up Vitest for ever.
 *
 * @throws InvalidScenarioError for a scenario that cannot be meant, or that is wrong without a crash
 */
export async function crashAtEveryWrite<T extends Objects>(
  scenario: CrashScenario<T>,
): Promise<CrashReport> {
  const checked = checkScenario(scenario);
  const { again } = checked;
  const whole = await playRight(checked, []);
  if (whole.seen.write.length === 0) {
    throw new InvalidScenarioError(
      checked.name,
      "nothing is written, so there is nothing to crash.",
    );
  }
  return silently(async () => {
    if (again === false) return crashAtAll(checked, [], whole.seen);
    const first = firstCrash(checked.name, whole.seen.write, again);
    const second = await playRight(checked, [first]);
    return crashAtAll(checked, [first], second.seen);
  });
}

/** A play in which nothing may be wrong. */
async function playRight<T extends Objects>(
  scenario: Checked<T>,
  crashes: readonly CrashPoint[],
): Promise<Played> {
  const played = await play(scenario, crashes);
  if (played.problems.length === 0) return played;
  const when = crashes.length === 0 ? "without any crash" : "after the first crash alone";
  throw new InvalidScenarioError(scenario.name, `wrong ${when}: ${played.problems.join("; ")}`);
}

/** Where the first of two crashes comes. */
function firstCrash(name: string, writes: readonly string[], again: true | RegExp): CrashPoint {
  const middle = Math.floor(writes.length / 2);
  const index = again === true ? middle : writes.findIndex((what) => again.test(what));
  if (index < 0) {
    throw new InvalidScenarioError(name, `no write matches again: ${String(again)}.`);
  }
  return { at: "write", number: index + 1, moment: "soon after" };
}

async function crashAtAll<T extends Objects>(
  scenario: Checked<T>,
  earlier: readonly CrashPoint[],
  seen: Life["seen"],
): Promise<CrashReport> {
  const points = pointsOf(scenario, seen);
  const wrong: WrongPoint[] = [];
  let crashed = 0;
  await sideBySide(points, scenario.concurrency, async (point) => {
    const { problems, crashes } = await play(scenario, [...earlier, point]);
    if (crashes.length > earlier.length) crashed++;
    const what = seen[point.at][point.number - 1] ?? "?";
    if (problems.length > 0) wrong.push({ ...point, what, problems });
  });
  const order = (point: CrashPoint) =>
    points.findIndex(({ at, number, moment }) => {
      return at === point.at && number === point.number && moment === point.moment;
    });
  wrong.sort((one, other) => order(one) - order(other));
  const name = earlier.length > 0 ? `${scenario.name}, again` : scenario.name;
  const found = { name, points: points.length, crashed, wrong, writes: seen.write };
  return { ...found, toString: () => textOf(found) };
}

/** In the order in which they come in a life. */
function pointsOf(
  { moments, stride }: Pick<Checked<Objects>, "moments" | "stride">,
  seen: Life["seen"],
): CrashPoint[] {
  const numbers = (at: CrashPoint["at"]) => seen[at].map((_, index) => index + 1);
  const writes = numbers("write").flatMap((number) =>
    moments.map((moment): CrashPoint => ({ at: "write", number, moment })),
  );
  const ofDeliveries = moments.filter((moment) => moment !== "soon after");
  const deliveries = numbers("delivery").flatMap((number) =>
    ofDeliveries.map((moment): CrashPoint => ({ at: "delivery", number, moment })),
  );
  return [...writes, ...deliveries].filter((_, index) => index % stride === 0);
}

async function sideBySide<Item>(
  items: readonly Item[],
  concurrency: number,
  work: (item: Item) => Promise<void>,
): Promise<void> {
  const rest = items.values();
  const worker = async () => {
    for (const item of rest) await work(item);
  };
  await Promise.all(Array.from({ length: concurrency }, worker));
}

const LOGS = ["log", "info", "warn", "error", "debug"] as const;
/** How many are silent now, and what they have put aside. */
let silent = 0;
let loud: object = {};

async function silently<T>(work: () => Promise<T>): Promise<T> {
  if (silent++ === 0) {
    loud = Object.fromEntries(LOGS.map((log) => [log, Reflect.get(console, log)]));
    Object.assign(console, Object.fromEntries(LOGS.map((log) => [log, () => {}])));
  }
  try {
    return await work();
  } finally {
    if (--silent === 0) Object.assign(console, loud);
  }
}

function textOf({ name, points, crashed, wrong }: Omit<CrashReport, "toString">): string {
  const unreached = points === crashed ? "" : `, ${points - crashed} not reached`;
  const lines = wrong.map(({ at, number, moment, what, problems }) => {
    const short = what.replaceAll(/\s+/g, " ").trim().slice(0, MAX_SHOWN);
    return `  ${moment} ${at} ${number} (${short}): ${problems.join("; ")}`;
  });
  const head = `crash matrix: ${name}: ${points} points, ${wrong.length} wrong${unreached}`;
  return [head, ...lines].join("\n");
}
