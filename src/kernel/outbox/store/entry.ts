/** A waiting entry, as the stores give it to the delivery. */

import type { Destination } from "../destinations/index.ts";

export type NewEntry = {
  readonly id: string;
  /** The key of its destination. */
  readonly key: string;
  readonly destination: Destination;
  /** The event as JSON. */
  readonly payload: string;
  /** Whether the entries behind it wait for it. */
  readonly isOrdered: boolean;
  /** The `traceparent` of its requests. */
  readonly traceParent?: string | undefined;
};

export type OutboxEntry = NewEntry & {
  readonly dueAt: number;
  /** The number of the attempt that is in flight or comes next. */
  readonly attempt: number;
  /** Whether that attempt may have started: a first one since its insert, another one since its claim. */
  readonly isStarted: boolean;
  /** Attempts in a row that a crash of the object may have interrupted. */
  readonly interruptions: number;
  /** Attempts that do not count: those before a redrive, and interrupted ones. */
  readonly earlierAttempts: number;
  /** When it was put, epoch milliseconds. */
  readonly createdAt: number;
  /** When it was put or redriven, epoch milliseconds. */
  readonly queuedAt: number;
  /** When the first attempt began whose outcome is not known, epoch milliseconds; null: there is none. */
  readonly unsureSince: number | null;
  /** Whether the event is stored in parts. */
  readonly isInParts: boolean;
};
