import { gateway, type LanguageModel } from "ai";

/** The model itself. An id belongs to the app's default provider, as the AI SDK resolves it. */
export function resolveModel(model: LanguageModel): Exclude<LanguageModel, string> {
  if (typeof model !== "string") return model;
  const provider = globalThis.AI_SDK_DEFAULT_PROVIDER ?? gateway;
  return provider.languageModel(model);
}
