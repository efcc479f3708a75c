/** Helpers for the AI SDK's language model interface: types, the last user message, streams. */

import type { LanguageModel } from "ai";

export type LanguageModelV4 = Extract<LanguageModel, { specificationVersion: "v4" }>;
export type CallOptions = Parameters<LanguageModelV4["doStream"]>[0];
export type GenerateResult = Awaited<ReturnType<LanguageModelV4["doGenerate"]>>;
export type StreamResult = Awaited<ReturnType<LanguageModelV4["doStream"]>>;
export type StreamPart = StreamResult["stream"] extends ReadableStream<infer Part> ? Part : never;

export function lastUserText(prompt: CallOptions["prompt"]): string {
  const message = prompt.findLast((candidate) => candidate.role === "user");
  if (message?.role !== "user") return "";
  return message.content.map((part) => (part.type === "text" ? part.text : "")).join("\n");
}

/** The value of a line `Name: value`, the first one. */
export function fieldOf(text: string, name: string): string {
  const prefix = `${name}: `;
  const line = text.split("\n").find((candidate) => candidate.startsWith(prefix));
  return line?.slice(prefix.length).trim() ?? "";
}

/** Pulls from the generator on demand, and ends it when the reader cancels. */
export function streamOf<Part>(parts: AsyncGenerator<Part>): ReadableStream<Part> {
  return new ReadableStream<Part>({
    async pull(controller) {
      const next = await parts.next();
      if (next.done) controller.close();
      else controller.enqueue(next.value);
    },
    async cancel() {
      await parts.return(undefined);
    },
  });
}
