/** `perdure/think`: the host for agents built on `@cloudflare/think`. */

export { DurableThink } from "./durable-think.ts";
