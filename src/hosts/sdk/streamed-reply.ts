/** Runs the model and the tools of a side turn to their end, and makes one message of the reply. */

import { wrapAISDK } from "agents/observability/ai";
import * as ai from "ai";
import {
  convertToModelMessages,
  stepCountIs,
  type TextStreamPart,
  type ToolSet,
  toUIMessageStream,
  type UIMessage,
} from "ai";
import { failureOf } from "../../core/failures.ts";
import { isFinalAnswer } from "../../submissions/host.ts";
import type { ReplyWatcher } from "../../workflow/agent/watchers.ts";
import type { Attempt } from "./attempt.ts";
import { checkModel, offeredOf, recordedOf, type Step, type StepSettings } from "./tools.ts";
import type { TurnSetup } from "./turn-source.ts";

export type ReplyRequest = {
  readonly replyId: string;
  readonly thread: string;
  /** The id of the turn. */
  readonly requestId: string;
  /** Ids of the messages that the model sees; those that join are added. */
  readonly known: Set<string>;
  readonly watcher: ReplyWatcher | undefined;
  readonly signal: AbortSignal;
  store(joining: readonly UIMessage[]): Promise<void>;
};

/**
 * The reply of the model, whole or as far as it came. An error is not thrown but kept in the attempt.
 * @param source what the agent provides for the turn
 */
export async function streamedReply(
  attempt: Attempt,
  source: TurnSetup,
  request: ReplyRequest,
): Promise<UIMessage | undefined> {
  const setup = await withPlan(attempt, source);
  let reply: UIMessage | undefined;
  const chunks = toUIMessageStream({
    stream: watched(started(attempt, setup, request).stream, attempt),
    tools: setup.tools,
    generateMessageId: () => request.replyId,
    sendReasoning: setup.sendReasoning ?? true,
    onError: (error) => failureOf(error).message,
    // The model saw tool errors unredacted, and they are part of its history.
    redactToolErrors: false,
    onEnd: ({ responseMessage }) => {
      reply = responseMessage;
    },
  });
  for await (const chunk of chunks) request.watcher?.chunk(chunk);
  return reply;
}

/** What the agent provides, with recorded tools and with what the attempt asks for. */
async function withPlan(attempt: Attempt, { tools, ...source }: TurnSetup): Promise<TurnSetup> {
  checkModel(source.model, source.spans?.agentName);
  const decide = source.hooks?.beforeTool?.bind(source.hooks);
  const { calls, isFollowUp } = attempt;
  const offered = isFollowUp ? {} : recordedOf(offeredOf(tools), calls, { decide });
  const setup = { ...source, tools: offered };
  const context = { ...setup, system: setup.instructions ?? "" };
  return attempt.settings(context, setup, { tools, maxSteps: setup.maxSteps });
}

function started(attempt: Attempt, setup: TurnSetup, request: ReplyRequest) {
  const { hooks, instructions, maxSteps, stopWhen, sendReasoning: _, spans, ...settings } = setup;
  const { streamText }: Pick<typeof ai, "streamText"> = wrapAISDK(ai, spans);
  return streamText({
    ...settings,
    ...telemetryOf(setup, request),
    ...(instructions && { instructions }),
    abortSignal: request.signal,
    stopWhen: [stepCountIs(maxSteps), ...[stopWhen ?? []].flat()],
    prepareStep: (event) => stepOf(attempt, setup, request, event),
    onStepEnd: async (step) => {
      attempt.stepEnded(step);
      await hooks?.onStepEnd?.(step);
    },
    onToolExecutionEnd: async (event) => {
      if (!isFinalAnswer(event.toolCall.toolName)) await hooks?.afterTool?.(event);
    },
    ...(hooks?.onChunk && { onChunk: hooks.onChunk }),
    // Without it the AI SDK writes errors to the console.
    onError: ({ error }) => attempt.failed(error),
    // A cancelled turn ends as aborted in any case; other aborts are timeouts of the settings.
    onAbort: ({ reason }) => attempt.failed(reason),
  });
}

/** The identity in the platform's spans, as Think gives it to its own turns. The app's telemetry settings come first. */
function telemetryOf(
  { spans, telemetry }: TurnSetup,
  { thread, requestId }: ReplyRequest,
): Pick<Parameters<typeof ai.streamText>[0], "telemetry" | "runtimeContext"> {
  const runtimeContext = {
    ...(spans && { agentId: spans.agentId }),
    conversationId: thread,
    "cloudflare.agents.turn.request_id": requestId,
    "cloudflare.agents.turn.trigger": "submission",
  };
  const included = Object.fromEntries(Object.keys(runtimeContext).map((key) => [key, true]));
  return {
    runtimeContext,
    telemetry: {
      ...(spans && { functionId: spans.agentName }),
      ...telemetry,
      includeRuntimeContext: { ...included, ...telemetry?.includeRuntimeContext },
    },
  };
}

/** Before a call of the model: messages that join, and the app's settings of the step. */
async function stepOf(
  attempt: Attempt,
  { tools, hooks }: TurnSetup,
  { known, store }: ReplyRequest,
  event: Step,
): Promise<StepSettings> {
  // After an error in the middle of an answer the AI SDK would go on.
  if (attempt.error) throw attempt.error.cause;
  const joined = await attempt.nextStep(event.model, store);
  // Those that joined an earlier attempt are in the thread, and the model has them from there.
  const fresh = joined.filter(({ id }) => !known.has(id));
  for (const { id } of fresh) known.add(id);
  const messages = [...event.messages, ...(await convertToModelMessages(fresh, { tools }))];
  const settings = (await hooks?.beforeStep?.({ ...event, messages })) ?? {};
  return attempt.stepSettings(event, { ...(joined.length > 0 && { messages }), ...settings });
}

type Part = TextStreamPart<ToolSet>;

/** The same stream, which ends instead of failing, so that what came before the error is kept. */
function watched(stream: ReadableStream<Part>, attempt: Attempt): ReadableStream<Part> {
  const reader = stream.getReader();
  return new ReadableStream<Part>({
    async pull(controller) {
      try {
        const { done, value } = await reader.read();
        if (done) return controller.close();
        attempt.heartbeat();
        controller.enqueue(value);
      } catch (cause) {
        attempt.failed(cause);
        controller.close();
        await reader.cancel(cause).catch(() => {});
      }
    },
    cancel: (reason) => reader.cancel(reason),
  });
}
