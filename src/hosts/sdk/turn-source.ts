/** What an agent provides for a side turn: a model, instructions, tools, and hooks of the app. */

import type { LanguageModel, ModelMessage, streamText, ToolSet } from "ai";
import { checkTools, type TurnHooks } from "./tools.ts";

/** Called once per attempt, when the messages are in the thread. What it throws becomes the turn's error. */
export type TurnSource = (request: TurnRequest) => Promise<TurnSetup>;

export type TurnRequest = {
  /** The submission's id, the same for each attempt. */
  readonly requestId: string;
  readonly thread: string;
  /** The messages of the thread for the model. The tools decide how their earlier results are shown. */
  messagesFor(tools: ToolSet): Promise<ModelMessage[]>;
  /** The id of another model than the agent's own. */
  readonly model: string | undefined;
  readonly signal: AbortSignal;
};

export type TurnSetup = CallSettings & {
  readonly model: LanguageModel;
  readonly instructions?: string;
  /** The messages for the model: those of `messagesFor()`, or the app's own version of them. */
  readonly messages: ModelMessage[];
  /** Tools that need a client or an approval are not offered. */
  readonly tools: ToolSet;
  readonly maxSteps: number;
  /**
   * Whether the model's reasoning is stored in the reply.
   * @default true
   */
  readonly sendReasoning?: boolean;
  readonly hooks?: TurnHooks;
  /** What the platform's spans of the model and its tools say. By default they have no name of an agent. */
  readonly spans?: SpanSettings;
};

type SpanSettings = {
  /** The name of the agent's class. */
  readonly agentName: string;
  /** The name of the instance. */
  readonly agentId: string;
  /** Whether they have the messages, and the inputs and outputs of tools. */
  readonly storeMessages?: boolean;
  readonly storeTools?: boolean;
};

type Options = Parameters<typeof streamText<ToolSet>>[0];

/** Settings of a call of the model, as the AI SDK names them. */
export type CallSettings = Pick<
  Options,
  | "activeTools"
  | "experimental_transform"
  | "frequencyPenalty"
  | "headers"
  | "maxOutputTokens"
  | "maxRetries"
  | "output"
  | "presencePenalty"
  | "providerOptions"
  | "repairToolCall"
  | "seed"
  | "stopSequences"
  | "stopWhen"
  | "telemetry"
  | "temperature"
  | "timeout"
  | "toolChoice"
  | "topK"
  | "topP"
>;

/** A turn that is about to ask the model. */
export type TurnStart = {
  /** The submission's id. */
  readonly requestId: string;
  readonly thread: string;
  /** The conversation, with the messages of the turn at its end. Empty for instructions and tools, which come before it. */
  readonly messages: readonly ModelMessage[];
  readonly tools: ToolSet;
  /** Aborted when the submission is cancelled. */
  readonly signal: AbortSignal;
};

/** What an app may change for one turn; the settings of `streamText()` of the AI SDK among it. */
export type TurnOverrides = CallSettings & {
  readonly model?: LanguageModel;
  readonly instructions?: string;
  readonly messages?: ModelMessage[];
  /** Added to the agent's own. */
  readonly tools?: ToolSet;
  readonly maxSteps?: number;
};

type Awaitable<T> = T | Promise<T>;

export type TurnApp = {
  /** @param id the model that a submission asks for */
  readonly model: (id: string | undefined) => Awaitable<LanguageModel>;
  readonly instructions: () => Awaitable<string>;
  readonly tools: () => Awaitable<ToolSet>;
  readonly maxSteps: () => number;
  readonly beforeTurn: (turn: TurnStart) => Awaitable<TurnOverrides | undefined | void>;
  /** In the platform's spans: the class and the name of the object. */
  readonly agentName: string;
  readonly agentId: () => string;
};

/** Whether turns wait for MCP servers, as AIChatAgent documents it: `true` without a limit, a timeout in milliseconds. */
export type McpWait = boolean | { timeout: number };

/** The tools of a server are known after three answers. */
export const MCP_WAIT = { timeout: 15_000 } as const satisfies McpWait;

/** A client of MCP servers, which connects again after a restart. */
export type McpConnections = {
  waitForConnections(options?: { timeout?: number }): Promise<void>;
};

export async function waitForMcp(mcp: McpConnections | undefined, wait: McpWait): Promise<void> {
  if (wait) await mcp?.waitForConnections(typeof wait === "object" ? wait : undefined);
}

/** What an app without Think provides, by its methods or options. */
export function appSource(app: TurnApp): TurnSource {
  return async (request: TurnRequest): Promise<TurnSetup> => {
    const { requestId, thread, signal, model: asked } = request;
    // Untyped apps return nothing where they have none.
    const tools = checkTools((await app.tools()) ?? {});
    const messages = await request.messagesFor(tools);
    const turn = { requestId, thread, messages, tools, signal };
    const { model, ...settings } = (await app.beforeTurn(turn)) ?? {};
    return {
      messages,
      instructions: await app.instructions(),
      maxSteps: app.maxSteps(),
      ...settings,
      // The model of a prompt takes precedence.
      model: asked === undefined && model !== undefined ? model : await app.model(asked),
      tools: { ...tools, ...settings.tools },
      spans: { agentName: app.agentName, agentId: app.agentId() },
    };
  };
}
