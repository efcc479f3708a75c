/** Types of Code Mode as a wait: requests and ends, and the part of the runtime that is used. */

import type { Json } from "../../core/json.ts";

/** A call of a connector, or a step of the code, in the runtime's log. */
export type CallRecord = {
  readonly seq: number;
  readonly connector: string;
  readonly method: string;
  readonly args: unknown;
  readonly state: string;
};

/** An execution as the runtime has recorded it. */
export type ExecutionRecord = {
  readonly id: string;
  readonly code: string;
  readonly status: "running" | "paused" | "completed" | "error" | "rejected" | "rolled_back";
  /** By `seq`, maybe with holes. */
  readonly log: readonly (CallRecord | undefined)[];
  readonly result?: unknown;
  readonly error?: string;
  readonly logs?: readonly string[];
  /** Epoch milliseconds. */
  readonly createdAt: number;
  /** Epoch milliseconds of the last thing that was recorded of it. */
  readonly updatedAt: number;
};

/** The outcome of a pass over the code; the record has the rest. */
export type PassOutput = { readonly status: string; readonly error?: string };

/** The used part of `CodemodeRuntimeHandle`: described here, because the package is optional. */
export interface CodemodeRuntime {
  execute(input: { code: string }): Promise<PassOutput>;
  approve(options: { executionId: string }): Promise<PassOutput>;
  reject(options: { seq: number; executionId: string }): Promise<boolean>;
  rollback(options: { executionId: string }): Promise<void>;
  /** Newest first. */
  executions(limit?: number): Promise<ExecutionRecord[]>;
  deleteExecution(id: string): Promise<boolean>;
}

/** The agent's Code Mode runtime and its storage. */
export type CodemodePort = {
  /** @throws Error that says how to make one */
  runtime(): Promise<CodemodeRuntime>;
  /** Resolves when all that was written is durable. */
  sync(): Promise<void>;
};

/** What `runCode()` asks. */
export type CodemodeRequest = {
  readonly code: string;
  /** The fate of calls that were applied before an action was rejected. */
  readonly onReject: "keep" | "rollback";
};

/** A call that was begun, for the errors. */
export type CodemodeCall = {
  readonly connector: string;
  readonly method: string;
  /** `applied`: its result is recorded. Anything else: it may or may not have had its effect. */
  readonly state: string;
};

/** How it failed, besides a rejection. */
export type CodemodeFailure = "error" | "interrupted" | "unavailable";

/** The result of a wait of this kind, by the status that it is closed with. */
export type CodemodeEnd = {
  /** Unknown where nothing was begun, or its time was over. */
  readonly executionId?: string;
  /** Of a completed one; none where the code returned nothing. */
  readonly output?: Json;
  readonly logs?: string[];
  /** Of any other. */
  readonly error?: string;
  readonly failure?: CodemodeFailure;
  /** Begun calls, the latest of them where there are many. */
  readonly calls?: CodemodeCall[];
  /** Of a rejected one. */
  readonly action?: { connector: string; method: string };
  readonly by?: Json;
  readonly reason?: Json;
};

/** Progress, stored before the action that it names, so that a restart knows what may have happened. */
export type Progress =
  /** `execute()` is called. */
  | { readonly step: "begun"; readonly since: number }
  /** An action waits for a decision. */
  | {
      readonly step: "asked";
      readonly since: number;
      readonly executionId: string;
      readonly seq: number;
      readonly askedAt: number;
    }
  /** `approve()` is called. */
  | {
      readonly step: "approved";
      readonly since: number;
      readonly executionId: string;
      readonly seq: number;
    };
