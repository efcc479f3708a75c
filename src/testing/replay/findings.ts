/** What a replay of the code shows: the decisions, without the words. Pure. */

import { failureOf } from "../../core/failures.ts";
import type { ReplayProblem } from "../../features/deploy/types.ts";
import type { Play } from "./play.ts";
import type { Recorded } from "./record.ts";
import { changesIn, isSameSchema } from "./requests.ts";
import type { Ask } from "./step.ts";
import * as texts from "./texts.ts";
import { type Unit, unitsOf } from "./units.ts";

const OTHER_ITEMS =
  "it has other items now. Those with the same keys are found again, and the others are asked";

export class Findings {
  readonly units: readonly Unit[];

  constructor(
    private readonly record: Recorded,
    private readonly play: Play,
  ) {
    this.units = unitsOf(record, play.asks);
  }

  /** Steps of the run that the code does not ask for, and that matter. */
  get gone(): readonly Unit[] {
    const missing = this.units.filter((unit) => !unit.isAsked && unit.recorded.length > 0);
    const hasNewSleep = this.fresh.some(({ kind }) => kind === "sleep");
    // A sleep whose time is over is not asked for again.
    return missing.filter(({ kind }) => kind !== "sleep" || hasNewSleep);
  }

  get fresh(): readonly Unit[] {
    return this.units.filter(({ recorded, fresh }) => recorded.length === 0 && fresh.length > 0);
  }

  /** Whether the code asks for steps that the run has not made, besides parts of those that it has. */
  get hasFresh(): boolean {
    return this.units.some(({ isAsked, fresh }) => !isAsked && fresh.length > 0);
  }

  /** Whether there is nothing to look at more closely. */
  get isClean(): boolean {
    const { end } = this.play;
    return (
      end.at !== "stopped" &&
      this.gone.length === 0 &&
      !this.hasFailed &&
      this.refusals().length === 0
    );
  }

  /** Whether `run()` has thrown where the record does not show why. */
  get hasFailed(): boolean {
    const { end, asks } = this.play;
    if (end.at !== "threw" || this.record.history.status === "errored") return false;
    if (this.gone.length > 0) return true;
    const { platform, asked } = this.record.history;
    if (platform.some(({ status }) => status === "open")) return true;
    const { message } = failureOf(end.error);
    const known = [
      ...platform.map(({ status, error }) => status === "failed" && error?.message),
      ...asked.map(({ end: ended }) => Object(ended).error as unknown),
    ];
    // Also one that the code has caught before, and throws again.
    if (known.some((text) => typeof text === "string" && text !== "" && message.includes(text)))
      return false;
    const last = asks.filter(({ recorded }) => recorded).at(-1);
    return last?.recorded?.status === "completed" && !this.#hasBadEnd(last);
  }

  /** Whether a step of Perdure has ended otherwise than by its result. */
  #hasBadEnd(ask: Ask): boolean {
    const unit = this.units.find(({ recorded }) => recorded.some((one) => one === ask.recorded));
    const ends = this.record.history.asked.filter(({ step }) => step === unit?.name);
    return ends.some(({ end }) => end !== undefined && Object(end).status !== "completed");
  }

  /** Requests of steps that differ from those that the run has made. */
  changes(): ReplayProblem[] {
    return this.play.asks.flatMap((ask) => {
      const opened = ask.calls?.opened;
      const asked = opened?.refuses === undefined ? this.#askedOf(ask) : undefined;
      if (!opened || !asked || asked.kind !== opened.kind) return [];
      const { stepName } = opened.workflow;
      return changesIn(asked, opened.request).map(({ severity, text }) =>
        texts.changed(stepName, severity, text),
      );
    });
  }

  #askedOf({ recorded }: Ask) {
    const { waitId, submissionIds } = Object(recorded?.output) as {
      waitId?: unknown;
      submissionIds?: unknown;
    };
    const ids = Array.isArray(submissionIds) ? submissionIds : [waitId];
    const all = ids.map((id: unknown) => this.record.asked(id));
    // Of a batch that is half done, one that is open has more to compare.
    return all.find((asked) => asked && asked.end === undefined) ?? all[0];
  }

  /** Stored answers that the code refuses, where the old code did not. */
  refusals(): ReplayProblem[] {
    const { asks } = this.play;
    const refusing = this.units.filter(
      ({ recorded, fresh }) =>
        recorded.length > 0 &&
        fresh.some(({ calls }) => calls?.refused ?? calls?.opened?.refuses !== undefined),
    );
    const isNew = (unit: Unit) => {
      const first = asks.find(
        ({ recorded, calls }) => recorded && unit.recorded.includes(recorded) && calls?.opened,
      );
      const asked = first && this.#askedOf(first);
      // An end that the history does not have was made up.
      if (asked?.end === undefined && unit.kind !== "batch") return false;
      if (this.gone.length > 0 || this.record.history.status === "complete") return true;
      return asked !== undefined && !isSameSchema(asked, first?.calls?.opened?.request);
    };
    return refusing.filter(isNew).map(({ name, kind }) => texts.refused(name, kind));
  }

  /** Steps that have their old name, and another kind. */
  kindChanges(): ReplayProblem[] {
    return this.#kindPairs().map(([old, now]) => texts.kindChanged(old.name, old, now.kind));
  }

  #kindPairs(): [Unit, Unit][] {
    return this.gone.flatMap((old) => {
      const now = this.fresh.find(({ name, kind }) => name === old.name && kind !== old.kind);
      return now ? [[old, now] as [Unit, Unit]] : [];
    });
  }

  /** Steps that were renamed or removed. @param later what the code asks for, where new steps have an answer */
  renames(later: Findings): ReplayProblem[] {
    const others = later.gone.filter(({ kind, fresh }) => kind === "batch" && fresh.length > 0);
    const pairs = later.#kindPairs().flat();
    const changed = new Set([...pairs, ...others].map(({ id }) => id));
    const fresh = later.#freshBefore().filter(({ id }) => !changed.has(id));
    const gone = later.gone.filter(({ id }) => !changed.has(id));
    const items = others.map(({ name }) => texts.changed(name, "warning", OTHER_ITEMS));
    if (gone.length > 0) return [...items, ...gone.map((unit) => texts.gone(unit, fresh))];
    return this.gone.length === 0 ? [] : [...items, ...fresh.map(texts.inserted)];
  }

  /** New steps before the last one of the history, or all where the code has not come to it. */
  #freshBefore(): readonly Unit[] {
    if (this.gone.length > 0) return this.fresh;
    const recorded = this.play.asks.filter((ask) => ask.recorded);
    const last = recorded.at(-1)?.askedAt ?? 0;
    return this.fresh.filter(({ fresh }) => fresh.some(({ askedAt }) => askedAt < last));
  }

  /** Steps that one after the other were made, and that the code asks for the other way round. */
  reorders(): ReplayProblem[] {
    const problems = new Map<string, ReplayProblem>();
    const nameOf = new Map(
      this.units.flatMap(({ name, recorded }) => recorded.map((one) => [one, name] as const)),
    );
    const asked = this.play.asks.filter(({ recorded }) => recorded && nameOf.has(recorded));
    for (const late of asked) {
      for (const early of asked) {
        if (!isReordered(late, early, this.record)) continue;
        const [step, before] = [late, early].map(
          ({ recorded }) => nameOf.get(recorded as never) ?? "",
        );
        if (step !== before && step) problems.set(step, texts.reordered(step, before ?? ""));
      }
    }
    return [...problems.values()];
  }

  failure(): ReplayProblem[] {
    const { end } = this.play;
    if (end.at !== "threw" || !this.hasFailed) return [];
    const { name, message } = failureOf(end.error);
    if (name === "UnknownVersionError") return [texts.unknownVersion(message)];
    return [texts.wouldFail(`${name}: ${message}`.slice(0, 1_000))];
  }
}

/** Whether a step had ended before another one began, and the code asks for it after the end of the other one. */
function isReordered(late: Ask, early: Ask, record: Recorded): boolean {
  const [first, second] = [late.recorded, early.recorded];
  if (!first?.endedAt || !second || early.answeredAt === undefined) return false;
  const wasBefore =
    first.endedAt <= second.startedAt && record.placeOf(first) < record.placeOf(second);
  return wasBefore && early.answeredAt < late.askedAt;
}
