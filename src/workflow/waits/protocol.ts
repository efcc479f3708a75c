/**
 * The wait protocol: how a step of a workflow waits for something at its agent. `open` a wait, `check` whether it has
 * ended, `read` a large result, `refuse` a result, `close` the wait when its time is over.
 */

import type { AgentPathStep } from "agents";
import type { Failure } from "../../core/failures.ts";
import type { Json } from "../../core/json.ts";
import type { Part } from "../../core/text.ts";
import type { InstanceOf } from "../../outbox/destinations/workflow-event.ts";
import type { OwnerOptions } from "../../submissions/submit-options.ts";

/** How a wait can end. */
export type WaitStatus =
  /** `result` has what was waited for. */
  | "completed"
  /** A person rejected it. */
  | "rejected"
  /** It failed: `result` says how. */
  | "failed"
  /** It had not ended within its timeout. */
  | "expired"
  /** The workflow was terminated, or what the wait was part of has ended. */
  | "cancelled";

/** The step of a workflow that waits. */
export type WaitWorkflow = {
  /** The Workflow's binding name in `env`. */
  readonly name: string;
  /** The instance's id. */
  readonly id: string;
  readonly stepName: string;
};

/** A run of a workflow, over its restarts. */
export type RunRef = Pick<WaitWorkflow, "name" | "id">;

/** The request of a step to its agent. */
export type WaitRequest<Request = unknown> = {
  /** `approval`, `prompt`, ...: the names that the kinds have in `KINDS`, and those of features. */
  readonly kind: string;
  /** Identifies the wait: workflow, instance, step and key. */
  readonly idempotencyKey: string;
  /** The run of the workflow; a restart begins a new one. */
  readonly run: string;
  readonly workflow: WaitWorkflow;
  /** Defined by the kind. */
  readonly request: Request;
  /** An earlier wait of this step whose result the step refuses: the new wait asks again. */
  readonly refuses?: string;
  /** How long the step waits, in milliseconds. */
  readonly timeoutMs: number;
  /** Options of the run for its prompts, where another agent than the one that started it is asked. */
  readonly owner?: OwnerOptions;
};

/** Names a wait that was opened. A kind may add what else it needs to find it. */
export type WaitRef = { readonly kind: string; readonly waitId: string };

/** The agent's answer: which event to wait for, unless the wait has ended. */
export type WaitReceipt<End = WaitEnd> = {
  readonly waitId: string;
  readonly eventType: string;
  /** Comes with the event. Only the agent and this workflow know it: an event without it is not the agent's. */
  readonly proof: string | undefined;
  /** Set when the wait has ended. */
  readonly end?: End;
};

/** The calls of workflow steps to their agent. */
export type StepCalls = {
  /** Opens a wait, or finds the one that was opened before. */
  openWait(request: WaitRequest): Promise<object | null>;
  /** How a wait has ended, or null while it is open. */
  checkWait(wait: WaitRef): Promise<object | null>;
  /** A part of a large result, or null if it does not exist. */
  readWait(wait: WaitRef, part: number): Promise<object | null>;
  /** The step cannot take these results: a later run of the workflow asks again. */
  refuseWait(kind: string, waitIds: readonly string[]): Promise<void>;
  /** The step's time is over. Returns the end, or null if there is none. */
  closeWait(wait: WaitRef, closing: Closing): Promise<object | null>;
  /** A run has ended, with its error or null. */
  finishWorkflowRun(workflowId: string, failure: Failure | null): Promise<void>;
  /** Options of `runWorkflow()` that the prompts of the run inherit. */
  ownerOfRun(workflow: RunRef): Promise<OwnerOptions>;
  /** Where a sub-agent is. */
  agentPath(): Promise<readonly AgentPathStep[]>;
};

/** How a wait with a row was closed, in a form that the result of a step can hold. */
export type WaitEnd = {
  readonly waitId: string;
  readonly status: WaitStatus;
  /** Epoch milliseconds. */
  readonly settledAt: number;
} & (
  | { readonly result: Json }
  | {
      /** In place of a large result, which is read in parts. */
      readonly reference: {
        /** Of the result as JSON in UTF-8. */
        readonly bytes: number;
      };
    }
);

/** A part of a large result. */
export type WaitPart = Part;

/** How a wait is to be closed. */
export type Closing = { readonly status: WaitStatus; readonly result: Json };

/** Result, and the id of the event that caused it, by which the row is found later. */
export type Ending = { readonly closing: Closing; readonly answeredBy: string };

/**
 * A kind of wait, as steps call it. All calls can be repeated. A kind either keeps its waits elsewhere and implements this
 * itself, or has rows in `perdure_jobs` and is a {@link StoredKind}.
 */
export interface WaitKind {
  /** Opens a wait, or finds the one that was opened before. Null where the kind cannot ask again. */
  open(request: WaitRequest): Promise<object | null>;
  /** How a wait has ended, or null while it is open. */
  check(wait: WaitRef): Promise<object | null>;
  /** A part of its result, from 0 on; null where there is none. */
  read(wait: WaitRef, part: number): Promise<object | null>;
  /** The step cannot take these results: they answer its own run, and no later one. */
  refuse(waitIds: readonly string[]): Promise<void>;
  /** The step's time is over. An end that is there wins; an open wait is closed. */
  close(wait: WaitRef, closing: Closing): Promise<object | null>;
  /** Cancels what a workflow instance waits for. */
  cancelFor?(of: InstanceOf, reason: string): Promise<void>;
}

/** A kind whose waits have rows: `Waits` opens, closes and reports them; the kind makes their ends happen. */
export interface StoredKind {
  /** Checks what the agent needs for a wait, before anything is stored. @throws InvalidOptionError if it is missing */
  check?(request: Json): Promise<void>;
  /**
   * Prepares what is stored with a new wait. What it returns is called in the transaction that opens the wait.
   *
   * @throws for a request that the agent cannot take; nothing is stored then
   */
  opening?(waitId: string, request: Json): Promise<((wait: Wait) => void) | undefined>;
  /** Whether a closed wait answers a later run of the workflow, too, instead of a new wait. */
  answersLaterRuns(wait: Wait): boolean;
  /** Whether an open wait is cancelled when its run ends: nobody decides or sends what no workflow waits for. */
  readonly endsWithRun?: boolean;
  /** Whether a later run that asks something else than an open wait gets a new wait, and the open one is cancelled. */
  readonly asksAnew?: boolean;
  /**
   * Key that matches an incoming event to this wait while it is open.
   *
   * @param refused the earlier wait, whose result the step refuses
   * @throws InvalidWaitError for a wait that cannot be opened
   */
  topicOf?(request: Json, refused: Wait | undefined): string;
  /** The end of a new wait whose event came before. Called in the transaction that opens the wait. */
  endAtOpen?(wait: Wait, refused: Wait | undefined): Ending | undefined;
  /** More for the receipt of a wait. */
  receiptOf?(wait: Wait): Promise<object>;
  /**
   * Makes progress. Called when the wait has been opened, at the time that the last call returned, when a wait inside it was closed,
   * and after a restart of the object; never twice at a time for one wait. It closes the wait by `waits.settle()`. An
   * error is logged, and the call is repeated.
   *
   * @returns when to be called again at the latest, epoch milliseconds, or null
   */
  drive?(wait: Wait): Promise<number | null>;
  /** The step's time is over: how to close the wait, in place of what the step says, e.g. with an end that was not reported. */
  lastLook?(wait: Wait): Promise<Closing | undefined>;
  /** The wait was closed from outside: stops what runs for it. Repeated until it returns once, also after restarts. */
  stop?(wait: Wait): Promise<void>;
  /** Notifies the app and its clients of a wait that was opened or closed. An error is logged. */
  announce?(wait: Wait): void | Promise<void>;
}

/** A wait that has a row. */
export type Wait = {
  readonly waitId: string;
  readonly kind: string;
  /** The run of the workflow that asked last. */
  readonly run: string;
  readonly workflow: WaitWorkflow;
  /** The wait that this one was opened inside of. */
  readonly parent: string | undefined;
  readonly proof: string;
  /** Key that matches an incoming event to this wait, where its kind has topics. */
  readonly topic: string | undefined;
  readonly request: Json;
  /** The state that its kind has stored between two drives. */
  readonly state: Json | undefined;
  readonly status: "open" | WaitStatus;
  /** Set once it is closed. */
  readonly result: Json | undefined;
  /** Epoch milliseconds. */
  readonly createdAt: number;
  /** When it is closed if the step never asks for its end. */
  readonly expiresAt: number;
  readonly settledAt: number | undefined;
  /** Whether it is open, or has work that is to be stopped. */
  readonly isLive: boolean;
};
