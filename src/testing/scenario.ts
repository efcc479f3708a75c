/** The options of a crash scenario, and their validation. */

import { z } from "zod";
import {
  count,
  duration,
  hook,
  list,
  oneOf,
  optionsOf,
  readOptions,
  text,
} from "../core/options/option-schemas.ts";
import type { Duration } from "../core/options/options.ts";
import { InvalidScenarioError } from "./errors.ts";
import type { Moment } from "./instance.ts";
import type { InvariantOptions } from "./invariants.ts";

export type Objects = Rpc.DurableObjectBranded | undefined;

/** One run of a scenario, in a new object. */
export type CrashRun<T extends Objects> = {
  /** Unique in each run. Use it in names, e.g. a workflow's id or an idempotency key. */
  readonly id: string;
  /** A new stub of the object. A stub stays broken after a crash. */
  stub(): DurableObjectStub<T>;
  /** How many times the object was constructed. */
  starts(): number;
};

type Step<T extends Objects, Result> = (
  stub: DurableObjectStub<T>,
  run: CrashRun<T>,
) => Result | Promise<Result>;

/** A scenario of {@link crashAtEveryWrite}. */
export type CrashScenario<T extends Objects> = {
  /** For the report. */
  readonly name: string;
  /** The binding of a class that the worker exports as `crashable(...)`. */
  readonly objects: DurableObjectNamespace<T>;
  /** Runs before crashes and counting begin. Without it, the object's first start belongs to the scenario. */
  readonly prepare?: Step<T, unknown>;
  /**
   * The calls of the object, one after the other. A rejected step is repeated, as a caller would, so what it submits needs
   * an idempotency key (`run.id`).
   */
  readonly steps: readonly Step<T, unknown>[];
  /**
   * Whether everything expected has happened. Called repeatedly.
   * @default {@link inspectWork} finds no open work
   */
  readonly isOver?: Step<T, boolean>;
  /** Returns problems at the end, in addition to {@link invariantsOf}. */
  readonly check?: Step<T, readonly string[]>;
  /** Expected exceptions: the options of {@link invariantsOf}. */
  readonly expect?: InvariantOptions;
  /**
   * How to wake the object when nothing happens.
   * @default runs its alarm
   */
  readonly touch?: Step<T, unknown>;
  /**
   * When to crash, relative to each write. Deliveries have no "soon after".
   * @default ["before", "after", "soon after"]
   */
  readonly moments?: readonly Moment[];
  /**
   * Runs every nth crash point.
   * @default 1
   */
  readonly stride?: number;
  /**
   * Adds a second crash, at each point after the first one. The first crash comes soon after the middle write, or after the
   * first write that matches.
   * @default false
   */
  readonly again?: boolean | RegExp;
  /**
   * How many runs take place at the same time. Use 1 with a {@link virtualClock}.
   * @default 8
   */
  readonly concurrency?: number;
  /**
   * The time limit of one run, in real time.
   * @default "25 seconds"
   */
  readonly timeout?: Duration;
};

const MOMENTS: readonly Moment[] = ["before", "after", "soon after"];

const SCENARIO = optionsOf<CrashScenario<undefined>>()({
  name: text(),
  objects: z.custom<DurableObjectNamespace<undefined>>(
    (objects) => typeof (objects as DurableObjectNamespace)?.getByName === "function",
    { error: "expected the binding of a Durable Object class, e.g. env.Triage" },
  ),
  prepare: hook().optional(),
  steps: z.custom<CrashScenario<undefined>["steps"]>(
    (steps) => Array.isArray(steps) && steps.length > 0,
    { error: "expected a list with at least one function" },
  ),
  isOver: hook().optional(),
  check: hook().optional(),
  expect: z.unknown().optional(),
  touch: hook().optional(),
  moments: list(oneOf(MOMENTS), { min: 1 }).default([...MOMENTS]),
  stride: count().default(1),
  again: z.custom<boolean | RegExp>(() => true).default(false),
  concurrency: count().default(8),
  timeout: duration().default(25_000),
});

/** A scenario with its defaults. */
export type Checked<T extends Objects> = CrashScenario<T> &
  Required<Pick<CrashScenario<T>, "moments" | "stride" | "again" | "concurrency">> & {
    readonly timeoutMs: number;
  };

/** @throws InvalidScenarioError for an invalid scenario */
export function checkScenario<T extends Objects>(scenario: CrashScenario<T>): Checked<T> {
  const name =
    typeof scenario?.name === "string" && scenario.name ? scenario.name : "crashAtEveryWrite()";
  const refuse = (_: string, message: string) => new InvalidScenarioError(name, message);
  const schema = SCENARIO as z.ZodType<z.output<typeof SCENARIO>>;
  const read = readOptions(schema, scenario, "scenario", refuse);
  const { moments, stride, again, concurrency, timeout: timeoutMs } = read;
  return { ...scenario, moments, stride, again, concurrency, timeoutMs };
}
