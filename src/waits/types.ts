/** The words of the waits: what a workflow asks for, what it is told, and what a kind of wait has to do. */

import type { Json } from "../core/json.ts";

/** What a workflow can wait for at its agent, besides turns. */
export const WAIT_KINDS = ["approval", "agent-tool", "codemode"] as const;
export type WaitKindName = (typeof WAIT_KINDS)[number];

/** How a wait can end. */
export type WaitStatus =
  /** What was waited for is there: `result` has it. */
  | "completed"
  /** A person said no. */
  | "rejected"
  /** It failed: `result` says how. */
  | "failed"
  /** Its time was over. */
  | "expired"
  /** Nobody waits for it any more. */
  | "cancelled";

/** The step of a workflow that waits. */
export type WaitWorkflow = {
  /** The Workflow's binding name in `env`. */
  readonly name: string;
  /** The instance's id. */
  readonly id: string;
  readonly stepName: string;
};

/** What a step asks of the agent. */
export type WaitRequest = {
  readonly kind: WaitKindName;
  /** The wait's identity: workflow, instance, step and key (W1). */
  readonly idempotencyKey: string;
  /** The run of the workflow that asks; a restart begins a new one (W1). */
  readonly run: string;
  readonly workflow: WaitWorkflow;
  /** What is asked, in the words of the kind. */
  readonly request: Json;
  /** A closed wait of the same key whose result the step refuses: another one takes its place (W4). */
  readonly refuses?: string;
  /** How long the step waits, milliseconds: a day after that nobody does, and the wait is closed (W2). */
  readonly timeoutMs: number;
};

/** What the agent answers: which event to wait for, unless the wait is closed already. */
export type WaitReceipt = {
  readonly waitId: string;
  readonly eventType: string;
  /** Comes with the event. Nobody else knows it, so an event without it is not the agent's (W3). */
  readonly proof: string;
  /** Set when there is nothing to wait for. */
  readonly end?: WaitEnd;
};

/** How a wait was closed, in a form that the result of a step can hold (O4). */
export type WaitEnd =
  | {
      readonly waitId: string;
      readonly status: WaitStatus;
      /** Epoch milliseconds. */
      readonly settledAt: number;
      readonly result: Json;
    }
  | {
      readonly waitId: string;
      readonly status: WaitStatus;
      readonly settledAt: number;
      /** In place of a large result: the agent has it, to be read in parts. */
      readonly reference: {
        /** Of the result as JSON in UTF-8. */
        readonly bytes: number;
      };
    };

/** The event that tells a workflow of it. */
export type WaitEvent = {
  readonly type: `wait.${WaitStatus}`;
  /** When it was closed, ISO 8601. */
  readonly timestamp: string;
  readonly data: {
    readonly waitId: string;
    readonly status: WaitStatus;
    /** Epoch milliseconds. */
    readonly settledAt: number;
    readonly result: Json;
  };
};

/** How a wait is to be closed. */
export type Closing = { readonly status: WaitStatus; readonly result: Json };

/** A wait as it is now. */
export type Wait = {
  readonly waitId: string;
  readonly kind: WaitKindName;
  /** The run of the workflow that asked last. */
  readonly run: string;
  readonly workflow: WaitWorkflow;
  /** The wait that this one was opened for, if it is not the workflow itself. */
  readonly parent: string | undefined;
  /** What its event proves by that the agent has sent it. */
  readonly proof: string;
  readonly request: Json;
  /** What its kind has noted, from one drive to the next. */
  readonly state: Json | undefined;
  readonly status: "open" | WaitStatus;
  /** Of a closed one. */
  readonly result: Json | undefined;
  /** Epoch milliseconds. */
  readonly createdAt: number;
  /** When nobody asks for its end any more. */
  readonly expiresAt: number;
  readonly settledAt: number | undefined;
  /** Whether there is something to do about it: it is open, or what is under way for it has to be stopped. */
  readonly isLive: boolean;
};

/** The kinds that an agent has. */
export type WaitKinds = Readonly<Partial<Record<WaitKindName, WaitKind>>>;

/** A kind of wait: who brings about what is waited for. */
export interface WaitKind {
  /** Whether what an earlier run of the workflow was told answers a later one, too, instead of a new wait (W1). */
  answersLaterRuns(wait: Wait): boolean;
  /** Whether a later run that asks something else than an open wait has it cancelled and gets one of its own, instead of taking it over. */
  readonly asksAnew?: boolean;
  /**
   * Brings it about, where nobody else does: called when the wait has been opened, when its time to wake has come, when a wait inside it
   * was closed, and after a restart of the object. Never twice at a time for one wait. It has to find out itself how far it
   * has come, closes the wait by `waits.close()`, and returns when it wants to be called again at the latest
   * (epoch milliseconds), or null: not before something happens. What it throws is logged, and it is called again.
   */
  drive?(wait: Wait): Promise<number | null>;
  /** The time of its step is over: what to close it with in place of the step's word, e.g. the end that nobody has told of yet (W2). */
  lastLook?(wait: Wait): Promise<Closing | undefined>;
  /**
   * The wait was closed by its time or by its workflow, before its end came: stops what is under way for it. Called
   * until it has returned once, over restarts of the object, and maybe beside a drive.
   */
  stop?(wait: Wait): Promise<void>;
  /** Tells the app and its clients of a wait that was opened or closed. What it throws is logged. */
  announce?(wait: Wait): void | Promise<void>;
}
