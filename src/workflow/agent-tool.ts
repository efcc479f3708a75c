/** `step.agentTool()`: a child agent's run as a step. Asks for it, waits for its end, and says how it failed. */

import type {
  AgentToolChildAdapter,
  AgentToolDisplayMetadata,
  ChatCapableAgentClass,
} from "agents/agent-tools";
import * as z from "zod";
import type { Json } from "../core/json.ts";
import { optionsOf, text } from "../core/options/option-schemas.ts";
import type { Duration } from "../core/options/options.ts";
import type { AnySchema, OutputOf } from "../core/schema/schema.ts";
import {
  AgentToolAbortedError,
  AgentToolFailedError,
  AgentToolInterruptedError,
  AgentToolTimeoutError,
  AgentToolValidationError,
  type InterruptedReason,
} from "./errors.ts";
import { jsonFor, KEY, outputOf, ROLLBACK, readStep, refusalOf, TIMEOUT } from "./options.ts";
import { type CallOf, compensated, type Rollback, type StepCall, useName } from "./step-call.ts";
import { namesOf, type PassedWait, passWait, refuseWait } from "./wait.ts";

/** The class of a chat-capable agent: of Think, or of AIChatAgent. */
export type AgentToolClass = ChatCapableAgentClass & {
  readonly prototype: Pick<
    AgentToolChildAdapter,
    "startAgentToolRun" | "inspectAgentToolRun" | "cancelAgentToolRun"
  >;
};

export type AgentToolOptions<Schema extends AnySchema | undefined = undefined> = {
  /** The input of the child, as JSON of at most 1 MB: its `formatAgentToolInput()` makes a message of it. */
  input: unknown;
  /**
   * What the child's `getAgentToolOutput()` has to return: any Standard Schema.
   * @default none: the output is what the child returns
   */
  output?: Schema;
  /**
   * How long to wait for the end of the run, e.g. `"2 hours"` or milliseconds, at most 365 days; the child is
   * cancelled then.
   * @default "24 hours"
   */
  timeout?: Duration;
  /** Tells repeated uses of one step name apart, e.g. in a loop. */
  key?: string;
  /** For clients that show the run: a name, an icon, anything else that is JSON. */
  display?: AgentToolDisplayMetadata;
  /**
   * Undoes what the child has done, when the workflow fails later or is terminated with `rollback: true`.
   * @default nothing is undone
   */
  rollback?: Rollback<AgentToolResult<AgentToolOutput<Schema>>>;
};

/** The output: what the schema makes of it, or without a schema what the child returned, if it did. */
export type AgentToolOutput<Schema extends AnySchema | undefined> = Schema extends AnySchema
  ? OutputOf<Schema>
  : Json | undefined;

/** What `step.agentTool()` returns. */
export type AgentToolResult<Output = Json | undefined> = {
  /** The child's name below its agent. */
  readonly runId: string;
  readonly output: Output;
  /** The child's summary: by default the text of its reply. */
  readonly summary: string;
  /** The named checkpoints that the child has reported, in their order. */
  readonly milestones?: readonly Milestone[];
};

/** The input travels in a row of the agent, beside other things. */
const MOST_INPUT_BYTES = 1_000_000;

const TOOL = optionsOf<AgentToolOptions<AnySchema | undefined>>()({
  input: z.unknown().optional(),
  output: z
    .custom<AnySchema | undefined>(
      (given) => typeof (given as AnySchema | null)?.["~standard"]?.validate === "function",
      { error: "expected a Standard Schema (https://standardschema.dev), e.g. of Zod" },
    )
    .optional(),
  timeout: TIMEOUT,
  key: KEY,
  display: z.unknown().optional(),
  rollback: ROLLBACK,
});

export interface AgentToolSteps {
  /**
   * Runs a child agent as a tool of the workflow's agent, and waits for the end of its run. Idempotent per workflow,
   * instance, step name and key: a completed run answers a restart at once, one that failed is tried afresh by
   * it, a running one is waited for. Progress and milestones go to `onWorkflowProgress()` of the agent and to its clients.
   * The child's turn is recovered by Think, or by the child's own class, after a crash of the child: a tool of it may run again.
   *
   * @param child the child's class, or its name. The Worker must export the class, which needs no binding or migration
   * @throws AgentToolTimeoutError when it had not ended within `timeout`; it is cancelled then
   * @throws AgentToolAbortedError when the run was cancelled
   * @throws AgentToolInterruptedError when the agent gave the run up
   * @throws AgentToolValidationError when its output does not match `output`
   * @throws AgentToolFailedError when the child failed, or could not be started
   */
  agentTool<Schema extends AnySchema | undefined = undefined>(
    name: string,
    child: AgentToolClass | string,
    options: AgentToolOptions<Schema>,
  ): Promise<AgentToolResult<AgentToolOutput<Schema>>>;
}

export const STEPS = {
  agentTool:
    (callOf: CallOf): AgentToolSteps["agentTool"] =>
    async (name, child, options) =>
      runAgentToolStep(callOf(name), child, options),
};

/** Runs the child to its result, or throws how it failed. */
async function runAgentToolStep<Schema extends AnySchema | undefined>(
  call: StepCall,
  child: AgentToolClass | string,
  options: AgentToolOptions<Schema>,
): Promise<AgentToolResult<AgentToolOutput<Schema>>> {
  const { name } = call;
  const refuse = refusalOf("agentTool", name);
  const { input, output, timeout: timeoutMs, key, display } = readStep(TOOL, options, refuse);
  const request = {
    className: readStep(CHILD, typeof child === "string" ? child : child?.name, refuse, "child"),
    input: jsonFor("input", input, MOST_INPUT_BYTES, refuse),
    ...(display && { display: jsonFor("display", display, MOST_INPUT_BYTES, refuse) }),
  };
  useName(call, "agentTool", key);
  const closing = { status: "expired", result: null } as const;
  const ask = { kind: "agent-tool", key, request, timeoutMs, closing } as const;
  const nameOf = namesOf(call, ask);
  const passed = await passWait(call, ask);
  try {
    const result = await resultOf(passed, output as Schema, timeoutMs);
    return await compensated(call.step, nameOf("done"), result, options.rollback);
  } catch (error) {
    const isRefused = error instanceof AgentToolValidationError;
    if (isRefused) await refuseWait(call, nameOf("refuse"), ask.kind, [passed.waitId]);
    throw error;
  }
}

async function resultOf<Schema extends AnySchema | undefined>(
  { waitId, status, result }: PassedWait,
  schema: Schema,
  timeoutMs: number,
): Promise<AgentToolResult<AgentToolOutput<Schema>>> {
  const end = result as Partial<AgentToolEnd> | null;
  if (end?.status === "completed") {
    const { runId, output, summary, milestones } = end as AgentToolEnd & { status: "completed" };
    const taken = await outputOf(
      schema,
      output,
      (error) => new AgentToolValidationError(runId, error),
    );
    return {
      runId,
      output: taken as AgentToolOutput<Schema>,
      summary,
      ...(milestones.length > 0 && { milestones }),
    };
  }
  throw errorOf(end as FailedEnd | null, waitId, status === "expired" ? timeoutMs : undefined);
}

type FailedEnd = Exclude<AgentToolEnd, { status: "completed" }>;

function errorOf(end: FailedEnd | null, waitId: string, timeoutMs: number | undefined): Error {
  // A wait that was closed without a look at its run has no more than an error.
  const { runId = `unknown, of the wait ${waitId}`, error = "the end of the run is unknown" } =
    end ?? {};
  if (timeoutMs !== undefined) return new AgentToolTimeoutError(runId, timeoutMs, error);
  if (end?.status === "interrupted") {
    const { reason, childStillRunning } = end;
    return new AgentToolInterruptedError(runId, error, reason, childStillRunning);
  }
  if (end?.status === "error") return new AgentToolFailedError(runId, error);
  return new AgentToolAbortedError(runId, error);
}

const CHILD = z
  .custom<string>((name) => typeof name === "string" && name !== "", {
    error: "expected the child agent's class, or its name as the Worker exports it",
    abort: true,
  })
  .pipe(text());

/** What `step.agentTool()` asks of its agent. */
export type AgentToolRequest = {
  /** Of the child's class, as the Worker exports it. */
  className: string;
  input: Json;
  /** For clients that show the run. */
  display?: Json;
};

/** A named checkpoint that a child has reported. */
export type Milestone = {
  name: string;
  /** Counts them within the run, from 0 on. */
  sequence: number;
  /** Epoch milliseconds. */
  at: number;
  data?: Json;
};

/** How a run ended, or that its step has timed out. */
export type AgentToolEnd =
  | {
      status: "completed";
      runId: string;
      output?: Json;
      summary: string;
      milestones: Milestone[];
    }
  | { status: "error" | "aborted" | "timeout"; runId: string; error: string }
  | {
      status: "interrupted";
      runId: string;
      error: string;
      reason?: InterruptedReason;
      childStillRunning: boolean;
    };

/** A workflow's progress, in the form of the platform, with the step and the run. */
export type AgentToolProgress = {
  /** The step's name. */
  step: string;
  status: "running";
  runId: string;
  message?: string;
  /** From 0 to 1. */
  percent?: number;
  phase?: string;
  /** The name of a milestone. */
  milestone?: string;
  data?: Json;
};
