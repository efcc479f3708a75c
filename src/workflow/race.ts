/** `step.race()`: the first of several steps wins, and wins in every replay. */

import { preview } from "../core/json.ts";
import { oneOf, optionsOf } from "../core/options/option-schemas.ts";
import { isPlainObject } from "../core/options/options.ts";
import { partName } from "../core/steps.ts";
import { KEY, type Refuse, readStep, refusalOf } from "./options.ts";
import { type CallOf, type StepCall, useName } from "./step-call.ts";

/** Steps that have started, by name. */
export type RaceBranches<Values> = { readonly [Name in keyof Values]: PromiseLike<Values[Name]> };

export type RaceOptions = {
  /**
   * The end that wins: `"settled"`, the first of any kind, so that a branch that fails fails the race, as in `Promise.race()`;
   * or `"fulfilled"`, the first that succeeds, as in `Promise.any()`.
   * @default "settled"
   */
  until?: "settled" | "fulfilled";
  /** Tells repeated uses of one step name apart, e.g. in a loop. */
  key?: string;
};

/** The name of the branch that has won, and its result. */
export type RaceWinner<Values> = {
  [Name in keyof Values]: { readonly winner: Name; readonly value: Awaited<Values[Name]> };
}[keyof Values];

export interface RaceSteps {
  /**
   * Waits for the first of several steps. The winner is stored in a step of the platform, so that a replay takes the same
   * branch although the others have ended meanwhile; `Promise.race()` of steps may take another one. The other branches
   * continue, and their results are ignored: what they wait for at the agent is cancelled when the run ends.
   *
   * @example
   * const { winner } = await step.race("paid or too late", {
   *   paid: step.webhook("paid", { from: "stripe" }),
   *   late: step.sleep("limit", "2 days"),
   * });
   * @throws AggregateError where `until` is `"fulfilled"` and all branches have failed
   */
  race<Values extends object>(
    name: string,
    branches: RaceBranches<Values>,
    options?: RaceOptions,
  ): Promise<RaceWinner<Values>>;
}

export const STEPS = {
  race:
    (callOf: CallOf): RaceSteps["race"] =>
    async (name, branches, options = {}) =>
      runRace(callOf(name), branches, options),
};

const MAX_BRANCHES = 100;

const OPTIONS = optionsOf<RaceOptions>()({
  until: oneOf(["settled", "fulfilled"]).default("settled"),
  key: KEY,
});

async function runRace<Values extends object>(
  call: StepCall,
  branches: RaceBranches<Values>,
  options: RaceOptions,
): Promise<RaceWinner<Values>> {
  const refuse = refusalOf("race", call.name);
  const { until, key } = readStep(OPTIONS, options, refuse);
  const entries = checkedBranches(branches, refuse);
  useName(call, "race", key);
  const ends = entries.map(async ([name, branch]) => {
    await (until === "fulfilled" ? branch : branch.catch(() => {}));
    return name;
  });
  const first = await (until === "fulfilled" ? Promise.any(ends) : Promise.race(ends));
  // In a replay, branches that ended later may be first. The stored name decides.
  const identity = { kind: "race", stepName: call.name, key };
  const winner = await call.step.do(partName(identity, "winner"), async () => first);
  const won = entries.find(([name]) => name === winner);
  if (won) return { winner, value: await won[1] } as RaceWinner<Values>;
  const names = entries.map(([name]) => preview(name)).join(", ");
  const remedy = `Keep the branch, or restart the run from the step ${preview(call.name)}.`;
  throw refuse(`this run was won by ${preview(winner)}, which is not among ${names}. ${remedy}`);
}

function checkedBranches(branches: object, refuse: Refuse): [string, Promise<unknown>][] {
  const entries = isPlainObject(branches) ? Object.entries(branches) : [];
  if (entries.length === 0 || entries.length > MAX_BRANCHES) {
    const given = isPlainObject(branches) ? `${entries.length} branches` : preview(branches);
    throw refuse(`got ${given}; expected an object with 1 to ${MAX_BRANCHES} steps by name.`);
  }
  return entries.map(([name, branch]) => {
    const isPromise = typeof (branch as { then?: unknown } | null)?.then === "function";
    // The platform's promises of steps are not of this class.
    if (isPromise) return [name, Promise.resolve(branch)];
    const remedy = "expected the promise of a step, e.g. step.sleep(...)";
    throw refuse(`the branch ${preview(name)} is ${preview(branch)}; ${remedy}.`);
  });
}
