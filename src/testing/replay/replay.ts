/** `replayWorkflow()`: runs the code of a workflow against the history of a run that other code has made. */

import { env as workerEnv } from "cloudflare:workers";
import * as z from "zod";
import { duration, optionsOf, readOptions } from "../../core/options/option-schemas.ts";
import type { Duration } from "../../core/options/options.ts";
import type { Replay, ReplayProblem, WorkflowHistory } from "../../features/deploy/types.ts";
import { anything, type Use } from "./bindings.ts";
import type { WorkflowClass } from "./entrypoint.ts";
import { InvalidHistoryError } from "./errors.ts";
import { Findings } from "./findings.ts";
import { type Play, type PlayOptions, play } from "./play.ts";
import { Recorded, readHistory } from "./record.ts";
import type { Answers } from "./step.ts";
import * as texts from "./texts.ts";

export type ReplayOptions = {
  /**
   * The bindings that the workflow's code sees. Those that could have an effect are replaced.
   * @default those of the Worker
   */
  readonly env?: object;
  /**
   * How long the replay may take, at most 60 seconds.
   * @default "10 seconds"
   */
  readonly timeout?: Duration;
};

const OPTIONS = optionsOf<ReplayOptions>()({
  env: z
    .custom<object>((env) => typeof env === "object" && env !== null, {
      error: "expected an object",
    })
    .optional(),
  timeout: duration({ max: "60 seconds" }).default(10_000),
});

/**
 * Runs `run()` of a workflow class against the history of a run, as a deploy of the class would continue it. Steps are answered
 * from the history, and nothing is executed: no code of a step, no call of the agent, no binding.
 *
 * @param history as `deployments.history()` of the agent returns it, e.g. from a file of `npx perdure snapshot`
 * @returns what the new code cannot take of the run; no problems where it can
 * @throws InvalidHistoryError for what is no history, no workflow class, or an invalid option
 * @example
 * const { problems } = await replayWorkflow(TicketWorkflow, history);
 * expect(problems).toEqual([]);
 */
export async function replayWorkflow(
  WorkflowClass: WorkflowClass,
  history: WorkflowHistory,
  options: ReplayOptions = {},
): Promise<Replay> {
  const refuse = (field: string, message: string) => new InvalidHistoryError(field, message);
  const { env = workerEnv, timeout } = readOptions(
    OPTIONS,
    options,
    "options of replayWorkflow()",
    refuse,
  );
  const record = new Recorded(readHistory(history));
  const { platform, params, isCut } = record.history;
  if (platform.length === 0) {
    const isBegun = isCut !== undefined || record.history.asked.length > 0;
    return stopped(
      isBegun
        ? [texts.notReplayed("run()", cutBy(isCut) ?? "the history has no steps of the platform")]
        : [],
    );
  }
  if (params === null || params === undefined) {
    return stopped([texts.notReplayed("run()", cutBy(isCut) ?? "the history has no params")]);
  }
  const deadline = performance.now() + timeout;
  return new Replaying({ Class: WorkflowClass, record, env, deadline }).replay();
}

function stopped(problems: readonly ReplayProblem[]): Replay {
  return { problems, replayed: [], at: problems.length > 0 ? "stopped" : "waits" };
}

function cutBy(isCut: string | undefined): string | undefined {
  return isCut === undefined ? undefined : `the history is not complete (${isCut})`;
}

const NOTHING = () => undefined;
const REJECTED = () => ({ approved: false });

type Unknown = Answers["unknown"];

type Played = {
  readonly play: Play;
  readonly findings: Findings;
  /** What stood for values that no history has. */
  readonly unknown: Unknown;
};

/** The code agrees with the history by made-up values, and may not by others. */
function madeUp({ play, unknown }: Played): ReplayProblem[] {
  if (unknown === NOTHING || play.unknown.length === 0) return [];
  return [texts.notCompared(play.unknown.slice(0, 3).join(", "))];
}

/** Whether the code still has a step of this name in it, on a path that the replay may not have taken. */
const isNamedIn = (code: string, name: string) =>
  ['"', "'", "`"].some((quote) => code.includes(quote + name + quote));

class Replaying {
  constructor(private readonly options: Omit<PlayOptions, "answers">) {}

  async replay(): Promise<Replay> {
    const first = await this.#best();
    const { play: played, findings } = first;
    const problems = findings.isClean
      ? [...findings.changes(), ...findings.reorders(), ...madeUp(first)]
      : await this.#problems(first);
    const names = findings.units.filter(({ isAsked }) => isAsked).map(({ name }) => name);
    const { at } = played.end;
    return {
      problems: unique(problems),
      replayed: [...new Set(names)],
      at: at === "returned" || at === "threw" ? "ended" : at,
    };
  }

  async #play(unknown: Unknown, isWaiting = true): Promise<Played> {
    const played = await play({ ...this.options, answers: { isWaiting, unknown } });
    return { play: played, findings: new Findings(this.options.record, played), unknown };
  }

  /** What the history does not tell is tried in several ways: where one of them agrees with it, the code does. */
  async #best(): Promise<Played> {
    const first = await this.#play(NOTHING);
    if (first.findings.isClean || first.play.unknown.length === 0) return first;
    const use: Use = { isComputed: false };
    const others: Played[] = [];
    for (const unknown of [() => anything(use), REJECTED]) {
      const other = await this.#play(unknown);
      if (other.findings.isClean) return other;
      others.push(other);
    }
    const isCertain = ({ play: { end, hasSamples, code }, findings: { gone } }: Played) =>
      (end.at === "waits" || end.at === "returned") &&
      !hasSamples &&
      gone.length > 0 &&
      gone.every(({ name }) => !isNamedIn(code, name));
    // Whatever the values are, the code does not come to the steps of the history.
    const isSame = first.play.end.at !== "stopped" && !use.isComputed && others.every(isCertain);
    const likely = others.find(({ findings }) => findings.fresh.length > 0) ?? others[0];
    return (isSame ? likely : undefined) ?? first;
  }

  async #problems(played: Played): Promise<ReplayProblem[]> {
    const { end, unknown } = played.play;
    const { findings } = played;
    const changes = findings.changes();
    const refusals = findings.refusals();
    if (refusals.length > 0) return [...changes, ...refusals];
    if (end.at === "stopped") return [...changes, texts.notReplayed(end.step, end.why)];
    const { isCut } = this.options.record.history;
    if (isCut !== undefined) return [...changes, texts.notReplayed("run()", String(cutBy(isCut)))];
    if (unknown.length > 0 && played.unknown === NOTHING) {
      const why = `it depends on ${unknown.slice(0, 3).join(", ")}, which no history has`;
      return [...changes, texts.notReplayed("run()", why)];
    }
    const failures = findings.failure();
    // The code has not come to the other steps.
    if (failures.length > 0 && !findings.hasFresh) return [...changes, ...failures];
    const random = await this.#randomNames(played);
    if (random) return [...changes, texts.notReplayed(random, RANDOM)];
    const later = findings.hasFresh ? await this.#later(played) : findings;
    if (performance.now() > this.options.deadline)
      return [...changes, texts.notReplayed("run()", LATE)];
    const kinds = later.kindChanges();
    const renames = findings.renames(later);
    const all = [...changes, ...later.changes(), ...kinds, ...renames];
    return [...all, ...later.reorders(), ...failures];
  }

  /** With an answer for each new step, so that the code behind it is looked at as well. */
  async #later({ unknown }: Played): Promise<Findings> {
    const plain = await this.#play(unknown, false);
    if (plain.findings.gone.length === 0) return plain.findings;
    const other = await this.#play(() => anything(), false);
    const isBetter = other.findings.gone.length < plain.findings.gone.length;
    return isBetter ? other.findings : plain.findings;
  }

  /** The name of a step that is another one at another time. */
  async #randomNames({ findings, unknown }: Played): Promise<string | undefined> {
    if (findings.fresh.length === 0) return undefined;
    using _ = shiftedDate();
    const other = await this.#play(unknown);
    const names = new Set(other.findings.fresh.map(({ id }) => id));
    return findings.fresh.find(({ id }) => !names.has(id))?.name;
  }
}

const LATE = "the replay takes longer than its timeout";
const RANDOM =
  "its name is another one in each run of the code, as one with a time or a random number in it. Steps are found by their names";
/** A day, an hour, a minute and a second: each part of a time is another one. */
const SHIFT_MS = 32 * 86_400_000 + 3_661_000;

/** `Date` is ahead, until it is disposed. */
function shiftedDate(): Disposable {
  const real = globalThis.Date;
  const now = () => real.now() + SHIFT_MS;
  globalThis.Date = new Proxy(real, {
    construct: (target, args, newTarget) =>
      Reflect.construct(target, args.length === 0 ? [now()] : args, newTarget) as Date,
    get: (target, key) => (key === "now" ? now : Reflect.get(target, key)),
  });
  return {
    [Symbol.dispose]() {
      globalThis.Date = real;
    },
  };
}

function unique(problems: readonly ReplayProblem[]): ReplayProblem[] {
  const byText = new Map(problems.map((problem) => [problem.text, problem]));
  return [...byText.values()];
}
