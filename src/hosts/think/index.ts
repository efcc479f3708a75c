/** `perdure/think`: the host for agents built on `@cloudflare/think`. */

export { DurableThink, type DurableThinkOptions } from "./durable-think.ts";
export { defineScheduledTasks } from "./scheduled-tasks.ts";
