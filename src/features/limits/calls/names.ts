import type { LanguageModel } from "ai";

/** `<provider>/<modelId>`: the provider up to its first dot, as in `openai.responses`. */
export function modelName(model: LanguageModel): string {
  if (typeof model === "string") return model;
  const [provider] = model.provider.split(".");
  return `${provider}/${model.modelId}`;
}
