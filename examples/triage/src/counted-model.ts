/** Counts the calls of a model of any provider: for which delivery, and whether the answer was complete. */

import { type LanguageModel, wrapLanguageModel } from "ai";
import { fieldOf, type LanguageModelV4, lastUserText, streamOf } from "./model-io.ts";

export interface CallCounter {
  /** Returns the call's number. */
  started(delivery: string): number;
  answered(call: number): void;
  /** The call has ended, with or without an answer. */
  ended(call: number): void;
}

export function countedModel(model: LanguageModelV4, counter: CallCounter): LanguageModel {
  return wrapLanguageModel({
    model,
    middleware: {
      specificationVersion: "v4",
      async wrapGenerate({ doGenerate, params }) {
        const call = counter.started(deliveryOf(params.prompt));
        try {
          const result = await doGenerate();
          counter.answered(call);
          return result;
        } finally {
          counter.ended(call);
        }
      },
      async wrapStream({ doStream, params }) {
        const call = counter.started(deliveryOf(params.prompt));
        try {
          const result = await doStream();
          return { ...result, stream: streamOf(counted(result.stream, call, counter)) };
        } catch (error) {
          counter.ended(call);
          throw error;
        }
      },
    },
  });
}

async function* counted<Part extends { type: string }>(
  stream: ReadableStream<Part>,
  call: number,
  counter: CallCounter,
): AsyncGenerator<Part> {
  try {
    for await (const part of stream) {
      if (part.type === "finish") counter.answered(call);
      yield part;
    }
  } finally {
    counter.ended(call);
  }
}

function deliveryOf(prompt: Parameters<typeof lastUserText>[0]): string {
  return fieldOf(lastUserText(prompt), "Delivery") || "none";
}
