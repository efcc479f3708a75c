/** The words of the gates: what a workflow asks for, what it is told, and what a kind of gate has to do. */

import type { Json } from "../core/json.ts";

/** What a workflow can wait for at its agent, besides turns. */
export const GATE_KINDS = ["approval", "agent-tool", "codemode"] as const;
export type GateKindName = (typeof GATE_KINDS)[number];

/** How a gate can end. */
export type GateStatus =
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
export type GateWorkflow = {
  /** The Workflow's binding name in `env`. */
  readonly name: string;
  /** The instance's id. */
  readonly id: string;
  readonly stepName: string;
};

/** What a step asks of the agent. */
export type GateRequest = {
  readonly kind: GateKindName;
  /** The gate's identity: workflow, instance, step and key (W1). */
  readonly idempotencyKey: string;
  /** The run of the workflow that asks; a restart begins a new one (W1). */
  readonly run: string;
  readonly workflow: GateWorkflow;
  /** What is asked, in the words of the kind. */
  readonly request: Json;
  /** A closed gate of the same key whose result the step refuses: another one takes its place (W4). */
  readonly refuses?: string;
  /** How long the step waits, milliseconds: a day after that nobody does, and the gate is closed (W2). */
  readonly timeoutMs: number;
};

/** What the agent answers: which event to wait for, unless the gate is closed already. */
export type GateReceipt = {
  readonly gateId: string;
  readonly eventType: string;
  /** Comes with the event. Nobody else knows it, so an event without it is not the agent's (W3). */
  readonly proof: string;
  /** Set when there is nothing to wait for. */
  readonly end?: GateEnd;
};

/** How a gate was closed, in a form that the result of a step can hold (O4). */
export type GateEnd =
  | {
      readonly gateId: string;
      readonly status: GateStatus;
      /** Epoch milliseconds. */
      readonly settledAt: number;
      readonly result: Json;
    }
  | {
      readonly gateId: string;
      readonly status: GateStatus;
      readonly settledAt: number;
      /** In place of a large result: the agent has it, to be read in parts. */
      readonly reference: {
        /** Of the result as JSON in UTF-8. */
        readonly bytes: number;
      };
    };

/** The event that tells a workflow of it. */
export type GateEvent = {
  readonly type: `gate.${GateStatus}`;
  /** When it was closed, ISO 8601. */
  readonly timestamp: string;
  readonly data: {
    readonly gateId: string;
    readonly status: GateStatus;
    /** Epoch milliseconds. */
    readonly settledAt: number;
    readonly result: Json;
  };
};

/** How a gate is to be closed. */
export type Closing = { readonly status: GateStatus; readonly result: Json };

/** A gate as it is now. */
export type Gate = {
  readonly gateId: string;
  readonly kind: GateKindName;
  /** The run of the workflow that asked last. */
  readonly run: string;
  readonly workflow: GateWorkflow;
  /** The gate that this one was opened for, if it is not the workflow itself. */
  readonly parent: string | undefined;
  /** What its event proves by that the agent has sent it. */
  readonly proof: string;
  readonly request: Json;
  /** What its kind has noted, from one drive to the next. */
  readonly state: Json | undefined;
  readonly status: "open" | GateStatus;
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
export type GateKinds = Readonly<Partial<Record<GateKindName, GateKind>>>;

/** A kind of gate: who brings about what is waited for. */
export interface GateKind {
  /** Whether what an earlier run of the workflow was told answers a later one, too, instead of a new gate (W1). */
  answersLaterRuns(gate: Gate): boolean;
  /** Whether a later run that asks something else than an open gate has it cancelled and gets one of its own, instead of taking it over. */
  readonly asksAnew?: boolean;
  /**
   * Brings it about, where nobody else does: called when the gate has been opened, when its time to wake has come, when a gate inside it
   * was closed, and after a restart of the object. Never twice at a time for one gate. It has to find out itself how far it
   * has come, closes the gate by `gates.close()`, and returns when it wants to be called again at the latest
   * (epoch milliseconds), or null: not before something happens. What it throws is logged, and it is called again.
   */
  drive?(gate: Gate): Promise<number | null>;
  /** The time of its step is over: what to close it with in place of the step's word, e.g. the end that nobody has told of yet (W2). */
  lastLook?(gate: Gate): Promise<Closing | undefined>;
  /**
   * The gate was closed by its time or by its workflow, before its end came: stops what is under way for it. Called
   * until it has returned once, over restarts of the object, and maybe beside a drive.
   */
  stop?(gate: Gate): Promise<void>;
  /** Tells the app and its clients of a gate that was opened or closed. What it throws is logged. */
  announce?(gate: Gate): void | Promise<void>;
}
