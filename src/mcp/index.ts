/** `perdure/mcp`: an MCP server for an agent's submissions. */

export { InvalidOptionError } from "../core/options/options.ts";
export { type McpOptions, type McpReceiver, mcp } from "./mcp.ts";
export type { McpIdentity } from "./tools.ts";
