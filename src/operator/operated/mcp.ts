/** What can be wrong with the MCP servers that the agent uses. */

import type { MCPServer } from "agents";
import { stableJson } from "../../core/json.ts";
import { at, line } from "../../engine/operated/text.ts";
import type { HostAgent } from "../../workflow/agent/host-agent.ts";
import type { Finding } from "../protocol.ts";

/** A server answers within seconds. The SDK tries again for about three minutes. */
const CONNECTING_MS = 120_000;

/** How long a report waits for servers that have failed. */
const CONNECT_MS = 2_000;
/** The key of the servers that have failed, and since when: a restart or a new attempt of the SDK does not repair them. */
const FAILING = "perdure:mcp_failing";

type McpFacts = readonly (MCPServer & {
  readonly id: string;
  /** When a report saw it fail first, or of this instance of the agent saw its state first. */
  readonly since: number;
  /** Whether it has failed, and has not answered since. */
  readonly hasFailed: boolean;
})[];

type Times = Readonly<Record<string, number>>;

/** The SDK stores no times. */
const seen = new WeakMap<HostAgent, Map<string, number>>();

/** Plain objects have no list of servers. */
export async function mcpFacts(host: HostAgent, now: number): Promise<McpFacts> {
  const { kv } = host.ctx.storage;
  const failing = kv.get<Times>(FAILING) ?? {};
  // The report may have started the agent, which connects to its servers again.
  if (Object.keys(failing).length > 0) await host.mcp?.waitForConnections({ timeout: CONNECT_MS });
  const servers = Object.entries(host.getMcpServers?.().servers ?? {});
  const before = seen.get(host);
  const states = new Map<string, number>();
  seen.set(host, states);
  const facts = servers.map(([id, server]) => {
    const state = `${id} ${server.state}`;
    const seenAt = before?.get(state) ?? now;
    states.set(state, seenAt);
    const failedAt = isOver(server) ? undefined : failing[id];
    const hasFailed = failedAt !== undefined || server.state === "failed";
    return { ...server, id, hasFailed, since: failedAt ?? seenAt };
  });
  const failed = facts.filter(({ hasFailed }) => hasFailed).map(({ id, since }) => [id, since]);
  const next = Object.fromEntries(failed) as Times;
  if (stableJson(next) !== stableJson(failing)) kv.put(FAILING, next);
  return facts;
}

/** Whether it answers, or waits for a person. */
const isOver = ({ state, capabilities }: MCPServer) =>
  state === "ready" ||
  (state === "connected" && capabilities !== null) ||
  state === "authenticating";

function isSilent(server: McpFacts[number], now: number): boolean {
  return server.hasFailed || (!isOver(server) && now - server.since >= CONNECTING_MS);
}

export const mcpServerFails = (servers: McpFacts, now: number) =>
  servers
    .filter((server) => isSilent(server, now))
    .map(({ id, name, server_url: url, state, error, since, hasFailed }): Finding => {
      const host = URL.parse(url)?.host;
      // The URL may have a token. The SDK keeps the errors of sign-ins only.
      const lastError = error?.replaceAll(url, host || "its URL").slice(0, 500);
      return {
        code: "mcp-server-fails",
        about: id,
        severity: "error",
        title: `The MCP server ${line(name)}${host && ` (${host})`} has ${hasFailed ? "failed" : `been ${state} since ${at(since, now)}`}.`,
        evidence: { count: 1, since, ids: [id], ...(lastError && { lastError }) },
        cause: `It does not answer, or refuses, so that turns lack its tools${lastError ? `: ${line(lastError)}` : ". The error is in the SDK's event mcp:client:connect."}`,
        fix: {
          text: "First repair the server or its credentials, then call addMcpServer() again or deploy: the agent connects when it starts.",
        },
        link: { view: "overview" },
      };
    });
