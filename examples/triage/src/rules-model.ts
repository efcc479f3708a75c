/**
 * An AI SDK language model that works offline: it applies the rules of rules.ts to the last user message and streams the
 * result like a provider, in chunks over about 400 ms. It uses the final-answer tool if the call offers one.
 */

import {
  type CallOptions,
  type GenerateResult,
  type LanguageModelV4,
  lastUserText,
  type StreamPart,
  type StreamResult,
  streamOf,
} from "./model-io.ts";
import { triageByRules } from "./rules.ts";

const CHUNKS = 8;
const MIN_DELAY_MS = 320;
const DELAY_SPREAD_MS = 160;
const CHARS_PER_TOKEN = 4;
const FINAL_ANSWER = "think_final_answer";

interface Answer {
  id: string;
  /** The final-answer tool's name, or undefined to answer in text. */
  toolName: string | undefined;
  text: string;
  delayMs: number;
  finish: Pick<GenerateResult, "finishReason" | "usage">;
}

export class RulesModel implements LanguageModelV4 {
  static readonly id = "offline-rules";
  readonly specificationVersion = "v4";
  readonly provider = "perdure-example";
  readonly modelId = RulesModel.id;
  readonly supportedUrls = {};

  async doGenerate(options: CallOptions): Promise<GenerateResult> {
    const answer = answerTo(options);
    await pause(answer.delayMs, options.abortSignal);
    const { id, toolName, text } = answer;
    const content: GenerateResult["content"] = toolName
      ? [{ type: "tool-call", toolCallId: id, toolName, input: text }]
      : [{ type: "text", text }];
    return { content, ...answer.finish, warnings: [] };
  }

  async doStream(options: CallOptions): Promise<StreamResult> {
    return { stream: streamOf(parts(answerTo(options), options.abortSignal)) };
  }
}

async function* parts(answer: Answer, signal: AbortSignal | undefined): AsyncGenerator<StreamPart> {
  const { id, toolName, text } = answer;
  yield { type: "stream-start", warnings: [] };
  yield { type: "response-metadata", id, modelId: RulesModel.id, timestamp: new Date() };
  yield toolName ? { type: "tool-input-start", id, toolName } : { type: "text-start", id };
  for (const delta of chunksOf(text)) {
    await pause(answer.delayMs / CHUNKS, signal);
    yield toolName ? { type: "tool-input-delta", id, delta } : { type: "text-delta", id, delta };
  }
  if (toolName) {
    yield { type: "tool-input-end", id };
    yield { type: "tool-call", toolCallId: id, toolName, input: text };
  } else {
    yield { type: "text-end", id };
  }
  yield { type: "finish", ...answer.finish };
}

function answerTo({ prompt, tools }: CallOptions): Answer {
  const question = lastUserText(prompt);
  const verdict = triageByRules(question);
  const tool = tools?.find(
    (offered) => offered.type === "function" && offered.name.startsWith(FINAL_ANSWER),
  );
  const schema = tool?.type === "function" ? tool.inputSchema : undefined;
  const text = tool ? JSON.stringify(onlyAsked(verdict, schema?.properties)) : verdict.summary;
  const promptText = JSON.stringify(prompt);
  return {
    id: crypto.randomUUID(),
    toolName: tool?.name,
    text,
    delayMs: MIN_DELAY_MS + (hash(question) % DELAY_SPREAD_MS),
    finish: {
      finishReason: { unified: tool ? "tool-calls" : "stop", raw: undefined },
      usage: usageOf(promptText.length, text.length),
    },
  };
}

/** The fields of the schema for which there are rules. */
function onlyAsked(verdict: object, properties: object | undefined): object {
  if (!properties) return verdict;
  return Object.fromEntries(Object.entries(verdict).filter(([field]) => field in properties));
}

function usageOf(inputChars: number, outputChars: number): GenerateResult["usage"] {
  const input = Math.ceil(inputChars / CHARS_PER_TOKEN);
  const output = Math.ceil(outputChars / CHARS_PER_TOKEN);
  return {
    inputTokens: { total: input, noCache: input, cacheRead: 0, cacheWrite: 0 },
    outputTokens: { total: output, text: output, reasoning: 0 },
  };
}

function chunksOf(text: string): string[] {
  const size = Math.max(1, Math.ceil(text.length / CHUNKS));
  return Array.from({ length: Math.ceil(text.length / size) }, (_, index) =>
    text.slice(index * size, (index + 1) * size),
  );
}

/** FNV-1a: the same text always takes the same time. */
function hash(text: string): number {
  let value = 0x811c9dc5;
  for (let index = 0; index < text.length; index++) {
    value = Math.imul(value ^ text.charCodeAt(index), 0x01000193) >>> 0;
  }
  return value;
}

function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const abort = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", abort);
      resolve();
    }, ms);
    if (signal?.aborted) abort();
    else signal?.addEventListener("abort", abort, { once: true });
  });
}
