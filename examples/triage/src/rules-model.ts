/**
 * An AI SDK language model that works offline: it applies the rules of rules.ts to the last user message and streams the
 * result like a provider, in chunks over about 400 ms. It uses the final-answer tool if the call offers one.
 */

import { setTimeout as pause } from "node:timers/promises";
import type { LanguageModel } from "ai";
import { triageByRules } from "./rules.ts";

export type LanguageModelV4 = Extract<LanguageModel, { specificationVersion: "v4" }>;
type CallOptions = Parameters<LanguageModelV4["doStream"]>[0];
type StreamResult = Awaited<ReturnType<LanguageModelV4["doStream"]>>;
export type StreamPart = StreamResult["stream"] extends ReadableStream<infer Part> ? Part : never;

const CHUNKS = 8;
const MIN_DELAY_MS = 320;
const DELAY_SPREAD_MS = 160;
const CHARS_PER_TOKEN = 4;

export class RulesModel implements LanguageModelV4 {
  static readonly id = "offline-rules";
  readonly specificationVersion = "v4";
  readonly provider = "perdure-example";
  readonly modelId = RulesModel.id;
  readonly supportedUrls = {};

  async doGenerate(): Promise<never> {
    throw new Error("The offline model only streams");
  }

  async doStream(options: CallOptions): Promise<StreamResult> {
    const parts = answerTo(options);
    return {
      stream: new ReadableStream<StreamPart>({
        async pull(stream) {
          const { done, value } = await parts.next();
          if (done) stream.close();
          else stream.enqueue(value);
        },
      }),
    };
  }
}

async function* answerTo({ prompt, tools, abortSignal }: CallOptions): AsyncGenerator<StreamPart> {
  const question = lastUserText(prompt);
  const verdict = triageByRules(question);
  const toolName = tools?.find(({ name }) => name.startsWith("think_final_answer"))?.name;
  const text = toolName ? JSON.stringify(verdict) : verdict.summary;
  const id = crypto.randomUUID();
  // The same question always takes the same time.
  const delayMs = MIN_DELAY_MS + ((question.length * 37) % DELAY_SPREAD_MS);
  const size = Math.ceil(text.length / CHUNKS);

  yield { type: "stream-start", warnings: [] };
  yield toolName ? { type: "tool-input-start", id, toolName } : { type: "text-start", id };
  for (let at = 0; at < text.length; at += size) {
    await pause(delayMs / CHUNKS, undefined, abortSignal && { signal: abortSignal });
    const delta = text.slice(at, at + size);
    yield toolName ? { type: "tool-input-delta", id, delta } : { type: "text-delta", id, delta };
  }
  yield toolName ? { type: "tool-input-end", id } : { type: "text-end", id };
  if (toolName) yield { type: "tool-call", toolCallId: id, toolName, input: text };
  const input = Math.ceil(question.length / CHARS_PER_TOKEN);
  const output = Math.ceil(text.length / CHARS_PER_TOKEN);
  yield {
    type: "finish",
    finishReason: { unified: toolName ? "tool-calls" : "stop", raw: undefined },
    usage: {
      inputTokens: { total: input, noCache: input, cacheRead: 0, cacheWrite: 0 },
      outputTokens: { total: output, text: output, reasoning: 0 },
    },
  };
}

export function lastUserText(prompt: CallOptions["prompt"]): string {
  const message = prompt.findLast(({ role }) => role === "user");
  if (message?.role !== "user") return "";
  return message.content.map((part) => (part.type === "text" ? part.text : "")).join("\n");
}
