/** `perdure/think`: the host for agents built on `@cloudflare/think`. */

export { DurableThink } from "./durable-think.ts";
export { defineScheduledTasks } from "./scheduled-tasks.ts";
export type { DurableThinkOptions } from "./think-rooms.ts";
