/** What the outbox refuses, and how a destination refuses for good. */

/**
 * The destination will never take the event, however often it is tried. An
 * adapter throws it, and so may the method that is told: the entry becomes a
 * dead letter at once (O3). Known by its name, because RPC loses the class.
 */
export class UndeliverableError extends Error {
  override readonly name = "UndeliverableError";
  /** The destination is gone as a whole: nothing else is to be sent to it, either. */
  readonly isGone: boolean;

  constructor(
    message: string,
    { isGone = false, ...options }: ErrorOptions & { isGone?: boolean } = {},
  ) {
    super(message, options);
    this.isGone = isGone;
  }
}

/**
 * The step that the event is for has ended, and nobody waits for it any more: the entry is discarded, and is no dead
 * letter. An adapter throws it for events whose receiver can ask for the result again.
 */
export class NotNeededError extends Error {
  override readonly name = "NotNeededError";
}

/** Of a text that SQLite and UTF-8 cannot hold: storage would change it, and two texts could become one. */
export const MALFORMED = "expected well-formed text, and it has half of a surrogate pair";

/** A destination to which nothing can be sent as it is. */
export class InvalidDestinationError extends Error {
  override readonly name = "InvalidDestinationError";
}

/** An event that JSON cannot hold, or that is too large. */
export class InvalidEventError extends Error {
  override readonly name = "InvalidEventError";
}

/** So many entries wait to be delivered that no more are taken. */
export class OutboxFullError extends Error {
  override readonly name = "OutboxFullError";
  /** Entries that wait. */
  readonly waiting: number;
  /** The option `maxWaiting`. */
  readonly limit: number;

  constructor(waiting: number, limit: number) {
    super(
      `The outbox is full: ${waiting} entries wait to be delivered, and at most ${limit} may. Try again when some have been delivered, disable endpoints that hang, or raise maxWaiting.`,
    );
    this.waiting = waiting;
    this.limit = limit;
  }
}

/** What a list, a count or a redrive was asked by cannot be meant. */
export class InvalidFilterError extends Error {
  override readonly name = "InvalidFilterError";
}

/** A Workflow has an instance with this id already, or its start is under way. */
export class WorkflowExistsError extends Error {
  override readonly name = "WorkflowExistsError";
  /** The Workflow's binding name. */
  readonly workflow: string;
  /** The id of the instance. */
  readonly instance: string;

  constructor(
    { workflow, instance }: { readonly workflow: string; readonly instance: string },
    options?: ErrorOptions,
  ) {
    // It begins as the platform's own message does.
    super(
      `(instance.already_exists) Workflow ${workflow} has an instance with id ${JSON.stringify(instance)} already. Use another id, or pass ifExists: "return" to accept the instance that exists.`,
      options,
    );
    this.workflow = workflow;
    this.instance = instance;
  }
}
