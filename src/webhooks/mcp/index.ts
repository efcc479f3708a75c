/** `perdure/mcp`: an MCP server that offers an agent's submissions as tools. */

export { InvalidOptionError } from "../../core/options/options.ts";
export { type McpOptions, type McpReceiver, mcp } from "./mcp.ts";
export type { McpIdentity } from "./tools.ts";
