/** Crashes a scenario at every write and every delivery, each in a new object, and reports problems. `crash-play.ts` runs one. */

import { eachOf } from "../core/each.ts";
import { type Played, play } from "./crash-play.ts";
import { InvalidScenarioError } from "./errors.ts";
import type { CrashPoint, Instance, Moment } from "./instance.ts";
import { type Checked, type CrashScenario, checkScenario, type Objects } from "./scenario.ts";

/** A crash that led to problems. */
export type WrongPoint = CrashPoint & {
  /** The statement or the delivery. */
  readonly what: string;
  readonly problems: readonly string[];
};

/** The result of {@link crashAtEveryWrite}. `String(report)` is a readable summary. */
export type CrashReport = {
  readonly name: string;
  /** Runs with a crash. */
  readonly points: number;
  /** Runs in which the crash happened. Writes may come in another order in another run, so the last one may not be reached. */
  readonly crashed: number;
  readonly wrong: readonly WrongPoint[];
  /** The statements of the run without a crash. With `again`, those after the first crash. */
  readonly writes: readonly string[];
  toString(): string;
};

/**
 * Runs a scenario once without a crash, to count its writes and deliveries. Then runs it once for each of them and each
 * moment, with a crash there. After each run, {@link invariantsOf} and the scenario's `check` must find no problem. Logs are
 * dropped meanwhile, because the log of a crashed object can block Vitest.
 *
 * @throws InvalidScenarioError for an invalid scenario, or one that has problems without a crash
 */
export async function crashAtEveryWrite<T extends Objects>(
  scenario: CrashScenario<T>,
): Promise<CrashReport> {
  const checked = checkScenario(scenario);
  const { again } = checked;
  const whole = await playRight(checked, []);
  if (whole.seen.write.length === 0) {
    const problem = "it writes nothing, so there is no point to crash at.";
    throw new InvalidScenarioError(checked.name, problem);
  }
  return silently(async () => {
    if (again === false) return crashAtAll(checked, [], whole.seen);
    const first = firstCrash(checked.name, whole.seen.write, again);
    const second = await playRight(checked, [first]);
    return crashAtAll(checked, [first], second.seen);
  });
}

/** A run that must have no problems. */
async function playRight<T extends Objects>(
  scenario: Checked<T>,
  crashes: readonly CrashPoint[],
): Promise<Played> {
  const played = await play(scenario, crashes);
  if (played.problems.length === 0) return played;
  const when = crashes.length === 0 ? "without a crash" : "after the first crash alone";
  throw new InvalidScenarioError(scenario.name, `problems ${when}: ${played.problems.join("; ")}`);
}

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
  seen: Instance["seen"],
): Promise<CrashReport> {
  const points = pointsOf(scenario, seen);
  const results: WrongPoint[] = [];
  let crashed = 0;
  await eachOf([...points.entries()], scenario.concurrency, async ([index, point]) => {
    const { problems, crashes } = await play(scenario, [...earlier, point]);
    if (crashes.length > earlier.length) crashed++;
    const what = seen[point.at][point.number - 1] ?? "?";
    results[index] = { ...point, what, problems };
  });
  const wrong = results.filter(({ problems }) => problems.length > 0);
  const name = earlier.length > 0 ? `${scenario.name}, again` : scenario.name;
  const found = { name, points: points.length, crashed, wrong, writes: seen.write };
  return { ...found, toString: () => textOf(found) };
}

/** The crash points in the order of a run. */
function pointsOf(
  { moments, stride }: Pick<Checked<Objects>, "moments" | "stride">,
  seen: Instance["seen"],
): CrashPoint[] {
  const points = (at: CrashPoint["at"], moments: readonly Moment[]) =>
    seen[at].flatMap((_, index) => moments.map((moment) => ({ at, number: index + 1, moment })));
  const ofDeliveries = moments.filter((moment) => moment !== "soon after");
  return [...points("write", moments), ...points("delivery", ofDeliveries)].filter(
    (_, index) => index % stride === 0,
  );
}

const LOGS = ["log", "info", "warn", "error", "debug"] as const;
/** How many calls silence the console now, and its original functions. */
let silenced = 0;
let originals: object = {};

async function silently<T>(work: () => Promise<T>): Promise<T> {
  if (silenced++ === 0) {
    originals = Object.fromEntries(LOGS.map((log) => [log, Reflect.get(console, log)]));
    Object.assign(console, Object.fromEntries(LOGS.map((log) => [log, () => {}])));
  }
  try {
    return await work();
  } finally {
    if (--silenced === 0) Object.assign(console, originals);
  }
}

function textOf({ name, points, crashed, wrong }: Omit<CrashReport, "toString">): string {
  const unreached = points === crashed ? "" : `, ${points - crashed} not reached`;
  const lines = wrong.map(({ at, number, moment, what, problems }) => {
    const short = what.replaceAll(/\s+/g, " ").trim().slice(0, 70);
    return `  ${moment} ${at} ${number} (${short}): ${problems.join("; ")}`;
  });
  const head = `crash matrix: ${name}: ${points} points, ${wrong.length} wrong${unreached}`;
  return [head, ...lines].join("\n");
}
