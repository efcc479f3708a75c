/** What the verbs of the outbox accept and return. */

import type { Json } from "../core/json.ts";
import type { Instant } from "../core/options/instant.ts";
import type { PageOptions } from "../engine/page.ts";
import type { Destination } from "./destinations/index.ts";

export type { Destination } from "./destinations/index.ts";

/** An entry that is not attempted any more. It keeps its event until it is redriven or deleted. */
export type DeadLetter = {
  /** The delivery id. */
  readonly id: string;
  readonly destination: Destination;
  /** Left out of lists and hooks where it is long: `read(id)` has it. */
  readonly event?: Json;
  /** Attempts that were started. */
  readonly attempts: number;
  /** Why it is a dead letter. */
  readonly lastError: string;
  /** When it was put, epoch milliseconds. */
  readonly createdAt: number;
  /** When it became a dead letter, epoch milliseconds. */
  readonly diedAt: number;
  /** It may have been delivered: an attempt had an unknown outcome, and its receiver does not recognize a repetition. */
  readonly isUncertain: boolean;
};

/** Which dead letters. All of them by default. */
export type DeadLetterFilter = {
  /** Only entries that became dead letters at this time or later. */
  readonly since?: Instant;
  /** Only entries for this destination: of an agent, for any method; of a workflow, for any event type. */
  readonly destination?: Destination;
  /**
   * True: those that may have been delivered. False: the others.
   * @default all; for a redrive: false
   */
  readonly isUncertain?: boolean;
};

/** A page has up to 1,000 items, 100 by default. */
export type ListDeadLettersOptions = DeadLetterFilter & PageOptions;

/** The state of a URL that webhooks go to. */
export type Endpoint = { readonly url: string } & (
  | { readonly state: "healthy" }
  | {
      readonly state: "failing";
      /** When it failed for the first time since its last success, epoch milliseconds. */
      readonly since: number;
      /** The error of that failure. */
      readonly reason: string;
      /** Until when nothing is sent to it, because of its Retry-After; epoch milliseconds. */
      readonly heldUntil?: number;
    }
  | {
      readonly state: "disabled";
      /** When it was disabled, epoch milliseconds. */
      readonly since: number;
      readonly reason: string;
    }
);

/** The state of a delivery. Times are epoch milliseconds. */
export type DeliveryState = {
  /** The number of the last attempt; while it waits, of the one that is in flight or comes next. */
  readonly attempt: number;
} & (
  | { readonly state: "waiting"; readonly dueAt: number; readonly lastError?: string }
  | { readonly state: "delivered"; readonly deliveredAt: number }
  | {
      /** Its receiver has ended: a workflow whose step no longer waits for it. */
      readonly state: "discarded";
      readonly discardedAt: number;
      /** How the receiver ended. */
      readonly reason: string;
    }
  | { readonly state: "dead"; readonly diedAt: number; readonly lastError: string }
);

/** A delivery in a list, without its event: `read(id)` has that. */
export type DeliveryInfo = DeliveryState & {
  /** The delivery id. */
  readonly id: string;
  /** The submission that it belongs to. Left out for an id of more than 200 bytes. */
  readonly submissionId?: string;
  readonly destination: Destination;
  /** When it was put, epoch milliseconds. */
  readonly createdAt: number;
};

/** Which deliveries are listed. All of them by default, in pages of up to 1,000, and 100 by default. */
export type ListDeliveriesOptions = Pick<DeadLetterFilter, "destination"> &
  PageOptions & {
    /** Delivered ones are kept only with `keepDelivered`, or if their event was sent as a reference. */
    readonly state?: DeliveryState["state"] | readonly DeliveryState["state"][];
    /** Only deliveries of this submission. */
    readonly submissionId?: string;
    readonly kind?: Destination["kind"];
  };

export type OutboxStats = {
  /** Entries that wait to be delivered. */
  readonly waiting: number;
  /** When the oldest of them was put, epoch milliseconds. */
  readonly oldestAt?: number;
  readonly deadLetters: number;
};
