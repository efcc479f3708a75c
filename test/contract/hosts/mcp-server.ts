/** An MCP server with one tool, which agents of the tests reach by `fetch()` at `MCP_URL`. */

import { createExecutionContext } from "cloudflare:test";
import { McpServer } from "@modelcontextprotocol/server";
import { createMcpHandler } from "agents/mcp/server";
import { vi } from "vitest";
import { z } from "zod";

export const MCP_URL = "https://mcp.example.com/mcp";

const handler = createMcpHandler(() => {
  const server = new McpServer({ name: "weather", version: "1.0.0" });
  server.registerTool(
    "forecast",
    { description: "The weather of a city.", inputSchema: z.object({ city: z.string() }) },
    async ({ city }) => ({ content: [{ type: "text", text: `Sunny in ${city}` }] }),
  );
  return server;
});

/**
 * Answers requests to `MCP_URL` until `vi.restoreAllMocks()`. Objects of the tests share the global scope with them.
 * @returns `latencyMs`, which a test may raise
 */
export function serveMcp(): { latencyMs: number } {
  const server = { latencyMs: 0 };
  const outside = globalThis.fetch;
  vi.spyOn(globalThis, "fetch").mockImplementation(async (input, init) => {
    const request = new Request(input, init);
    if (!request.url.startsWith(MCP_URL)) return outside(request);
    if (server.latencyMs > 0) await new Promise((done) => setTimeout(done, server.latencyMs));
    return handler(request, {}, createExecutionContext());
  });
  return server;
}
