/** A history as a replay reads it: checked, and with its steps by their names. */

import * as z from "zod";
import { count, list, oneOf, readOptions, text } from "../../core/options/option-schemas.ts";
import type { AskedStep, PlatformStep, WorkflowHistory } from "../../features/deploy/types.ts";
import { InvalidHistoryError } from "./errors.ts";

const error = "expected an object";
const TIME = z.number({ error: "expected epoch milliseconds" });
const FAILURE = z.looseObject({ name: text({ empty: true }), message: text({ empty: true }) });
const STEP = z.looseObject(
  {
    name: text(),
    count: count(),
    kind: oneOf(["do", "sleep", "event"]),
    status: oneOf(["open", "completed", "failed", "expired"]),
    startedAt: TIME,
    endedAt: TIME.optional(),
    output: z.unknown().optional(),
    error: FAILURE.optional(),
  },
  { error },
);
const ASKED = z.looseObject(
  {
    kind: text(),
    step: text(),
    waitId: text(),
    startedAt: TIME,
    request: z.unknown(),
    end: z.looseObject({}, { error }).optional(),
  },
  { error },
);
const MOST_STEPS = 1_000;
const HISTORY = z.looseObject(
  {
    workflow: text(),
    workflowId: text(),
    deployedAs: text().optional(),
    version: text().nullable(),
    status: text(),
    startedAt: TIME,
    params: z.unknown(),
    platform: list(STEP, { max: MOST_STEPS }),
    asked: list(ASKED, { max: MOST_STEPS }),
    isCut: text().optional(),
  },
  { error: "expected the history of a run, as deployments.history() returns it" },
);

/** @throws InvalidHistoryError */
export function readHistory(given: unknown): WorkflowHistory {
  const refuse = (field: string, message: string) => new InvalidHistoryError(field, message);
  return readOptions(HISTORY, given, "history", refuse) as unknown as WorkflowHistory;
}

const ENDED = new Set(["complete", "errored", "terminated"]);

export class Recorded {
  readonly #steps = new Map<string, PlatformStep>();
  readonly #asked = new Map<string, AskedStep>();
  readonly #places: ReadonlyMap<PlatformStep, number>;

  constructor(readonly history: WorkflowHistory) {
    this.#places = new Map(history.platform.map((step, place) => [step, place]));
    for (const step of history.platform) this.#steps.set(idOf(step), step);
    for (const asked of history.asked) {
      this.#asked.set(asked.waitId, asked);
    }
  }

  /** Whether the run has ended. */
  get hasEnded(): boolean {
    return ENDED.has(this.history.status);
  }

  step(kind: PlatformStep["kind"], name: string, count: number): PlatformStep | undefined {
    return this.#steps.get(idOf({ kind, name, count }));
  }

  /** Whether there is a step of this name, of any kind. */
  has(name: string): boolean {
    return this.history.platform.some((step) => step.name === name);
  }

  /** Its place among all steps, in the order of their starts. */
  placeOf(step: PlatformStep): number {
    return this.#places.get(step) ?? 0;
  }

  asked(waitId: unknown): AskedStep | undefined {
    return typeof waitId === "string" ? this.#asked.get(waitId) : undefined;
  }
}

/** The platform counts the steps of each kind by their names. */
export function idOf({ kind, name, count }: Pick<PlatformStep, "kind" | "name" | "count">): string {
  return `${kind} ${count} ${name}`;
}
