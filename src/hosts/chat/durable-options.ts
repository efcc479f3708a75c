/** The options of the app's `streamText()`, with what an attempt needs: recorded tools, budgets, joining messages and its answer. */

import {
  convertToModelMessages,
  type Instructions,
  type LanguageModel,
  type ModelMessage,
  type OutputInterface,
  stepCountIs,
  type streamText,
  type ToolSet,
  type UIMessage,
} from "ai";
import type { Attempt } from "../sdk/attempt.ts";
import { recordedOf } from "../sdk/tools.ts";

type Context = Record<string, unknown>;

/** The options of `streamText()` of the AI SDK. */
export type StreamOptions<
  Tools extends ToolSet = ToolSet,
  Runtime extends Context = Context,
  Output extends OutputInterface = OutputInterface<string, string, never>,
> = Parameters<typeof streamText<Tools, Runtime, Output>>[0];

/** What an attempt brings to the options. */
export type DurableParts = {
  readonly attempt: Attempt;
  /** The calls of earlier runs, as a note for the model. */
  readonly note: string | undefined;
  /** The model that the submission asks for. */
  readonly model: LanguageModel | undefined;
  readonly abortSignal: AbortSignal | undefined;
  /** Whether messages of other submissions could come before the reply. */
  readonly canJoin: boolean;
  readonly maxSteps: number;
  /** Stores the messages of submissions that join. */
  readonly store: (joining: UIMessage[]) => Promise<void>;
};

export function durableOptions(parts: DurableParts, options: StreamOptions): StreamOptions {
  const { attempt, model, abortSignal } = parts;
  const { prompt, system, instructions = system, tools = {}, stopWhen, ...others } = options;
  const messages = options.messages ?? promptMessages(prompt);
  const text = attempt.plan ? textOfInstructions(instructions) : instructions;
  const config = {
    ...others,
    messages,
    tools: attempt.isFollowUp ? {} : recordedOf(tools, attempt.calls),
    ...(text !== undefined && { instructions: text }),
    ...(model !== undefined && { model }),
    ...(stopWhen !== undefined && { stopWhen }),
  };
  const context = { system: "", tools, messages };
  // Without a plan, the app's conditions alone end the turn.
  const limits = { tools, maxSteps: attempt.plan ? parts.maxSteps : Number.POSITIVE_INFINITY };
  const asked = attempt.settingsWith(parts.note, context, config as never, limits) as typeof config;
  const { maxSteps, ...settings } = asked as typeof config & { maxSteps?: number };
  return {
    ...settings,
    abortSignal: options.abortSignal ?? abortSignal,
    ...(maxSteps !== undefined && {
      stopWhen: [stepCountIs(maxSteps), ...[settings.stopWhen ?? []].flat()],
    }),
    ...callbacks(parts, options),
  } as StreamOptions;
}

/** The app's callbacks, with the attempt's before them. */
function callbacks(parts: DurableParts, options: StreamOptions): Partial<StreamOptions> {
  const { attempt } = parts;
  const { onError, onAbort, onStepEnd = options.onStepFinish } = options;
  return {
    prepareStep: (event) => stepOf(parts, options, event),
    onStepEnd: async (step) => {
      attempt.stepEnded(step);
      await onStepEnd?.(step);
    },
    // Without it the AI SDK writes errors to the console.
    onError: async (event) => {
      if (!onError) return void attempt.failed(event.error);
      const retry = await onError(event);
      if (!retry) attempt.failed(event.error);
      return retry;
    },
    // A cancelled turn ends as aborted in any case; other aborts are timeouts of the settings.
    onAbort: async (event) => {
      attempt.failed(event.reason);
      await onAbort?.(event);
    },
  };
}

type PrepareStep = NonNullable<StreamOptions["prepareStep"]>;

/** Before a call of the model: messages that join, and the app's settings of the step. */
async function stepOf(
  { attempt, store, canJoin }: DurableParts,
  { prepareStep }: StreamOptions,
  event: Parameters<PrepareStep>[0],
): Promise<Awaited<ReturnType<PrepareStep>>> {
  // After an error in the middle of an answer the AI SDK would go on.
  if (attempt.error) throw attempt.error.cause;
  const joined = await attempt.nextStep(event.model, store, canJoin);
  const messages = [...event.messages, ...(await convertToModelMessages(joined))];
  const own = (await prepareStep?.({ ...event, messages })) ?? {};
  // The model of the submission takes precedence over the app's.
  const { model: _, ...withoutModel } = own;
  const settings = attempt.plan?.model === undefined ? own : withoutModel;
  return attempt.stepSettings(event, { ...(joined.length > 0 && { messages }), ...settings });
}

function promptMessages(prompt: string | ModelMessage[] | undefined): ModelMessage[] {
  if (prompt === undefined) return [];
  return typeof prompt === "string" ? [{ role: "user", content: prompt }] : prompt;
}

/** Instructions as one text, to which those of the answer are added. */
function textOfInstructions(instructions: Instructions | undefined): string | undefined {
  if (instructions === undefined || typeof instructions === "string") return instructions;
  return [instructions]
    .flat()
    .map(({ content }) => content)
    .join("\n\n");
}
