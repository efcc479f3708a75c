/** The words of the outbox: what is delivered, where to, by which policy, and how it can fail. */

import type { Duration } from "../core/duration.ts";
import type { Instant } from "../core/instant.ts";
import type { Json } from "../core/json.ts";

/** How a destination is tried. What a destination says itself is kept with each of its entries. */
export type DeliveryPolicy = {
  /**
   * Attempts before the entry becomes a dead letter.
   * @default 100
   */
  readonly maxAttempts?: number;
  /**
   * How old an entry may become before it is a dead letter, however few its attempts.
   * @default "3 days"
   */
  readonly maxAge?: Duration;
  /**
   * How long one attempt may take. It may have arrived all the same, so the next one repeats its id (O2).
   * @default "30 seconds", of a webhook "15 seconds"
   */
  readonly timeout?: Duration;
  /** The delay after a failure: a random part of `base`, doubled with each failure, at most `cap` (full jitter). */
  readonly backoff?: {
    /** @default "1 second" */
    readonly base?: Duration;
    /** @default "1 hour" */
    readonly cap?: Duration;
  };
  /**
   * Attempts to one destination always begin in the order of `put()`, one at a
   * time. With `true` an entry that fails also holds back those behind it
   * until it is taken or given up; without, it steps aside for them (O3).
   * Say the same for all entries of a destination.
   * @default false
   */
  readonly ordered?: boolean;
};

type WithPolicy = { readonly policy?: DeliveryPolicy };

/** An instance of a Workflow that waits for an event. */
export type WorkflowDestination = WithPolicy & {
  readonly kind: "workflow";
  /** The Workflow's binding name in `env`. */
  readonly workflow: string;
  /** The instance's id. */
  readonly instance: string;
  /** The event type that the instance waits for. */
  readonly eventType: string;
  /** A secret of the sender and the instance. It comes with the event as `proof`, and is in no list of dead letters. */
  readonly proof?: string;
};

/** One instance of a Workflow: the binding's name and the instance's id. Instances of two Workflows may have one id. */
export type InstanceOf = Pick<WorkflowDestination, "workflow" | "instance">;

/** An HTTP endpoint, told by a request that is signed as Standard Webhooks says. */
export type WebhookDestination = WithPolicy & {
  readonly kind: "webhook";
  /** Where to: `https:`. State is kept for each URL. */
  readonly url: string;
  /** Names of the secrets in `env` that sign it, never the secrets themselves; several while they are rotated. */
  readonly secrets: readonly string[];
};

/** A Cloudflare Queue. */
export type QueueDestination = WithPolicy & {
  readonly kind: "queue";
  /** The producer's binding name in `env`. */
  readonly queue: string;
};

/** A method of the agent that the outbox belongs to. */
export type MethodDestination = WithPolicy & {
  readonly kind: "method";
  readonly method: string;
};

/** A method of another agent or Durable Object, over RPC. */
export type AgentDestination = WithPolicy & {
  readonly kind: "agent";
  /** The namespace's binding name in `env`. */
  readonly agent: string;
  /** Which one. */
  readonly name: string;
  readonly method: string;
};

/** An instance of a Workflow that is to be started. */
export type WorkflowStartDestination = WithPolicy & {
  readonly kind: "workflow-start";
  /** The Workflow's binding name in `env`. */
  readonly workflow: string;
  /** The id of the new instance. */
  readonly instance: string;
  /** See {@link WorkflowStartOptions.ifExists}. */
  readonly ifExists?: IfExists;
};

/** What an instance is started with. It is stored until the instance has started. */
export type WorkflowStartEvent = {
  readonly params?: unknown;
  readonly retention?: WorkflowInstanceCreateOptions["retention"];
  readonly metadata?: Readonly<Record<string, unknown>>;
  readonly agentBinding?: string;
  /** Set by `put()`: which instance of the object has put it. A later one cannot know whether an attempt was made. */
  readonly life?: string;
};

export type IfExists = "throw" | "return";

/** How an instance of a Workflow is started. */
export type WorkflowStartOptions<Params = unknown> = WithPolicy & {
  /**
   * The id of the instance: 1 to 100 of `[A-Za-z0-9_-]`, the first no `-`.
   * @default a random UUID
   */
  readonly id?: string;
  /** The workflow's `event.payload`: up to 1,032,192 bytes of JSON. */
  readonly params?: Params;
  /** How long the platform keeps the instance after its end. Passed to `create()` of the binding. */
  readonly retention?: WorkflowInstanceCreateOptions["retention"];
  /** Stored with the instance where the agent tracks it, for `getWorkflows({ metadata })`. */
  readonly metadata?: Readonly<Record<string, unknown>>;
  /**
   * The binding of the agent that starts it, or of its root agent.
   * @default the binding that has the name of the agent's class
   */
  readonly agentBinding?: string;
  /**
   * What happens if the Workflow has an instance with this id: with `"throw"` the start fails, with `"return"` it
   * succeeds without a second instance.
   * @default "throw"
   */
  readonly ifExists?: IfExists;
};

/** What `workflow()` returns, for `outbox.put()`. */
export type WorkflowStart = {
  /** The delivery id: one for each instance. */
  readonly id: string;
  readonly destination: WorkflowStartDestination;
  readonly event: WorkflowStartEvent;
};

/** `create()` of a Workflow binding, which finds the instance if an earlier attempt has created it. */
export type CreateInstance = (
  options: WorkflowInstanceCreateOptions,
) => Promise<{ readonly instance: WorkflowInstance; readonly isNew: boolean }>;

/** Starts an instance by `create`. A host that tracks instances does both. */
export type StartWorkflow = (
  start: WorkflowStartDestination &
    WorkflowStartEvent & {
      readonly deliveryId: string;
      /** Whether no attempt has come before. */
      readonly isFirst: boolean;
    },
  create: CreateInstance,
) => Promise<void>;

export type Destination =
  | WorkflowDestination
  | WorkflowStartDestination
  | WebhookDestination
  | QueueDestination
  | MethodDestination
  | AgentDestination;

/** One attempt to tell a destination of an event: what a method, an agent, a workflow and a queue receive. */
export type Delivery<Event = unknown> = {
  /** The same on every attempt, so that a receiver can tell a repetition (O2). */
  readonly id: string;
  /** 1 for the first. A crash counts as an attempt, so a number may never arrive. */
  readonly attempt: number;
  readonly event: Event;
};

/** What comes in place of an event that is too large for its destination (O4). */
export type ReferencedDelivery = Pick<Delivery, "id" | "attempt"> & {
  /** Its sender's outbox has the event: `outbox.read(id)`. */
  readonly reference: {
    /** Of the event as JSON in UTF-8. */
    readonly bytes: number;
    /** The name of the agent that has sent it, where it has one. */
    readonly sender?: string;
  };
};

/** How one kind of destination is told. */
export interface Adapter<To extends Destination = Destination> {
  /** What is wrong with the destination, to be read after its name; undefined for a right one. */
  problemOf(destination: To): string | undefined;
  /** Entries with the same key go one after the other. */
  keyOf(destination: To): string;
  /** Bytes of a delivery as JSON that the destination takes; what is larger comes as a reference (O4). */
  readonly maxBytes: number;
  /** Of one attempt, where the policy does not say; milliseconds. */
  readonly timeoutMs: number;
  /**
   * Resolves when the destination has taken it.
   *
   * @param signal aborted when the attempt's time is over
   * @throws UndeliverableError when no further attempt can succeed; anything else is tried again
   */
  deliver(
    destination: To,
    delivery: Delivery | ReferencedDelivery,
    signal: AbortSignal,
  ): Promise<void>;
  /** Whether it was terminated or is gone, for a kind that can be. What it throws says nothing. */
  isGone?(destination: To): Promise<boolean>;
}

/** An entry that is not attempted any more; it keeps its payload until it is redriven or deleted (O3). */
export type DeadLetter = {
  /** The delivery id. */
  readonly id: string;
  readonly destination: Destination;
  /** Left out of a list, and of what a hook is told, where it is long: `read(id)` has it. */
  readonly event?: Json;
  /** Attempts that were begun. */
  readonly attempts: number;
  /** Why it was given up. */
  readonly lastError: string;
  /** When it was put, epoch milliseconds. */
  readonly createdAt: number;
  /** When it was given up, epoch milliseconds. */
  readonly diedAt: number;
};

/** Which dead letters: all of them, where nothing is said. */
export type DeadLetterFilter = {
  /** Given up at this time or later. */
  readonly since?: Instant;
  /** For this destination: at an agent, whatever the method; at a workflow, whatever the event type. */
  readonly destination?: Destination;
};

export type ListDeadLettersOptions = DeadLetterFilter & {
  /**
   * From 1 to 1,000.
   * @default 100
   */
  readonly limit?: number;
  /** Where the page before this one has ended. */
  readonly cursor?: string | undefined;
};

export type DeadLetterPage = {
  /** Newest first. */
  readonly deadLetters: DeadLetter[];
  /** For the next page; not set on the last one. */
  readonly cursor?: string;
};

/** What is known of a URL that webhooks go to. */
export type Endpoint = { readonly url: string } & (
  | { readonly state: "healthy" }
  | {
      readonly state: "failing";
      /** When it failed for the first time since its last success, epoch milliseconds. */
      readonly since: number;
      /** How it failed then. */
      readonly reason: string;
      /** Nothing is sent to it before that time, as it asked for; epoch milliseconds. */
      readonly heldUntil?: number;
    }
  | {
      readonly state: "disabled";
      /** When it was disabled, epoch milliseconds. */
      readonly since: number;
      readonly reason: string;
    }
);

/** Where an event is, by its delivery id. */
export type DeliveryState =
  | {
      readonly state: "waiting";
      /** The number of the attempt that is under way, or comes next. */
      readonly attempt: number;
      /** Epoch milliseconds. */
      readonly dueAt: number;
      readonly lastError?: string;
    }
  | {
      readonly state: "delivered";
      readonly attempt: number;
      /** Epoch milliseconds. */
      readonly deliveredAt: number;
    }
  | {
      /** Its receiver had ended: a workflow whose step no longer waits for it. */
      readonly state: "discarded";
      readonly attempt: number;
      /** Epoch milliseconds. */
      readonly discardedAt: number;
      /** How the receiver ended. */
      readonly reason: string;
    }
  | {
      readonly state: "dead";
      readonly attempt: number;
      /** Epoch milliseconds. */
      readonly diedAt: number;
      readonly lastError: string;
    };

/** A delivery in a list, without its event: `read(id)` has that. */
export type DeliveryInfo = DeliveryState & {
  /** The delivery id. */
  readonly id: string;
  /** The submission whose end it tells of. Left out for an id of more than 200 bytes. */
  readonly submissionId?: string;
  readonly destination: Destination;
  /** When it was put, epoch milliseconds. */
  readonly createdAt: number;
};

/** Which deliveries are listed: all of them, where nothing is said. */
export type ListDeliveriesOptions = {
  /** Delivered ones are kept only if `keepDelivered` is set, or if their event travelled as a reference. */
  readonly state?: DeliveryState["state"] | readonly DeliveryState["state"][];
  /** Those that tell of the end of this submission. */
  readonly submissionId?: string;
  readonly kind?: Destination["kind"];
  /** To this destination: at an agent, whatever the method; at a workflow, whatever the event type. */
  readonly destination?: Destination;
  /**
   * From 1 to 1,000.
   * @default 100
   */
  readonly limit?: number;
  /** Where the page before this one has ended. */
  readonly cursor?: string | undefined;
};

export type DeliveryPage = {
  /** Newest first, by the time at which each came into its state. */
  readonly deliveries: DeliveryInfo[];
  /** For the next page; not set on the last one. */
  readonly cursor?: string;
};

export type OutboxStats = {
  /** Entries still to be delivered. */
  readonly waiting: number;
  /** When the one that waits longest was put, epoch milliseconds. */
  readonly oldestAt?: number;
  readonly deadLetters: number;
};
