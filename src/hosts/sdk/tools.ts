/**
 * The tools of a turn: which ones a side turn can offer, and how the ledger records their calls. A call that an earlier run of
 * the turn has made is answered from its record. Tools that are safe to repeat are not recorded.
 */

import type {
  ModelMessage,
  OnToolExecutionEndCallback,
  PrepareStepFunction,
  PrepareStepResult,
  StepResult,
  StreamTextOnChunkCallback,
  ToolSet,
} from "ai";
import { preview } from "../../core/json.ts";
import { invalidMessage } from "../../core/options/options.ts";
import type { CallSteps, ToolCalls } from "../../submissions/host.ts";
import { durableOf, storable } from "./durable-tool.ts";

type Tool = ToolSet[string];
type Execute = NonNullable<Tool["execute"]>;
type ExecuteOptions = Parameters<Execute>[1];
/** Makes the outputs of a call, of which the last is its result. */
type Outputs = (input: unknown, options: ExecuteOptions) => AsyncGenerator<unknown>;

/** An own property, which copies of the tool have as well; registered, so that two copies of this module share it. */
const SAFE = Symbol.for("perdure.safeToRepeat");

/**
 * Marks a tool as read-only, or as safe to run again. Its calls are not recorded, do not count as side effects, and run
 * again when a turn is recovered or retried.
 * @param tool any tool with `execute`. Mark a tool of an MCP server in `beforeTurn()`
 * @returns a copy with the mark
 * @throws TypeError for a value that is not a tool
 * @example
 * beforeTurn({ tools: { tool_docs_search: search } }: TurnContext) {
 *   return search && { tools: { tool_docs_search: safeToRepeat(search) } };
 * }
 */
export function safeToRepeat<T extends object>(tool: T): T {
  if (typeof tool === "object" && tool !== null && "execute" in tool) {
    return { ...tool, [SAFE]: true };
  }
  const expected = "expected a tool with execute(). Check the name of the tool";
  throw new TypeError(invalidMessage("tool", preview(tool), expected));
}

/** @throws TypeError naming an invalid tool */
export function checkTools<Tools extends object>(tools: Tools): Tools {
  const [name, tool] =
    Object.entries(tools).find(([, tool]) => typeof tool !== "object" || tool === null) ?? [];
  if (name === undefined) return tools;
  const expected = "expected a tool of the AI SDK, such as tool({ inputSchema, execute })";
  throw new TypeError(invalidMessage(`tools.${name}`, preview(tool), expected));
}

/**
 * @param owner the class whose model it is
 * @throws TypeError for what is no model
 */
export function checkModel<Model>(model: Model, owner = "the class"): Model {
  const isModel =
    typeof model === "string" ||
    typeof (model as { doStream?: unknown } | null | undefined)?.doStream === "function";
  if (isModel) return model;
  const expected = `expected a model of the AI SDK. Return it from getModel() of ${owner}, or from the option model`;
  throw new TypeError(invalidMessage("model", preview(model), expected));
}

type RecordedOptions = {
  /** The input that the model gave, where the app may have given the tool another one. */
  readonly inputOf?: (toolCallId: string, input: unknown) => unknown;
  /** The app decides before the call is recorded. */
  readonly decide?: TurnHooks["beforeTool"];
};

/** The same tools, with their calls recorded. */
export function recordedOf(
  tools: ToolSet,
  calls: ToolCalls,
  { inputOf = (_, input) => input, decide }: RecordedOptions = {},
): ToolSet {
  const recording = (toolName: string, tool: Tool, execute: Execute): Outputs =>
    async function* (input, options) {
      const { toolCallId, messages, abortSignal } = options;
      const call = { toolName, toolCallId, input: inputOf(toolCallId, input) };
      const isDynamic = tool.type === "dynamic";
      const decision = await decide?.({ ...call, isDynamic, messages, abortSignal });
      if (decision?.run === false) return yield decision.output;
      const given = decision ? decision.input : input;
      yield* recorded(tool, call, calls, abortSignal, runOf(tool, execute, given, options));
    };
  return Object.fromEntries(
    Object.entries(tools).map(([name, tool]) => {
      const { execute } = tool;
      if (!execute) return [name, tool];
      return [name, { ...tool, execute: executeLike(execute, recording(name, tool, execute)) }];
    }),
  );
}

/** The model's messages with a note about calls of earlier runs after the last user message. Empty without a note. */
export function noted(
  asked: readonly ModelMessage[],
  content: string | undefined,
): { messages?: ModelMessage[] } {
  if (content === undefined) return {};
  const at = asked.findLastIndex(({ role }) => role === "user") + 1;
  return { messages: asked.toSpliced(at, 0, { role: "user", content }) };
}

/** The outputs of a call, of which the last is its result: those of the tool, or that of an earlier run. */
async function* recorded(
  tool: object,
  call: Parameters<ToolCalls["start"]>[0],
  calls: ToolCalls,
  abortSignal: AbortSignal | undefined,
  execute: (steps: CallSteps | undefined) => unknown,
): AsyncGenerator<unknown> {
  const durable = durableOf(tool);
  const run = async function* (steps?: CallSteps) {
    for await (const output of outputsOf(execute(steps))) yield storable(call.toolName, output);
  };
  if (SAFE in tool && !durable) return yield* run();
  const asked = durable ? { ...call, toolName: durable.name, isDurable: true } : call;
  const decision = await calls.start(asked);
  if (decision.action === "fail") throw decision.error;
  if (decision.action === "answer") return yield decision.output;
  let output: unknown;
  try {
    for await (output of run(decision.steps)) yield output;
  } catch (error) {
    // What a tool did before it was stopped is unknown: the call stays an interrupted one.
    if (!abortSignal?.aborted) decision.end({ error });
    throw error;
  }
  decision.end({ output });
}

/** Runs the tool; a durable one with its steps. */
function runOf(tool: object, execute: Execute, input: unknown, options: ExecuteOptions) {
  const durable = durableOf(tool);
  return (steps: CallSteps | undefined) =>
    durable ? durable.run(input, options, steps) : execute(input, options);
}

async function* outputsOf(result: unknown): AsyncGenerator<unknown> {
  const output = await result;
  const isSeries = typeof output === "object" && output !== null && Symbol.asyncIterator in output;
  if (isSeries) yield* output as AsyncIterable<unknown>;
  else yield output;
}

const AsyncGeneratorFunction = async function* () {}.constructor;

/** An `execute` of the same form as the given one: only a generator has preliminary outputs. */
function executeLike(execute: Execute, outputs: Outputs): Execute {
  if (execute instanceof AsyncGeneratorFunction) return outputs;
  return async (input: unknown, options: ExecuteOptions) => {
    let last: unknown;
    for await (const output of outputs(input, options)) last = output;
    return last;
  };
}

/** The tools that run here or at the provider, without an approval. A side turn has no client that could run or approve one. */
export function offeredOf(tools: ToolSet): ToolSet {
  const isOffered = ({ execute, needsApproval, type, ...tool }: Tool) =>
    !needsApproval &&
    (execute || (type === "provider" && "isProviderExecuted" in tool && tool.isProviderExecuted));
  return Object.fromEntries(Object.entries(tools).filter(([, tool]) => isOffered(tool)));
}

export type TurnHooks = {
  /** Before each call of the model. The result applies to that step. */
  beforeStep?(step: Step): StepSettings | undefined | Promise<StepSettings | undefined>;
  /** Before a tool runs: whether it does. What it throws becomes the tool's error. */
  beforeTool?(call: ToolCall): ToolDecision | Promise<ToolDecision>;
  /** After a tool has run, or its call was answered without it. */
  readonly afterTool?: OnToolExecutionEndCallback<ToolSet>;
  onStepEnd?(step: StepResult<ToolSet>): void | Promise<void>;
  readonly onChunk?: StreamTextOnChunkCallback<ToolSet>;
};

export type Step = Parameters<PrepareStepFunction<ToolSet>>[0];

export type StepSettings = NonNullable<PrepareStepResult<ToolSet>>;

export type ToolCall = {
  readonly toolName: string;
  readonly toolCallId: string;
  readonly input: unknown;
  /** Whether the tool's input is known at run time only. */
  readonly isDynamic: boolean;
  readonly messages: readonly ModelMessage[];
  readonly abortSignal: AbortSignal | undefined;
};

/** Runs the tool with an input, or answers the call without it. */
export type ToolDecision =
  | { readonly run: true; readonly input: unknown }
  | { readonly run: false; readonly output: unknown };
