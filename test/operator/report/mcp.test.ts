/** What the report finds wrong with MCP servers. */

import { afterEach, describe, expect, it, vi } from "vitest";
import { MCP_URL, serveMcp } from "../../contract/hosts/mcp-server.ts";
import { until } from "../../support/given.ts";
import { type Agent, again } from "../../support/think.ts";
import { codesIn, crashed, found, givenAgent, gone, inside, MINUTE, reportOf } from "./support.ts";

const SECRET_URL = `${MCP_URL}?token=hidden`;

function answerMcp(answer: () => Response | Promise<Response>): void {
  const outside = globalThis.fetch;
  vi.spyOn(globalThis, "fetch").mockImplementation((input, init) => {
    const request = new Request(input, init);
    return request.url.startsWith(MCP_URL) ? Promise.resolve(answer()) : outside(request);
  });
}

/** Connects without waiting for the server. */
function givenConnecting() {
  const agent = givenAgent();
  const connect = () =>
    inside(agent, (object) => void object.addMcpServer("weather", SECRET_URL).catch(() => {}));
  return { agent, connect };
}

/** Crashes it. Its first call starts it, which connects to the servers again. */
async function restarted(agent: Agent): Promise<Agent> {
  // Its own stub is broken after a crash.
  const next = await crashed(again(agent));
  await next.submissionStats();
  return next;
}

afterEach(() => vi.restoreAllMocks());

describe("findings of MCP servers", () => {
  it("mcp-server-fails: a server that refuses is found with its name and host", async () => {
    answerMcp(() => new Response("no", { status: 503 }));
    const { agent, connect } = givenConnecting();
    await connect();
    const finding = await found(agent, "mcp-server-fails");
    expect(finding.title).toBe("The MCP server weather (mcp.example.com) has failed.");
    expect(finding.cause).toContain("mcp:client:connect");
    expect(JSON.stringify(finding)).not.toContain("hidden");
    expect((await reportOf(agent)).verdicts.succeeds).toBe(false);
  });

  it("mcp-server-fails: a server that never answers is found after two minutes", async () => {
    answerMcp(() => new Promise(() => {}));
    const { agent, connect } = givenConnecting();
    await connect();
    await until(() =>
      inside(agent, (object) => Object.keys(object.getMcpServers().servers).length),
    );
    expect(codesIn(await reportOf(agent))).toEqual([]);
    expect(codesIn(await reportOf(agent, { later: MINUTE }))).toEqual([]);
    const finding = await found(agent, "mcp-server-fails", { later: 3 * MINUTE });
    expect(finding.title).toMatch(
      /^The MCP server weather \(mcp\.example\.com\) has been connecting since \d\d:\d\d UTC\.$/,
    );
  });

  it("mcp-server-fails: stays while the SDK connects again, also after restarts, until the server answers", async () => {
    let answer: () => Response | Promise<Response> = () => new Response("no", { status: 503 });
    answerMcp(() => answer());
    const { agent, connect } = givenConnecting();
    await connect();
    const first = await found(agent, "mcp-server-fails");
    answer = () => new Promise(() => {});
    for (let restarts = 0; restarts < 3; restarts++) {
      const next = await restarted(agent);
      const states = await inside(next, (object) =>
        Object.values(object.getMcpServers().servers).map(({ state }) => state),
      );
      expect(states).toEqual(["connecting"]);
      const { findings } = await reportOf(next);
      expect(findings).toMatchObject([
        { code: "mcp-server-fails", title: first.title, evidence: { since: first.evidence.since } },
      ]);
    }
    vi.restoreAllMocks();
    serveMcp();
    await gone(await restarted(agent), "mcp-server-fails");
    vi.restoreAllMocks();
    answerMcp(() => new Promise(() => {}));
    expect(codesIn(await reportOf(await restarted(agent)))).toEqual([]);
  });

  it("mcp-server-fails: a server that answers is healthy", async () => {
    serveMcp();
    const agent = givenAgent();
    await inside(agent, (object) => object.addMcpServer("weather", MCP_URL));
    expect(codesIn(await reportOf(agent))).toEqual([]);
    expect(codesIn(await reportOf(agent, { later: 3 * MINUTE }))).toEqual([]);
  });
});
