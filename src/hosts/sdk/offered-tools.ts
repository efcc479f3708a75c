/**
 * Which of an agent's tools a turn beside the conversation can offer, and what
 * happens before one of them runs.
 */

import type { ToolSet } from "ai";
import type { ToolCall, ToolDecision } from "./turn-source.ts";

type Tool = ToolSet[string];
type Execute = NonNullable<Tool["execute"]>;
type ExecuteOptions = Parameters<Execute>[1];

type Before = {
  /** The app's word on a call. */
  readonly decide: ((call: ToolCall) => ToolDecision | Promise<ToolDecision>) | undefined;
  /** Called right before a tool runs; what it throws keeps the tool from running. */
  readonly acts: () => void;
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

const AsyncGeneratorFunction = async function* () {}.constructor;

function guarded(toolName: string, tool: Tool, { decide, acts }: Before): Tool {
  const { execute, type } = tool;
  if (!execute) return tool;
  const resolve = async (input: unknown, options: ExecuteOptions): Promise<ToolDecision> => {
    const { toolCallId, messages, abortSignal } = options;
    const isDynamic = type === "dynamic";
    const decision = (await decide?.({
      toolName,
      toolCallId,
      input,
      isDynamic,
      messages,
      abortSignal,
    })) ?? { run: true, input };
    if (decision.run) acts();
    return decision;
  };
  // A generator shows results that are not final yet; any other tool must not seem to.
  const wrapped: Execute =
    execute instanceof AsyncGeneratorFunction
      ? async function* (input: unknown, options: ExecuteOptions) {
          const decision = await resolve(input, options);
          if (decision.run) yield* execute(decision.input, options);
          else yield decision.output;
        }
      : async (input: unknown, options: ExecuteOptions) => {
          const decision = await resolve(input, options);
          return decision.run ? lastOf(await execute(decision.input, options)) : decision.output;
        };
  return { ...tool, execute: wrapped };
}

/** The output, or the last of a series of them. */
async function lastOf(output: unknown): Promise<unknown> {
  if (typeof output !== "object" || output === null || !(Symbol.asyncIterator in output)) {
    return output;
  }
  let last: unknown;
  for await (const part of output as AsyncIterable<unknown>) last = part;
  return last;
}
