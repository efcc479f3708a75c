/** `perdure/mcp`: MCP servers for an agent's submissions, and for operators. */

export { InvalidOptionError } from "../../core/options/options.ts";
export { type McpOptions, type McpReceiver, mcp } from "./mcp.ts";
export { type OperatorMcpHandler, type OperatorMcpOptions, operatorMcp } from "./operator-mcp.ts";
export type { McpIdentity } from "./tools.ts";
