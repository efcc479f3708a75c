/**
 * What a Think agent provides for its side turns, by its public members alone: model, system prompt, tools, memory, and the app's
 * hooks. Not available: actions (`getActions()`), skills, client tools, channels, `onChatResponse` and the hooks of extensions.
 * They need the agent's own conversation, its approvals or its clients.
 */

import { createAITools } from "@cloudflare/computer/tools/ai-sdk";
import { Think, type ToolCallResultContext, type TurnConfig } from "@cloudflare/think";
import { createFetchTools } from "@cloudflare/think/tools/fetch";
import type { OnToolExecutionEndCallback, ToolSet } from "ai";
import type { ToolCall, ToolDecision, TurnHooks } from "../sdk/tools.ts";
import type { CallSettings, TurnRequest, TurnSource } from "../sdk/turn-source.ts";
import type { ThinkHooks } from "./hooks.ts";

export type SideTurnHooks = Pick<
  ThinkHooks,
  "beforeTurn" | "beforeStep" | "beforeToolCall" | "afterToolCall" | "onStepEnd"
>;

/** How long Think waits for MCP servers when the app does not say, in milliseconds. */
const MCP_TIMEOUT_MS = 10_000;

/** @param hooks the app's own, and not wrapped */
export function thinkSource(agent: Think, hooks: SideTurnHooks): TurnSource {
  return async (request) => {
    const { requestId, model, signal } = request;
    const tools = await toolsOf(agent);
    const system = await systemOf(agent);
    const messages = await request.messagesFor(tools);
    const context = {
      system,
      messages,
      tools,
      // Resolved on access, as in Think: the app may set another.
      get model() {
        return agent.resolveModel(model);
      },
      continuation: false,
      requestId,
      trigger: "submission",
      abortSignal: signal,
    } as const;
    const config = (await hooks.beforeTurn(context)) ?? {};
    return {
      ...settingsOf(config),
      model: agent.resolveModel(model ?? config.model),
      instructions: config.instructions ?? config.system ?? system,
      messages: config.messages ?? messages,
      tools: { ...tools, ...config.tools },
      maxSteps: config.maxSteps ?? agent.maxSteps,
      sendReasoning: config.sendReasoning ?? agent.sendReasoning,
      hooks: hooksOf(agent, hooks, request),
      spans: {
        agentName: agent.constructor.name,
        agentId: agent.name,
        storeMessages: agent.storeMessages,
        storeTools: agent.storeTools,
      },
    };
  };
}

/** An overridden `getSystemPrompt()` and the frozen context blocks; Think's default if there is neither. */
async function systemOf(agent: Think): Promise<string> {
  const blocks = await agent.session.freezeSystemPrompt();
  const isOverridden = agent.getSystemPrompt !== Think.prototype.getSystemPrompt;
  if (!isOverridden) return blocks || agent.getSystemPrompt();
  return [agent.getSystemPrompt(), blocks].filter((part) => part.trim().length > 0).join("\n\n");
}

/** In Think's order: a later tool replaces one of the same name. */
async function toolsOf(agent: Think): Promise<ToolSet> {
  const { workspace, fetchTools, waitForMcpConnections: wait } = agent;
  if (wait) {
    const timeout = typeof wait === "object" ? wait.timeout : MCP_TIMEOUT_MS;
    await agent.mcp.waitForConnections({ timeout });
  }
  return {
    ...createAITools({ workspace }),
    ...(fetchTools && createFetchTools({ ...fetchTools, workspace })),
    ...agent.getTools(),
    ...agent.extensionManager?.getTools(),
    ...(await agent.session.tools()),
    ...(agent.includeMcpTools && agent.mcp.getAITools()),
  };
}

function settingsOf(config: TurnConfig): CallSettings {
  const {
    model: _model,
    instructions: _instructions,
    system: _system,
    messages: _messages,
    tools: _tools,
    maxSteps: _maxSteps,
    sendReasoning: _sendReasoning,
    messageMetadata: _messageMetadata,
    chatStreamStallTimeoutMs: _chatStreamStallTimeoutMs,
    experimental_telemetry,
    telemetry = experimental_telemetry,
    ...settings
  } = config;
  const given = Object.entries({ ...settings, telemetry });
  return Object.fromEntries(given.filter(([, value]) => value !== undefined)) as CallSettings;
}

function hooksOf(
  agent: Think,
  hooks: SideTurnHooks,
  { requestId, model: asked }: TurnRequest,
): TurnHooks {
  return {
    beforeStep: async (step) => {
      const { model, ...settings } = (await hooks.beforeStep(step)) ?? {};
      // The model of a prompt takes precedence over the app's.
      if (model === undefined || asked !== undefined) return settings;
      return { ...settings, model: agent.resolveModel(model) };
    },
    beforeTool: (call) => decisionOf(hooks, call, requestId),
    afterTool: (event) => hooks.afterToolCall(resultOf(event, requestId)),
    // Think's own `onStepEnd` calls `onStepFinish`, its older name.
    onStepEnd: (step) => hooks.onStepEnd(step),
    onChunk: (event) => agent.onChunk(event),
  };
}

async function decisionOf(
  hooks: SideTurnHooks,
  { toolName, toolCallId, input, isDynamic, messages, abortSignal }: ToolCall,
  requestId: string,
): Promise<ToolDecision> {
  const decision = await hooks.beforeToolCall({
    type: "tool-call",
    toolCallId,
    toolName,
    input,
    ...(isDynamic && { dynamic: true }),
    stepNumber: undefined,
    messages,
    abortSignal,
    requestId,
  });
  if (!decision || decision.action === "allow")
    return { run: true, input: decision?.input ?? input };
  if (decision.action === "substitute") return { run: false, output: decision.output };
  const output = decision.reason ?? `Tool "${toolName}" was blocked by beforeToolCall.`;
  return { run: false, output };
}

function resultOf(
  {
    toolCall,
    messages,
    toolExecutionMs,
    toolOutput,
  }: Parameters<OnToolExecutionEndCallback<ToolSet>>[0],
  requestId: string,
): ToolCallResultContext {
  // Think's type intersects the call's own `error` with the outcome's, which no value satisfies.
  return {
    ...toolCall,
    stepNumber: undefined,
    messages,
    toolExecutionMs,
    durationMs: toolExecutionMs,
    requestId,
    toolOutput,
    ...(toolOutput.type === "tool-error"
      ? { success: false, error: toolOutput.error }
      : { success: true, output: toolOutput.output }),
  } as ToolCallResultContext;
}
