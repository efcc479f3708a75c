/** `perdure/object`: the host for a plain Durable Object with a Lifecycle. */

export * from "../public.ts";
export type { TurnOverrides, TurnStart } from "../sdk/turn-source.ts";
export { Durable, type DurableVerbs, durable, type LifecycleDurableObject } from "./durable.ts";
export type { DurableOptions } from "./options.ts";
