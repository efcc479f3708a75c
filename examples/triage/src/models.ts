/** Chooses the model: the offline rules by default, or a provider with the key from the environment. Counts its calls. */

import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { type LanguageModel, wrapLanguageModel } from "ai";
import type { Env } from "./agent.ts";
import { type LanguageModelV4, lastUserText, RulesModel, type StreamPart } from "./rules-model.ts";
import { fieldOf } from "./triage.ts";

export function modelFor(env: Env): LanguageModelV4 {
  const name = env.MODEL ?? RulesModel.id;
  const [provider, model = ""] = name.split(/\/(.*)/s);
  if (name === RulesModel.id) return new RulesModel();
  if (provider === "openai") {
    return createOpenAI({ apiKey: required(env.OPENAI_API_KEY, "OPENAI_API_KEY") })(model);
  }
  if (provider === "anthropic") {
    return createAnthropic({ apiKey: required(env.ANTHROPIC_API_KEY, "ANTHROPIC_API_KEY") })(model);
  }
  throw new Error(`MODEL is "${name}". Use ${RulesModel.id}, openai/<model> or anthropic/<model>.`);
}

function required(key: string | undefined, variable: string): string {
  if (key) return key;
  throw new Error(`${variable} is not set, and MODEL needs it.`);
}

export interface CallCounter {
  started(delivery: string): void;
  /** The answer is complete. */
  answered(delivery: string): void;
}

export function countedModel(model: LanguageModelV4, counter: CallCounter): LanguageModel {
  return wrapLanguageModel({
    model,
    middleware: {
      specificationVersion: "v4",
      async wrapStream({ doStream, params }) {
        const delivery = fieldOf(lastUserText(params.prompt), "Delivery");
        counter.started(delivery);
        const result = await doStream();
        const counted = new TransformStream<StreamPart, StreamPart>({
          transform(part, stream) {
            if (part.type === "finish") counter.answered(delivery);
            stream.enqueue(part);
          },
        });
        return { ...result, stream: result.stream.pipeThrough(counted) };
      },
    },
  });
}
