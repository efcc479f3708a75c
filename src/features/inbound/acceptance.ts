/**
 * Accepts one request of an arrival: the row, or its next recorded call, commits with the effect of the call. A recorded call
 * is answered from the record.
 */

import type { LifecycleServices } from "agents/lifecycle";
import type { Clock } from "../../core/clock.ts";
import { type Failure, failureOf } from "../../core/failures.ts";
import type { Json } from "../../core/json.ts";
import { type OnProblem, reportProblem } from "../../core/problems.ts";
import { emit } from "../../engine/events.ts";
import { isReset } from "../../engine/resets.ts";
import {
  type Method,
  methodOf,
  repeatedResult,
  resultOf,
  startedBy,
  withCall,
  withDefaultKey,
  withWaits,
} from "./calls.ts";
import type { Request } from "./options.ts";
import type { Acceptance, AcceptRequest, RawArrival, Verdict } from "./protocol.ts";
import type { Decision, InboundStore, StoredArrival } from "./store.ts";
import type { LoggedCall, WaitMatch } from "./types.ts";

/**
 * Runs a verb of the agent whose effect commits with the log.
 *
 * @param commit writes the log with the result. Called once, synchronously, in the transaction of the effect
 */
export type TransactionalVerb = (
  args: readonly unknown[],
  commit: (result: unknown) => void,
) => Promise<void>;

/** The part of the host that acceptance uses. */
export type AcceptorOptions = {
  /** The agent, whose methods are called. */
  readonly agent: object;
  /** Verbs of the agent that commit with the log, by their names; without those that the app's class overrides. */
  readonly verbs?: Readonly<Record<string, TransactionalVerb>>;
  /** Closes the waits that match an arrival, in the transaction around it. */
  readonly matchWaits?: (arrival: RawArrival) => readonly WaitMatch[];
  readonly onProblem?: OnProblem;
};

/** How long the sender is asked to wait if the agent has no room, in seconds. */
const RETRY_AFTER_S = 30;
const NO_ROOM = new Set(["BacklogFullError", "OutboxFullError", "InboundBusyError"]);
/** Fields of an error in the answer, and UTF-16 units of each. */
const MAX_FIELDS = 20;
const MAX_FIELD_LENGTH = 1_024;
const AsyncFunction = (async () => {}).constructor;

/** A replay, whose end the agent knows, unlike that of a receiver's handler. */
export type Replay = {
  /** The accepted arrival that a new one repeats. */
  readonly of: string | undefined;
};

/**
 * The error of an arrival after a second call of its handler, and from the first call of a replay on. A crash leaves it, so
 * that a replay continues.
 */
const NOT_ENDED: Failure = { name: "Error", message: "The handler has not ended" };

/** Request plus its current row. */
type Attempt = Request & {
  readonly replay: Replay | undefined;
  /** The row before the call. */
  readonly known: StoredArrival | undefined;
  /** The store's writes when `known` was read. */
  readonly writes: number;
};

export class Acceptor {
  constructor(
    private readonly options: AcceptorOptions,
    private readonly clock: Clock,
    private readonly services: () => LifecycleServices,
    private readonly store: () => InboundStore,
  ) {}

  /** @throws the error of storage; nothing is stored then */
  async accept(request: Request, replay: Replay | undefined): Promise<Acceptance> {
    const { arrival, call, refusal: reason } = request;
    const store = this.store();
    const known = store.find(arrival.source, arrival.id);
    const attempt = { ...request, replay, known, writes: store.writes };
    if (request.ended) return this.#end(attempt);
    if (request.held !== undefined) return this.#hold(attempt, request.held);
    if (reason !== undefined) return this.#refuse(attempt, handlerFailure(reason));
    if (!call) {
      if (known?.verdict === "accepted") return this.#repeat(attempt, undefined);
      return this.#filter(attempt);
    }
    const recorded = known?.calls.find(
      (one) => one.kind !== "wait" && one.ordinal === call.ordinal,
    );
    // New calls would belong to a different body.
    const isOther = known?.verdict === "accepted" && hasOtherBody(attempt);
    if (recorded || isOther) return this.#repeat(attempt, recorded as LoggedCall | undefined);
    return this.#call(attempt, call);
  }

  /** Every call of the handler is recorded. Another run of it at the same time makes the same calls, so it adds none. */
  #end({ arrival, known }: Attempt): Acceptance {
    this.store().finish(arrival.source, arrival.id);
    return { verdict: known?.verdict === "accepted" ? "duplicate" : "filtered" };
  }

  /** Answers from the record. */
  #repeat(attempt: Attempt, recorded: LoggedCall | undefined): Acceptance {
    const { arrival, call, known } = attempt;
    if (!known) throw new Error("An arrival without a row was repeated");
    if (call && recorded && call.verb !== recorded.verb) {
      console.warn(
        `[perdure] arrival ${arrival.id} of ${arrival.source} came again, and its handler calls ${call.verb}() where it called ${recorded.verb}() before. Nothing was run again.`,
      );
    }
    // The later calls of a handler belong to the same repetition.
    if (!attempt.replay && (!call || call.ordinal === 0)) {
      this.store().repeat(known.seq, hasOtherBody(attempt));
      this.#announce("duplicate", attempt);
    }
    const result = repeatedResult(recorded?.result);
    return {
      verdict: "duplicate",
      ...(result !== undefined && { result }),
      ...(known.error && !hasOtherBody(attempt) && { isUnfinished: true }),
    };
  }

  /** (new) → held. An arrival that a replay has accepted or filtered stays so. No wait gets it. */
  #hold(attempt: Attempt, reason: string): Acceptance {
    const { known } = attempt;
    const error = handlerFailure(reason);
    if (known) this.store().repeat(known.seq, hasOtherBody(attempt));
    else {
      const failure = { name: error.name.slice(0, 200), message: error.message };
      this.#write(attempt, known, { verdict: "held", calls: [], error: failure });
    }
    if (known?.verdict === "accepted" || known?.verdict === "filtered")
      return { verdict: "duplicate" };
    this.#announce("held", attempt, failureOf(error));
    return { verdict: "held" };
  }

  /** The handler has called nothing. */
  #filter(attempt: Attempt): Acceptance {
    const verdict = this.store().transaction(() => {
      const { known, waits } = this.#matched(attempt);
      const calls = withWaits(known?.calls ?? [], waits);
      const verdict = calls.length > 0 ? "accepted" : "filtered";
      if (known && known.verdict === verdict) this.store().repeat(known.seq, hasOtherBody(attempt));
      else this.#write(attempt, known, { verdict, calls, error: undefined });
      return verdict;
    });
    this.#announce(verdict, attempt);
    return { verdict };
  }

  async #call(attempt: Attempt, call: NonNullable<AcceptRequest["call"]>): Promise<Acceptance> {
    const { arrival } = attempt;
    const { ordinal, verb } = call;
    let committed: { result: Json | undefined; isUnfinished: boolean } | undefined;
    /** An error of storage, in the transaction of the call. */
    let failed: { error: unknown } | undefined;
    const commit = (value: unknown) => {
      const result = resultOf(verb, value);
      const started = startedBy(verb, call.args, result);
      let error: Failure | undefined;
      try {
        error = this.#record(attempt, {
          ...started,
          ordinal,
          verb,
          ...(result !== undefined && { result }),
        });
      } catch (thrown) {
        failed = { error: thrown };
        throw thrown;
      }
      committed = { result, isUnfinished: error !== undefined };
    };
    try {
      const method = methodOf(this.options.agent, verb, ordinal);
      const args = withDefaultKey(verb, call.args, arrival, ordinal);
      const own = this.options.verbs?.[verb];
      if (own) await own(args, commit);
      else await this.#run(method, args, commit);
    } catch (error) {
      this.store().forget();
      // Its effect is stored, or may be: the sender's retry is answered from the record, if there is one.
      if (failed || committed || isReset(error)) throw failed ? failed.error : error;
      return this.#refuse(attempt, error);
    }
    if (!committed) throw new Error(`${verb}() has returned, and its arrival was not stored`);
    const { result, isUnfinished } = committed as NonNullable<typeof committed>;
    this.#announce("accepted", attempt);
    return {
      verdict: "accepted",
      ...(result !== undefined && { result }),
      ...(isUnfinished && { isUnfinished: true }),
    };
  }

  /** A method that returns no promise runs in the transaction of its record. */
  async #run(
    method: Method,
    args: readonly unknown[],
    commit: (result: unknown) => void,
  ): Promise<void> {
    const { agent } = this.options;
    if (isAsync(method)) return commit(await method.apply(agent, [...args]));
    const promise = this.store().transaction(() => {
      const value = method.apply(agent, [...args]);
      if (isPromise(value)) return value;
      commit(value);
      return undefined;
    });
    if (promise) commit(await promise);
  }

  /** In the transaction of the call, if there is one: any verdict → accepted. Returns why the handler has not ended. */
  #record(attempt: Attempt, call: LoggedCall): Failure | undefined {
    return this.store().transaction(() => {
      const { known, waits } = this.#matched(attempt);
      const calls = withCall(withWaits(known?.calls ?? [], waits), call);
      // Of two calls at the same time, the other one may be the one that was refused.
      const other = known?.error?.ordinal === call.ordinal ? undefined : known?.error;
      const isOpen = attempt.replay || call.ordinal > 0 || other?.ordinal !== undefined;
      const rest = isOpen ? (other ?? NOT_ENDED) : undefined;
      this.#write(attempt, known, { verdict: "accepted", calls, error: rest });
      return rest;
    });
  }

  /** The call, or the handler, has failed. A workflow that waited still has its arrival. */
  #refuse(attempt: Attempt, error: unknown): Acceptance {
    const { name, message } = failureOf(error);
    const { ordinal } = attempt.call ?? {};
    const failure = {
      name: name.slice(0, 200),
      message,
      ...(ordinal !== undefined && { ordinal }),
    };
    this.store().transaction(() => {
      const { known, waits } = this.#matched(attempt);
      const calls = withWaits(known?.calls ?? [], waits);
      const verdict = calls.length > 0 ? "accepted" : "refused";
      this.#write(attempt, known, { verdict, calls, error: failure });
    });
    this.#announce("refused", attempt, failure);
    return refusal(error);
  }

  /** The row as it is now, and the waits that the arrival closes, unless it was accepted before. */
  #matched({ arrival, known: before, writes }: Attempt) {
    const store = this.store();
    const known = store.writes === writes ? before : store.find(arrival.source, arrival.id);
    const isFirst = known?.verdict !== "accepted" && arrival.body !== undefined;
    const waits = isFirst ? (this.options.matchWaits?.(arrival) ?? []) : [];
    return { known, waits };
  }

  #write(
    attempt: Attempt,
    known: StoredArrival | undefined,
    decision: Omit<Decision, "hasConflict">,
  ): void {
    const { arrival, text, replay } = attempt;
    const hasConflict = hasOtherBody(attempt);
    if (known) this.store().decide(known.seq, { ...decision, hasConflict });
    else {
      const now = this.clock.now();
      this.store().insert(
        { arrival, text, replayOf: replay?.of },
        { ...decision, hasConflict },
        now,
      );
    }
  }

  /** After the commit. */
  #announce(verdict: Verdict, attempt: Attempt, error?: Failure): void {
    const { source, id, type } = attempt.arrival;
    emit(this.services(), `inbound:${verdict}`, {
      source,
      id,
      type,
      ...(error && { error }),
    });
    if (!hasOtherBody(attempt) || attempt.known?.hasConflict) return;
    const message =
      `Arrival ${id} of ${source} came again with another body. The first one counts. ` +
      "A sender must use a new id for a new event.";
    const ids = { source, id, type };
    const problem = { type: "inbound:conflict", level: "warn", message, ids } as const;
    reportProblem(this.options.onProblem, problem, (work) =>
      this.services().runInHostContext(work),
    );
  }
}

function hasOtherBody({ arrival, known }: Attempt): boolean {
  return known !== undefined && known.hash !== arrival.hash;
}

/** Receivers send it as `<name>: <message>`. */
function handlerFailure(reason: string): Error {
  const [, name = "Error", message = reason] = /^(\w{1,100}): (.*)$/s.exec(reason) ?? [];
  return Object.assign(new Error(message), { name });
}

/** The answer to a request that was refused. */
export function refusal(error: unknown): Acceptance {
  const { name, message } = failureOf(error);
  const retryAfter = NO_ROOM.has(name) && { retryAfter: RETRY_AFTER_S };
  return { verdict: "refused", error: { ...fieldsOf(error), name, message }, ...retryAfter };
}

/** Fields of an error that a handler may need, as it gets them over RPC. They are not stored. */
function fieldsOf(error: unknown): Record<string, string | number | boolean> {
  try {
    const fields = Object.entries(error as object).filter(
      ([name, value]) =>
        !["__proto__", "stack", "message"].includes(name) &&
        (typeof value === "number" ||
          typeof value === "boolean" ||
          (typeof value === "string" && value.length <= MAX_FIELD_LENGTH)),
    );
    return Object.fromEntries(fields.slice(0, MAX_FIELDS));
  } catch {
    // No object, or its getters throw.
    return {};
  }
}

/** It returns a promise, so it runs outside of a transaction. */
function isAsync(method: Method): boolean {
  return method instanceof AsyncFunction;
}

function isPromise(value: unknown): value is PromiseLike<unknown> {
  return typeof (value as PromiseLike<unknown> | null | undefined)?.then === "function";
}
