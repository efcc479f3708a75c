/** The words of the outbox: what is delivered, where to, and how it can fail. */

/** An instance of a Workflow that waits for an event. */
export type WorkflowDestination = {
  readonly kind: "workflow";
  /** The Workflow's binding name in `env`. */
  readonly workflow: string;
  /** The instance's id. */
  readonly instance: string;
  /** The event type that the instance waits for. */
  readonly eventType: string;
};

export type Destination = WorkflowDestination;

/** One event on its way to one destination. */
export type Entry = {
  /** The delivery id: the same on every attempt, so that a receiver can tell a repetition (O2). */
  readonly id: string;
  readonly destination: Destination;
  /** What is delivered; JSON. */
  readonly payload: unknown;
  /** Attempts that failed so far. */
  readonly failures: number;
};

/** An entry that is not attempted any more; it keeps its payload (O3). */
export type DeadLetter = Entry & {
  /** Why the last attempt failed. */
  readonly lastError: string;
  /** When it was given up, epoch milliseconds. */
  readonly diedAt: number;
};

/**
 * Carries one entry to its destination, and resolves when it has been taken.
 *
 * @throws UndeliverableError when no further attempt can succeed; anything else is tried again.
 */
export type Courier = (entry: Entry) => Promise<void>;

/** The destination will never take the event, however often it is tried. */
export class UndeliverableError extends Error {
  override readonly name = "UndeliverableError";
}
