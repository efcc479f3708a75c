/** Times of model calls, as the row of a submission has them. */

import type { Failure } from "../../core/failures.ts";
import type { TokenUsage, WaitedFor } from "../types.ts";

export type ModelCall = {
  readonly startedAt: number;
  readonly endedAt: number;
  readonly model?: string;
  readonly provider?: string;
  readonly inputTokens?: number;
  readonly outputTokens?: number;
  readonly error?: string;
  readonly errorName?: string | undefined;
  /** What it waited for before it was sent, with `limits()`. */
  readonly waited?: WaitedFor | undefined;
};

export type AttemptTimeline = {
  readonly calls?: readonly ModelCall[];
  readonly omitted?: number;
  /** Whether a restart has lost the times of its first calls. */
  readonly isPartial?: true;
};

/** The times that the row of a submission has: those of its last attempt, and of attempts that were interrupted. */
export type Timeline = AttemptTimeline & {
  readonly interrupted?: readonly InterruptedAttempt[] | undefined;
  readonly omittedAttempts?: number | undefined;
};

/** An attempt that a crash or a reset ended. */
export type InterruptedAttempt = AttemptTimeline & {
  readonly attempt: number;
  readonly startedAt: number;
  /** When the ledger decided to start over; when it was interrupted is not known. */
  readonly endedAt: number;
};

export type CalledModel = {
  readonly model?: string | undefined;
  readonly provider?: string | undefined;
};

export function withInterrupted(
  earlier: Timeline | undefined,
  attempt: InterruptedAttempt,
): Timeline {
  const { interrupted = [], omittedAttempts = 0 } = earlier ?? {};
  const isFull = entriesOf([...interrupted, attempt]) >= MAX_ENTRIES;
  return isFull
    ? { interrupted, omittedAttempts: omittedAttempts + 1 }
    : { interrupted: [...interrupted, attempt], ...(omittedAttempts > 0 && { omittedAttempts }) };
}

/** Model calls and interrupted attempts that one timeline lists at most. */
const MAX_ENTRIES = 200;

function entriesOf(interrupted: readonly InterruptedAttempt[] = []): number {
  return interrupted.reduce((sum, { calls = [] }) => sum + 1 + calls.length, 0);
}

export function isCount(value: unknown): value is number {
  return Number.isFinite(value) && (value as number) >= 0;
}

/** UTF-16 units of an error. */
const MAX_ERROR = 500;

export type EndedCall = CalledModel & {
  /** From its start to the last part of the answer, in milliseconds. By default until now. */
  readonly durationMs?: number | undefined;
};

/** Records the model calls of the attempt that runs. */
export class AttemptTimes {
  readonly #calls: ModelCall[] = [];
  readonly #room: number;
  #omitted = 0;
  #startedAt: number | undefined;
  #called: CalledModel | undefined;
  /** What the call in flight has waited for. */
  waited: WaitedFor | undefined;

  /**
   * @param earlier what the row has of earlier attempts
   * @param isPartial whether an earlier object instance began the attempt
   */
  constructor(
    private readonly earlier: Timeline | undefined,
    private readonly isPartial: boolean,
  ) {
    this.#room = MAX_ENTRIES - entriesOf(earlier?.interrupted);
  }

  started(now: number, called?: CalledModel): void {
    // Its end was not reported.
    if (this.#startedAt !== undefined) this.ended(this.#called, undefined, now);
    this.#startedAt = now;
    this.#called = called;
  }

  /** @param usage as the model reports it, which may be anything */
  ended(call: EndedCall | undefined, usage: unknown, now: number): void {
    if (this.#startedAt === undefined) return;
    const { durationMs = now - this.#startedAt } = call ?? {};
    const duration = Number.isFinite(durationMs) ? Math.round(Math.max(durationMs, 0)) : now;
    const { inputTokens, outputTokens } = (usage ?? {}) as TokenUsage;
    this.#add({
      startedAt: this.#startedAt,
      endedAt: Math.max(this.#startedAt, Math.min(this.#startedAt + duration, now)),
      ...modelOf(call),
      ...(isCount(inputTokens) && { inputTokens }),
      ...(isCount(outputTokens) && { outputTokens }),
    });
  }

  /** The attempt is over, and with it the call in flight. */
  end(failure: Partial<Failure> | undefined, now: number): AttemptTimeline {
    if (this.#startedAt !== undefined) {
      const error = (failure?.message ?? failure?.name)?.slice(0, MAX_ERROR);
      const errorName = failure?.name?.slice(0, MAX_ERROR);
      this.#add({
        startedAt: this.#startedAt,
        endedAt: Math.max(this.#startedAt, now),
        ...modelOf(this.#called),
        ...(error && { error, errorName }),
      });
    }
    return {
      ...(this.#calls.length > 0 && { calls: this.#calls }),
      ...(this.#omitted > 0 && { omitted: this.#omitted }),
      ...(this.isPartial && { isPartial: true }),
    };
  }

  whole(failure: Partial<Failure> | undefined, now: number): Timeline {
    const { interrupted, omittedAttempts } = this.earlier ?? {};
    return { ...this.end(failure, now), interrupted, omittedAttempts };
  }

  #add(call: ModelCall): void {
    this.#startedAt = undefined;
    if (this.#calls.length < this.#room) this.#calls.push({ ...call, waited: this.waited });
    else this.#omitted++;
    this.waited = undefined;
  }
}

function modelOf({ model, provider }: CalledModel = {}): Pick<ModelCall, "model" | "provider"> {
  return {
    ...(typeof model === "string" && { model: model.slice(0, MAX_ERROR) }),
    ...(typeof provider === "string" && { provider: provider.slice(0, MAX_ERROR) }),
  };
}
