/** The model, instructions and tools of an app without Think, for the turns of its agent. */

import type { LanguageModel, ModelMessage, ToolSet } from "ai";
import { checkTools } from "./tools.ts";
import type { CallSettings, TurnRequest, TurnSetup, TurnSource } from "./turn-source.ts";

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
