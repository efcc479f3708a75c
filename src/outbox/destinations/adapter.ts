/** The interface that each kind of destination implements. */

import type * as z from "zod";
import type { Clock } from "../../core/clock.ts";
import type { Json } from "../../core/json.ts";
import type { Problem } from "../../core/problems.ts";
import type { DeliveryPolicy } from "../delivery/policy.ts";

export type WithPolicy = { readonly policy?: DeliveryPolicy };

/** The fields of every destination. */
export type AnyDestination = WithPolicy & { readonly kind: string };

/** The argument of a method and an agent, and the message of a workflow and a queue. */
export type Delivery<Event = unknown> = {
  /** The id of the delivery, on every attempt, so that a receiver can recognize a repetition. */
  readonly id: string;
  /** 1 for the first. A crash counts as an attempt, so a number may never arrive. */
  readonly attempt: number;
  readonly event: Event;
};

/** Replaces an event that is too large for its destination. */
export type ReferencedDelivery = Pick<Delivery, "id" | "attempt"> & {
  /** Its sender's outbox has the event: `outbox.read(id)`. */
  readonly reference: {
    /** Of the event as JSON in UTF-8. */
    readonly bytes: number;
    /** The name of the sending agent, where it has one. */
    readonly sender?: string;
  };
};

/** An invalid field of a destination: `Invalid destination.<field> <given>: <expected>.` */
export type FieldProblem = {
  readonly field: string;
  /** The value as the message shows it. */
  readonly given: string;
  /** `expected ...`, then the remedy, without the last full stop. */
  readonly expected: string;
};

/** Facts of an attempt, and `markSending()`, which records that a request leaves. */
export type AttemptContext = {
  /** When the event was put, epoch milliseconds. */
  readonly createdAt: number;
  /** Whether an earlier attempt may have reached the receiver. */
  readonly isRepeated: boolean;
  /** The W3C trace context of the delivery, for the header of a request. */
  readonly traceparent?: string | undefined;
  /**
   * Await it right before the first request that has an effect, where the receiver does not recognize a repetition by the
   * delivery id. It stores that the outcome may never be known: because of the time limit, a lost connection or a crash.
   *
   * @throws when the attempt has ended; then send nothing
   */
  markSending(): Promise<void>;
};

/** Delivers to one kind of destination. */
export interface Adapter<To = AnyDestination> {
  /** The part that this Worker lacks for a valid destination, e.g. its binding; undefined: none. */
  problemOf(destination: To): FieldProblem | undefined;
  /** Entries with the same key are delivered one after the other. It begins with the kind and a space. */
  keyOf(destination: To): string;
  /** The destination in a few words, for a log. */
  labelOf(destination: To): string;
  /** Bytes of a delivery as JSON that the destination takes. A larger event is sent as a reference. */
  readonly maxBytes: number;
  /** The time limit of one attempt where the policy has none, in milliseconds. */
  readonly timeoutMs: number;
  /**
   * Resolves when the destination has taken the delivery.
   *
   * @param signal aborted when the time limit of the attempt has passed
   * @throws UndeliverableError when no further attempt can succeed; any other error is retried. After `markSending()`, only a
   *   RefusedError is certain to be retried
   */
  deliver(
    destination: To,
    delivery: Delivery | ReferencedDelivery,
    signal: AbortSignal,
    attempt: AttemptContext,
  ): Promise<void>;
  /**
   * For how long the receiver recognizes a repetition, in milliseconds after the first attempt that called `markSending()`
   * and whose outcome is not known. Later the entry is not attempted again: it becomes a dead letter.
   * @default Infinity
   */
  readonly repeatableMs?: number;
  /**
   * Telemetry must not crowd out work: it is dropped while half of `maxWaiting` waits, an entry that is given up is discarded
   * instead of kept as a dead letter, and a delivered one is never kept.
   */
  readonly isTelemetry?: true;
  /** What is wrong with an event, as a sentence; undefined for a valid one. For a kind that does not take every event. */
  problemOfEvent?(event: Json): string | undefined;
  /** Whether the receiver has ended, or was terminated or deleted, for a kind where that can happen. */
  endOf?(destination: To): Promise<"ended" | "gone" | null>;
}

/** The part of the outbox that adapters use. */
export type AdapterContext = {
  /** The object that has the outbox. */
  readonly host: object;
  /** Its bindings. */
  readonly env: object;
  readonly now: Clock["now"];
  readonly allowPrivateAddresses: boolean;
  /** Runs the app's code as the host. */
  readonly inHostContext: <T>(work: () => Promise<T>) => Promise<T>;
  /** Identifies this instance of the object: another after each restart. */
  readonly objectInstance: string;
  readonly reportProblem: (problem: Problem) => void;
};

/** A kind of destination. */
export type DestinationKind = {
  /** The schema of the kind's destinations, which are stored as JSON. */
  readonly schema: z.ZodType<AnyDestination>;
  connect(context: AdapterContext): Adapter<never>;
};
