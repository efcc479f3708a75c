/** `perdure/chat`: the host for an `AIChatAgent` of `@cloudflare/ai-chat`. */

export * from "../public.ts";
export type { TurnOverrides, TurnStart } from "../sdk/turn-source.ts";
export { DurableChatAgent, type DurableChatAgentOptions } from "./durable-chat-agent.ts";
export type { StreamOptions } from "./durable-options.ts";
