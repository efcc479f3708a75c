/**
 * What an agent lends to a turn that runs beside its own conversation: a
 * model, instructions, tools, and hooks of the app. Types only, and nothing of
 * any one kind of agent.
 */

import type {
  LanguageModel,
  ModelMessage,
  OnToolExecutionEndCallback,
  PrepareStepFunction,
  PrepareStepResult,
  StepResult,
  StreamTextOnChunkCallback,
  streamText,
  ToolSet,
} from "ai";

export interface TurnSource {
  /**
   * Says with what a turn runs. Asked once per attempt, after the messages
   * are in the thread.
   *
   * @throws anything; it is the turn's error then
   */
  setup(request: TurnRequest): Promise<TurnSetup>;
}

export type TurnRequest = {
  /** The submission's id, the same for each attempt. */
  readonly requestId: string;
  readonly thread: string;
  /**
   * What the thread has come to, for the model. The tools say how their own
   * earlier results are shown to it.
   */
  messagesFor(tools: ToolSet): Promise<ModelMessage[]>;
  /** Id of the model that is asked, in place of the agent's own. */
  readonly model: string | undefined;
  /** Aborted when the submission is cancelled. */
  readonly signal: AbortSignal;
};

export type TurnSetup = CallSettings & {
  readonly model: LanguageModel;
  readonly instructions?: string;
  /** What the model is asked: what `messagesFor()` returned, or the app's own view of it. */
  readonly messages: ModelMessage[];
  /** Tools that need a client or an approval are left out: nobody is there to give them. */
  readonly tools: ToolSet;
  /** Calls of the model at most. */
  readonly maxSteps: number;
  /**
   * Whether the model's reasoning is kept in the reply.
   * @default true
   */
  readonly sendReasoning?: boolean;
  readonly hooks?: TurnHooks;
};

/** The app's hooks around the parts of a turn. */
export type TurnHooks = {
  /** Before each call of the model; what it returns holds for that step. */
  beforeStep?(step: Step): StepSettings | undefined | Promise<StepSettings | undefined>;
  /** Before a tool runs, whether it does. What it throws is the tool's error. */
  beforeTool?(call: ToolCall): ToolDecision | Promise<ToolDecision>;
  /** After a tool has run or was answered for. */
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

/** Runs the tool with an input, or answers the call in its place. */
export type ToolDecision =
  | { readonly run: true; readonly input: unknown }
  | { readonly run: false; readonly output: unknown };

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
