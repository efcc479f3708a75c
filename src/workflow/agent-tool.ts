/** `step.agentTool()`: a child agent's run as a step. Asks for it, waits for its end, and says how it failed. */

import type {
  AgentToolChildAdapter,
  AgentToolDisplayMetadata,
  ChatCapableAgentClass,
} from "agents/agent-tools";
import { byteLength, type Json, malformedKeyIn, preview } from "../core/json.ts";
import { type AnySchema, type OutputOf, validated } from "../core/schema.ts";
import type { AgentToolEnd, Milestone } from "../waits/kinds/agent-tool/types.ts";
import {
  AgentToolAbortedError,
  AgentToolFailedError,
  AgentToolInterruptedError,
  AgentToolTimeoutError,
  AgentToolValidationError,
} from "./errors.ts";
import {
  checkRollback,
  checkText,
  compensated,
  invalidStep,
  type Rollback,
  type StepCall,
  timeoutMsOf,
  type WaitTimeout,
} from "./step-call.ts";
import { namesOf, type PassedWait, passWait, refuseWait } from "./wait.ts";

/** The class of a chat-capable agent: of Think, or of AIChatAgent. */
export type AgentToolClass = ChatCapableAgentClass & {
  readonly prototype: Pick<
    AgentToolChildAdapter,
    "startAgentToolRun" | "inspectAgentToolRun" | "cancelAgentToolRun"
  >;
};

export type AgentToolOptions<Schema extends AnySchema | undefined = undefined> = {
  /** What the child is given, as JSON of at most 1 MB: its `formatAgentToolInput()` makes a message of it. */
  input: unknown;
  /**
   * What the child's `getAgentToolOutput()` has to return: any Standard Schema (W4).
   * @default none: the output is what the child returns
   */
  output?: Schema;
  /**
   * How long to wait for the end of the run, e.g. `"2 hours"` or milliseconds, at most 365 days; the child is
   * cancelled then.
   * @default "24 hours"
   */
  timeout?: WaitTimeout;
  /** Tells repeated uses of one step name apart, e.g. in a loop (W1). */
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
  /** What the child says of it: by default the text of its reply. */
  readonly summary: string;
  /** The named checkpoints that the child has reported, in their order. */
  readonly milestones?: readonly Milestone[];
};

/** The input travels in a row of the agent, beside other things. */
const MOST_INPUT_BYTES = 1_000_000;
const NAMES = ["input", "output", "timeout", "key", "display", "rollback"];

/** Runs the child to its result, or throws how it failed. */
export async function runAgentToolStep<Schema extends AnySchema | undefined>(
  call: StepCall,
  child: AgentToolClass | string,
  options: AgentToolOptions<Schema>,
): Promise<AgentToolResult<AgentToolOutput<Schema>>> {
  const { name } = call;
  checkOptions(name, options);
  checkRollback("agentTool", name, options.rollback);
  const { input, output, timeout, key, display } = options;
  const timeoutMs = timeoutMsOf("agentTool", name, timeout);
  const request = {
    className: classNameOf(name, child),
    input: jsonOf(name, "input", input),
    ...(display !== undefined && { display: jsonOf(name, "display", display) }),
  };
  call.used.use("agentTool", name, key);
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
    return {
      runId,
      output: (await outputOf(runId, output, schema)) as AgentToolOutput<Schema>,
      summary,
      ...(milestones.length > 0 && { milestones }),
    };
  }
  throw failureOf(end as FailedEnd | null, waitId, status === "expired" ? timeoutMs : undefined);
}

type FailedEnd = Exclude<AgentToolEnd, { status: "completed" }>;

function failureOf(end: FailedEnd | null, waitId: string, timeoutMs: number | undefined): Error {
  // A wait that was closed without a look at its run has no more than an error.
  const { runId = waitId, error = "nobody knows how the run ended" } = end ?? {};
  if (timeoutMs !== undefined) return new AgentToolTimeoutError(runId, timeoutMs, error);
  if (end?.status === "interrupted") {
    const { reason, childStillRunning } = end;
    return new AgentToolInterruptedError(runId, error, reason, childStillRunning);
  }
  if (end?.status === "error") return new AgentToolFailedError(runId, error);
  return new AgentToolAbortedError(runId, error);
}

async function outputOf(
  runId: string,
  output: Json | undefined,
  schema: AnySchema | undefined,
): Promise<unknown> {
  if (schema === undefined) return output;
  try {
    return await validated(schema, output);
  } catch (error) {
    throw new AgentToolValidationError(runId, error);
  }
}

function checkOptions(name: string, options: AgentToolOptions<AnySchema | undefined>): void {
  const given: unknown = options;
  if (typeof given !== "object" || given === null) {
    throw invalidStep("agentTool", name, `got ${preview(given)} as options; expected an object.`);
  }
  const unknown = Object.keys(options).find((option) => !NAMES.includes(option));
  if (unknown !== undefined) {
    const known = NAMES.map((option) => `"${option}"`).join(", ");
    const problem = `got an unknown option ${preview(unknown)}; there are ${known}.`;
    throw invalidStep("agentTool", name, problem);
  }
  const { key, output } = options;
  checkText("agentTool", name, "key", key);
  if (output !== undefined && typeof output["~standard"]?.validate !== "function") {
    const problem = `got ${preview(output)} as output; expected a Standard Schema (https://standardschema.dev), e.g. of Zod.`;
    throw invalidStep("agentTool", name, problem);
  }
}

function classNameOf(name: string, child: AgentToolClass | string): string {
  const className: unknown = typeof child === "string" ? child : child?.name;
  if (typeof className === "string" && className !== "") {
    checkText("agentTool", name, "child", className);
    return className;
  }
  const problem = `got ${preview(child)} as child; expected the child agent's class, or its name as the Worker exports it.`;
  throw invalidStep("agentTool", name, problem);
}

function jsonOf(name: string, option: string, value: unknown): Json {
  let text: string | undefined;
  try {
    text = JSON.stringify(value);
  } catch (error) {
    throw invalidStep("agentTool", name, `got an ${option} that is no JSON: ${String(error)}.`);
  }
  if (text === undefined) {
    throw invalidStep("agentTool", name, `got ${preview(value)} as ${option}; expected JSON.`);
  }
  checkText("agentTool", name, `a key of ${option}`, malformedKeyIn(value));
  const bytes = byteLength(text);
  if (bytes > MOST_INPUT_BYTES) {
    const problem =
      `got an ${option} of ${bytes} bytes, and at most ${MOST_INPUT_BYTES} are taken. ` +
      "Keep the content elsewhere (R2, a table) and pass a reference to it.";
    throw invalidStep("agentTool", name, problem);
  }
  return JSON.parse(text) as Json;
}
