/** A crash scenario as it is written: what is played, and what is expected of it. Checks it; plays nothing. */

import { DURATION_FORMS, type Duration, millisecondsOf } from "../core/duration.ts";
import { preview } from "../core/json.ts";
import { problemOfNames } from "../core/options.ts";
import { InvalidScenarioError } from "./errors.ts";
import type { InvariantOptions } from "./invariants/invariants.ts";
import type { Moment } from "./life.ts";

/** One play of a scenario, in an object of its own. */
export type CrashRun<T extends Rpc.DurableObjectBranded | undefined> = {
  /** Unique: for names of what this play alone uses, e.g. a workflow's id or an idempotency key. */
  readonly id: string;
  /** The object: a fresh stub each time, because none outlives a crash. */
  stub(): DurableObjectStub<T>;
  /** How many lives the object has had. */
  lives(): number;
};

type Step<T extends Rpc.DurableObjectBranded | undefined, Result> = (
  stub: DurableObjectStub<T>,
  run: CrashRun<T>,
) => Result | Promise<Result>;

/** What {@link crashAtEveryWrite} plays. */
export type CrashScenario<T extends Rpc.DurableObjectBranded | undefined> = {
  /** For the report. */
  readonly name: string;
  /** The binding of a class that the worker exports as `crashable(...)`. */
  readonly objects: DurableObjectNamespace<T>;
  /** Before anything may crash or is counted. Without it, the object is constructed, and its start is a part of the play. */
  readonly prepare?: Step<T, unknown>;
  /**
   * What is asked of the object, one after the other. A step that is rejected is repeated, as a caller would that has
   * not heard: so give what it submits an idempotency key (`run.id`).
   */
  readonly steps: readonly Step<T, unknown>[];
  /**
   * Whether all that was to come has come; asked again and again.
   * @default nothing in the object's rooms is open or due
   */
  readonly isOver?: Step<T, boolean>;
  /** What is wrong in the end, beside what {@link invariantsOf} finds. */
  readonly check?: Step<T, readonly string[]>;
  /** What of the object is meant to be: see {@link invariantsOf}. */
  readonly expect?: InvariantOptions;
  /**
   * In place of the alarm, which is rung where nothing moves: how the object is called then.
   * @default its own alarm
   */
  readonly touch?: Step<T, unknown>;
  /**
   * When the crash comes, relative to each write; at deliveries, those of them that there are.
   * @default ["before", "after", "soon after"]
   */
  readonly moments?: readonly Moment[];
  /**
   * Of the points, every so manieth.
   * @default 1
   */
  readonly stride?: number;
  /**
   * A second crash, at each point of the life after the first. The first comes soon after the middle write, or after the
   * first write that matches.
   * @default false
   */
  readonly again?: boolean | RegExp;
  /**
   * How many are played at a time. 1 for a scenario that moves a {@link virtualClock}.
   * @default 8
   */
  readonly concurrency?: number;
  /**
   * How long one play may take, in real time.
   * @default "25 seconds"
   */
  readonly timeout?: Duration;
};

/** A scenario with its defaults. */
export type Checked<T extends Rpc.DurableObjectBranded | undefined> = CrashScenario<T> & {
  readonly moments: readonly Moment[];
  readonly stride: number;
  readonly again: boolean | RegExp;
  readonly concurrency: number;
  readonly timeoutMs: number;
};

const MOMENTS: readonly Moment[] = ["before", "after", "soon after"];
const NAMES = [
  "name",
  "objects",
  "prepare",
  "steps",
  "isOver",
  "check",
  "expect",
  "touch",
  "moments",
  "stride",
  "again",
  "concurrency",
  "timeout",
];

/** @throws InvalidScenarioError for one that cannot be meant */
export function checkScenario<T extends Rpc.DurableObjectBranded | undefined>(
  scenario: CrashScenario<T>,
): Checked<T> {
  const unknown = problemOfNames("a crash scenario", scenario, NAMES);
  if (unknown) throw new InvalidScenarioError("crashAtEveryWrite()", unknown.message);
  const { name, objects, steps, moments = MOMENTS, timeout = "25 seconds" } = scenario;
  const { stride = 1, concurrency = 8, again = false } = scenario;
  const expected = (what: string, value: unknown, form: string): InvalidScenarioError => {
    const of = typeof name === "string" && name !== "" ? name : "crashAtEveryWrite()";
    return new InvalidScenarioError(of, `${what} is ${preview(value)}; expected ${form}.`);
  };
  if (typeof name !== "string" || name === "") throw expected("name", name, "a text");
  if (typeof objects?.getByName !== "function") {
    throw expected("objects", objects, "the binding of a class of objects, e.g. env.Triage");
  }
  if (!Array.isArray(steps) || steps.length === 0) {
    throw expected("steps", steps, "a list with at least one function");
  }
  if (moments.length === 0 || moments.some((moment) => !MOMENTS.includes(moment))) {
    throw expected("moments", moments, `one or more of ${MOMENTS.join(", ")}`);
  }
  for (const [what, value] of Object.entries({ stride, concurrency })) {
    if (!Number.isInteger(value) || value < 1) throw expected(what, value, "a whole number from 1");
  }
  const timeoutMs = millisecondsOf(timeout);
  if (timeoutMs === undefined) throw expected("timeout", timeout, DURATION_FORMS);
  return { ...scenario, moments, stride, again, concurrency, timeoutMs };
}
