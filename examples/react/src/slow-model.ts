/** An offline model that streams a polite answer slowly, word by word. */

import type { LanguageModel } from "ai";

type Model = Extract<LanguageModel, { specificationVersion: "v4" }>;
type CallOptions = Parameters<Model["doStream"]>[0];
type StreamResult = Awaited<ReturnType<Model["doStream"]>>;
type Part = StreamResult["stream"] extends ReadableStream<infer P> ? P : never;

const WORD_MS = 60;

export class SlowModel implements Model {
  readonly specificationVersion = "v4";
  readonly provider = "perdure-example";
  readonly modelId = "slow";
  readonly supportedUrls = {};

  async doGenerate(): Promise<never> {
    throw new Error("The slow model only streams");
  }

  async doStream({ prompt, abortSignal }: CallOptions): Promise<StreamResult> {
    const parts = partsOf(questionIn(prompt), abortSignal);
    const stream = new ReadableStream<Part>({
      async pull(controller) {
        const { done, value } = await parts.next();
        if (done) controller.close();
        else controller.enqueue(value);
      },
    });
    return { stream };
  }
}

async function* partsOf(question: string, signal: AbortSignal | undefined): AsyncGenerator<Part> {
  const answer =
    `Thank you for your message. You wrote: "${question}" We have looked into it, and we are sorry for the trouble. ` +
    "A new one is on its way to you, and you can keep the old one. It should be with you in two days.";
  const words = answer.split(/(?<= )/);
  const id = "text";
  yield { type: "stream-start", warnings: [] };
  yield { type: "text-start", id };
  for (const delta of words) {
    signal?.throwIfAborted();
    await new Promise((resolve) => setTimeout(resolve, WORD_MS));
    yield { type: "text-delta", id, delta };
  }
  yield { type: "text-end", id };
  yield {
    type: "finish",
    finishReason: { unified: "stop", raw: undefined },
    usage: {
      inputTokens: { total: question.length, noCache: undefined, cacheRead: 0, cacheWrite: 0 },
      outputTokens: { total: words.length, text: words.length, reasoning: 0 },
    },
  };
}

function questionIn(prompt: CallOptions["prompt"]): string {
  const message = prompt.findLast(({ role }) => role === "user");
  if (message?.role !== "user") return "";
  return message.content.map((part) => (part.type === "text" ? part.text : "")).join(" ");
}
