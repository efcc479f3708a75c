/** What can be wrong with the MCP servers that the agent uses. */

import type { MCPServer } from "agents";
import { at, line } from "../../core/operated/text.ts";
import type { HostAgent } from "../../kernel/index.ts";
import type { Finding } from "../protocol.ts";

/** A server answers within seconds. The SDK tries again for about three minutes. */
const CONNECTING_MS = 120_000;

type McpFacts = readonly (MCPServer & {
  readonly id: string;
  /** When a report of this instance of the agent saw its state first. */
  readonly since: number;
})[];

/** The SDK stores no times. */
const seen = new WeakMap<HostAgent, Map<string, number>>();

/** A host without MCP servers has no such method. */
export function mcpFacts(host: HostAgent, now: number): McpFacts {
  const before = seen.get(host);
  const states = new Map<string, number>();
  seen.set(host, states);
  return Object.entries(host.getMcpServers?.().servers ?? {}).map(([id, server]) => {
    const state = `${id} ${server.state}`;
    const since = before?.get(state) ?? now;
    states.set(state, since);
    return { ...server, id, since };
  });
}

function isSilent({ state, capabilities, since }: McpFacts[number], now: number): boolean {
  if (state === "failed") return true;
  const isReady = state === "ready" || (state === "connected" && capabilities !== null);
  return !isReady && state !== "authenticating" && now - since >= CONNECTING_MS;
}

export const mcpServerFails = (servers: McpFacts, now: number) =>
  servers
    .filter((server) => isSilent(server, now))
    .map(({ id, name, server_url: url, state, error, since }): Finding => {
      const host = URL.parse(url)?.host;
      // The URL may have a token. The SDK keeps the errors of sign-ins only.
      const lastError = error?.replaceAll(url, host || "its URL").slice(0, 500);
      return {
        code: "mcp-server-fails",
        about: id,
        severity: "error",
        title: `The MCP server ${line(name)}${host && ` (${host})`} has ${state === "failed" ? "failed" : `been ${state} since ${at(since, now)}`}.`,
        evidence: { count: 1, since, ids: [id], ...(lastError && { lastError }) },
        cause: `It does not answer, or refuses, so that turns lack its tools${lastError ? `: ${line(lastError)}` : ". The error is in the SDK's event mcp:client:connect."}`,
        fix: {
          text: "First repair the server or its credentials, then call addMcpServer() again or deploy: the agent connects when it starts.",
        },
        link: { view: "overview" },
      };
    });
