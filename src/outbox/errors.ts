/** Errors of invalid calls, and of destinations that refuse an event permanently. */

/**
 * The destination will never take the event. Thrown by an adapter or by the receiving method: the entry becomes a dead
 * letter at once. Recognized by its name, because RPC loses the class.
 */
export class UndeliverableError extends Error {
  override readonly name = "UndeliverableError";
  /** The destination no longer exists: nothing else is sent to it either. */
  readonly isGone: boolean;

  constructor(
    message: string,
    { isGone = false, ...options }: ErrorOptions & { isGone?: boolean } = {},
  ) {
    super(message, options);
    this.isGone = isGone;
  }
}

/** {@link UndeliverableError}, also one that came over RPC or from another copy of this package. */
export function isUndeliverable(error: unknown): error is Error & { readonly isGone?: boolean } {
  return error instanceof Error && error.name === "UndeliverableError";
}

/**
 * The receiver has certainly not acted: the attempt can be repeated. Thrown by an adapter, also after `markSending()`. With
 * `retryAfterMs`, nothing is sent to the same destination until then.
 */
export class RefusedError extends Error {
  override readonly name = "RefusedError";
  /** When the receiver can be called again, in milliseconds from now. */
  readonly retryAfterMs: number | undefined;

  constructor(
    message: string,
    { retryAfterMs, ...options }: ErrorOptions & { retryAfterMs?: number | undefined } = {},
  ) {
    super(message, options);
    this.retryAfterMs = retryAfterMs;
  }
}

/** The error of telemetry that waits for deliveries. It is no failure of the collector. */
export const STILL_WAITING = "Deliveries of the submission's end still wait";

export function messageMatches(error: unknown, pattern: RegExp): error is Error {
  return error instanceof Error && pattern.test(error.message);
}

/**
 * The step that waited for the event has ended: the entry is discarded, and is no dead letter. Thrown by an adapter for
 * events whose receiver can ask for the result again.
 */
export class NotNeededError extends Error {
  override readonly name = "NotNeededError";
}

/** An invalid destination. */
export class InvalidDestinationError extends Error {
  override readonly name = "InvalidDestinationError";
}

/** An event that JSON cannot hold, or that is too large. */
export class InvalidEventError extends Error {
  override readonly name = "InvalidEventError";
}

/** `maxWaiting` entries wait already. */
export class OutboxFullError extends Error {
  override readonly name = "OutboxFullError";
  constructor(
    /** Entries that wait. */
    readonly waiting: number,
    /** The option `maxWaiting`. */
    readonly limit: number,
  ) {
    super(
      `The outbox is full: ${waiting} entries wait, and maxWaiting is ${limit}. Try again later, disable endpoints that hang, or raise maxWaiting.`,
    );
  }
}

/**
 * The id has an instance already, or one is being started. Ids are unique over all agents that start a Workflow, and an
 * agent's ids over all its Workflows.
 */
export class WorkflowExistsError extends Error {
  override readonly name = "WorkflowExistsError";
  /** The binding name of the Workflow that was not started. */
  readonly workflow: string;
  /** The id of the instance. */
  readonly instance: string;

  /**
   * @param options.holder the binding name of the Workflow that has the id; by default the same one
   * @param options.isOfAnother whether another agent has started the instance
   */
  constructor(
    { workflow, instance }: { readonly workflow: string; readonly instance: string },
    {
      holder = workflow,
      isOfAnother = false,
      ...options
    }: ErrorOptions & { holder?: string | undefined; isOfAnother?: boolean } = {},
  ) {
    const id = JSON.stringify(instance);
    const problem = isOfAnother
      ? `Workflow ${workflow} has an instance with id ${id} that this agent has not started. Use an id that contains the name of the agent.`
      : holder === workflow
        ? `Workflow ${workflow} has an instance with id ${id} already. Use another id, or pass ifExists: "return" to accept that instance.`
        : `Invalid id ${id} of Workflow ${workflow}: Workflow ${holder} has it. Use another id.`;
    // Begins like the platform's own message.
    super(`(instance.already_exists) ${problem}`, options);
    this.workflow = workflow;
    this.instance = instance;
  }
}
