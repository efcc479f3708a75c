/** The hooks of an app on AIChatAgent that Perdure calls or wraps. */

import type {
  AIChatAgent,
  ChatRecoveryConfig,
  ChatRecoveryContext,
  ChatRecoveryOptions,
  ChatResponseResult,
} from "@cloudflare/ai-chat";
import type { LanguageModel } from "ai";

/** The hooks of AIChatAgent that Perdure wraps; the app's own run inside. */
export type ChatHooks = Pick<AIChatAgent, "onChatMessage"> & {
  onChatResponse(result: ChatResponseResult): void | Promise<void>;
  onChatRecovery(ctx: ChatRecoveryContext): Promise<ChatRecoveryOptions | void>;
  chatRecovery: ChatRecoveryConfig;
};

/** A DurableChatAgent, with the members that are protected in its class. */
export type HookedChat = AIChatAgent & {
  readonly maxSteps: number;
  onChatResponse: ChatHooks["onChatResponse"];
  onChatRecovery: ChatHooks["onChatRecovery"];
  getModel(id?: string): LanguageModel | Promise<LanguageModel>;
  abortRequest(requestId: string, reason?: unknown): void;
};
