/** What deployments exchange with operators, `npx perdure check` and `replayWorkflow()`: plain JSON. Times are epoch milliseconds. */

import type { Failure } from "../../core/failures.ts";
import type { Json } from "../../core/json.ts";

/** The version of the app that accepted or began it; null: that was before versions were recorded. */
export type Version = string | null;

/** What a run begins with: the version of its class, and the changes that the class lists. */
export type RunStart = { readonly version: Version; readonly changes: readonly string[] };

export type BegunRun = {
  /** The Workflow's binding. */
  readonly workflowName: string;
  readonly workflowId: string;
  readonly version: string;
  readonly changes: readonly string[];
};

/** What open work needs of the code that continues it. */
export type Need =
  /** A tool of the agent, one of its tasks, a method of its class, or one of its features. */
  | { readonly what: "tool" | "task" | "method" | "feature"; readonly name: string }
  /** A binding of the Worker: a Workflow, or any other. */
  | { readonly what: "workflow" | "binding"; readonly name: string };

/** An item of open work. */
export type OpenItem = {
  /** `workflow`, `submission`, `approval`, `delivery`, ...: what `npx perdure` calls it. */
  readonly kind: string;
  readonly id: string;
  readonly version: Version;
  /** When it was accepted, or began. */
  readonly since: number;
  readonly needs: readonly Need[];
};

/** A version that an agent or a Workflow of it has run with, and what is open of it. */
export type DeployedVersion = {
  readonly version: Version;
  /** The Workflow whose `versions()` has this version. Unset for a version of the agent, which is another one by the same name. */
  readonly workflow?: string;
  /** When the agent has started with it first; null for what began before versions were recorded. */
  readonly since: number | null;
  readonly isCurrent: boolean;
  /** Open work by kind. */
  readonly open: Readonly<Record<string, number>>;
  /** Set where there is more open work than is counted: the oldest 10,000 items of all versions. */
  readonly isCut?: true;
};

/** A step of the platform that a run has made: `do`, `sleep` or `waitForEvent`. */
export type PlatformStep = {
  readonly name: string;
  /** Which of the steps of this name it is, from 1 on. */
  readonly count: number;
  readonly kind: "do" | "sleep" | "event";
  readonly status: "open" | "completed" | "failed" | "expired";
  readonly startedAt: number;
  /** Unset while it is open. */
  readonly endedAt?: number;
  /**
   * Of a completed `do`; unset where that was undefined, or is left out. The platform does not tell that of an event. A value that
   * is not JSON has its type: `{ "perdure:type": "Date", "value": "2026-03-01T12:00:00.000Z" }`.
   */
  readonly output?: Json;
  readonly error?: Failure;
};

/** What a step of Perdure has asked of its agent, and what came of it. */
export type AskedStep = {
  /** `prompt`, `batch`, `approval`, `webhook`, `agent-tool`, `codemode`. */
  readonly kind: string;
  readonly step: string;
  /** The wait, or the submission. */
  readonly waitId: string;
  readonly startedAt: number;
  /** As the step has asked, without what is not needed to compare it: the schema, the thread, the options. */
  readonly request: Json;
  /** How it has ended, as the agent answers `checkWait()`, with the whole result. Left out while it is open. */
  readonly end?: Json | undefined;
};

/** All that is known of a run, for `replayWorkflow()`. */
export type WorkflowHistory = {
  /** The Workflow's binding. */
  readonly workflow: string;
  readonly workflowId: string;
  /** The Workflow's name on the platform, where a step of Perdure has recorded it. Under another name the run is not found. */
  readonly deployedAs?: string | undefined;
  readonly version: Version;
  readonly status: string;
  readonly startedAt: number;
  /** The params as the platform has them, in the form of outputs: those of the app, and where the agent is. Null where it has not told them. */
  readonly params: Json;
  /** In the order of their starts, up to 1,000. */
  readonly platform: readonly PlatformStep[];
  /** In the order of their starts, up to 1,000. */
  readonly asked: readonly AskedStep[];
  /** Why it is not all, e.g. because the platform has not answered in time. */
  readonly isCut?: string | undefined;
};

/** A problem that new code has with a run that old code began. */
export type ReplayProblem = {
  readonly step: string;
  readonly problem:
    | "renamed-or-removed"
    | "inserted"
    | "reordered"
    | "kind-changed"
    | "answer-refused"
    | "request-changed"
    | "would-fail"
    | "unknown-version"
    | "not-replayed";
  /** Errors would strand the run, or make a step run twice. */
  readonly severity: "error" | "warning";
  /** One sentence each. */
  readonly text: string;
  readonly remedy: string;
};

/** What `replayWorkflow()` has found. */
export type Replay = {
  readonly problems: readonly ReplayProblem[];
  /** The steps that were answered from the record. */
  readonly replayed: readonly string[];
  /** `waits`: at an open step. `ended`: `run()` has returned or thrown as recorded. `stopped`: it could not be replayed further. */
  readonly at: "waits" | "ended" | "stopped";
};
