/** Waits that wait for a child agent's run. */

export { AgentTools } from "./agent-tools.ts";
export type { AgentToolPort } from "./types.ts";
