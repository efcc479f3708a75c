/** `perdure/agent-tools`: workflows that run child agents of their agent. */

export { type AgentTools, agentTools } from "./agent-tools.ts";
