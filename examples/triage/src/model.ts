/** Chooses the model: the offline rules by default, or a provider with the key from the environment. */

import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import type { Env } from "./env.ts";
import type { LanguageModelV4 } from "./model-io.ts";
import { RulesModel } from "./rules-model.ts";

export function modelFor(env: Env): LanguageModelV4 {
  const name = env.MODEL ?? RulesModel.id;
  if (name === RulesModel.id) return new RulesModel();
  const slash = name.indexOf("/");
  const provider = name.slice(0, Math.max(slash, 0));
  const model = name.slice(slash + 1);
  switch (provider) {
    case "openai":
      return createOpenAI({ apiKey: required(env.OPENAI_API_KEY, "OPENAI_API_KEY", name) })(model);
    case "anthropic":
      return createAnthropic({
        apiKey: required(env.ANTHROPIC_API_KEY, "ANTHROPIC_API_KEY", name),
      })(model);
    default:
      throw new Error(
        `MODEL is "${name}". Use ${RulesModel.id}, openai/<model> or anthropic/<model>.`,
      );
  }
}

function required(key: string | undefined, variable: string, model: string): string {
  if (key) return key;
  throw new Error(`MODEL is "${model}", and ${variable} is not set.`);
}
