/** Runs a model and its tools to the end of a turn, and makes one message of all that they said. */

import {
  stepCountIs,
  streamText,
  type TextStreamPart,
  type ToolSet,
  toUIMessageStream,
  type UIMessage,
} from "ai";
import { failureOf } from "../../core/failures.ts";
import type { Attempt } from "./attempt.ts";
import { isFinalAnswer } from "./final-answer.ts";
import type { ReplyWatcher } from "./sdk-turns.ts";
import type { TurnSetup } from "./turn-source.ts";

/**
 * What the model said, all of it or as far as it came: what went wrong is told
 * to the attempt, and not thrown.
 *
 * @param known ids of the messages that the model is asked
 * @param watcher sees the reply while it is written
 */
export async function streamedReply(
  attempt: Attempt,
  setup: TurnSetup,
  {
    replyId,
    known,
    watcher,
  }: { replyId: string; known: Set<string>; watcher: ReplyWatcher | undefined },
): Promise<UIMessage | undefined> {
  const { tools, sendReasoning } = setup;
  let reply: UIMessage | undefined;
  const chunks = toUIMessageStream({
    stream: watched(started(attempt, setup, known).stream, attempt),
    tools,
    generateMessageId: () => replyId,
    sendReasoning: sendReasoning ?? true,
    onError: (error) => failureOf(error).message,
    // Tool errors are shown to the model as they are; here they are part of its history.
    redactToolErrors: false,
    onEnd: ({ responseMessage }) => {
      reply = responseMessage;
    },
  });
  const reader = chunks.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return reply;
    watcher?.chunk(value);
  }
}

function started(attempt: Attempt, setup: TurnSetup, known: Set<string>) {
  const { hooks, instructions, maxSteps, stopWhen, sendReasoning: _, ...settings } = setup;
  return streamText({
    ...settings,
    ...(instructions && { instructions }),
    abortSignal: attempt.turn.signal,
    stopWhen: [stepCountIs(maxSteps), ...[stopWhen ?? []].flat()],
    prepareStep: (event) => attempt.step(event, setup, known),
    onStepEnd: async (step) => {
      attempt.stepped(step);
      await hooks?.onStepEnd?.(step);
    },
    onToolExecutionEnd: async (event) => {
      if (!isFinalAnswer(event.toolCall.toolName)) await hooks?.afterTool?.(event);
    },
    ...(hooks?.onChunk && { onChunk: hooks.onChunk }),
    // Without it the AI SDK writes errors to the console.
    onError: ({ error }) => attempt.failed(error),
    // A cancelled turn says so itself; what else aborts is a timeout of the settings.
    onAbort: ({ reason }) => attempt.failed(reason),
  });
}

type Part = TextStreamPart<ToolSet>;

/** The same stream, that ends where it would break: what came before is not lost. */
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
