/**
 * Which of an agent's tools a turn beside the conversation can offer, and what
 * happens before one of them runs.
 */

import type { ToolSet } from "ai";
import type { ToolCalls } from "../../submissions/host.ts";
import { type Execute, executeLike, recorded } from "./recorded-tools.ts";
import type { ToolCall, ToolDecision } from "./turn-source.ts";

type Tool = ToolSet[string];
type ExecuteOptions = Parameters<Execute>[1];

type Before = {
  /** The app's word on a call. */
  readonly decide: ((call: ToolCall) => ToolDecision | Promise<ToolDecision>) | undefined;
  /** Where the ledger records the calls. */
  readonly calls: ToolCalls;
};

/** The tools that run here or at the provider, and ask nobody. */
export function offeredOf(tools: ToolSet): ToolSet {
  return Object.fromEntries(
    Object.entries(tools).filter(
      ([, { execute, needsApproval, type, ...tool }]) =>
        !needsApproval &&
        (execute !== undefined ||
          (type === "provider" && "isProviderExecuted" in tool && tool.isProviderExecuted)),
    ),
  );
}

/** The same tools, each of which runs only after the app and the ledger were asked. */
export function guardedOf(tools: ToolSet, before: Before): ToolSet {
  return Object.fromEntries(
    Object.entries(tools).map(([name, tool]) => [name, guarded(name, tool, before)]),
  );
}

function guarded(toolName: string, tool: Tool, { decide, calls }: Before): Tool {
  const { execute, type } = tool;
  if (!execute) return tool;
  const resolve = async (input: unknown, options: ExecuteOptions): Promise<ToolDecision> => {
    const { toolCallId, messages, abortSignal } = options;
    const isDynamic = type === "dynamic";
    const call = { toolName, toolCallId, input, isDynamic, messages, abortSignal };
    return (await decide?.(call)) ?? { run: true, input };
  };
  const outputs = async function* (input: unknown, options: ExecuteOptions) {
    const decision = await resolve(input, options);
    if (!decision.run) yield decision.output;
    else {
      const call = { toolName, toolCallId: options.toolCallId, input };
      const run = () => execute(decision.input, options);
      yield* recorded({ tool, call, calls, abortSignal: options.abortSignal }, run);
    }
  };
  return { ...tool, execute: executeLike(execute, outputs) };
}
