/** `perdure/agent`: the host for an `Agent` of the SDK. */

export * from "../public.ts";
export type { TurnOverrides, TurnStart } from "../sdk/turn-source.ts";
export { DurableAgent, type DurableAgentOptions } from "./durable-agent.ts";
