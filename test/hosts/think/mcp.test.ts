/** The MCP server of an agent, called by the client of the MCP SDK. */

import { createExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { afterEach, describe, expect, it, vi } from "vitest";
import { type McpOptions, mcp } from "../../../src/operator/mcp/index.ts";
import { ask } from "../../../src/testing/index.ts";
import { type Agent, givenAgent, submit } from "../../support/think.ts";

afterEach(() => vi.restoreAllMocks());

const URL_OF_SERVER = "http://localhost/mcp";
/** The token is the id of the identity. */
const serverFor = (agent: Pick<Agent, "submitMessages">, options: Partial<McpOptions> = {}) =>
  mcp({
    authorize: (request) => {
      const id = request.headers.get("authorization")?.slice("Bearer ".length);
      return id ? { id } : undefined;
    },
    agent: () => agent,
    ...options,
  });

const clients: Client[] = [];
afterEach(async () => {
  await Promise.all(clients.splice(0).map((client) => client.close()));
});

async function clientOf(server: ReturnType<typeof mcp>, token = "ann"): Promise<Client> {
  const client = new Client({ name: "test", version: "1.0.0" });
  clients.push(client);
  const transport = new StreamableHTTPClientTransport(new URL(URL_OF_SERVER), {
    requestInit: { headers: { authorization: `Bearer ${token}` } },
    fetch: async (url, init) => {
      const request = new Request(url, init);
      // The platform sets it.
      request.headers.set("host", "localhost");
      const response = await server(request, env, createExecutionContext());
      return response ?? new Response(null, { status: 404 });
    },
  });
  await client.connect(transport);
  return client;
}

type Called = {
  readonly isError?: boolean;
  readonly structuredContent?: Record<string, unknown>;
  readonly content: { readonly text: string }[];
};
const call = async (client: Client, name: string, args: object) =>
  (await client.callTool({ name, arguments: args as Record<string, unknown> })) as Called;

const LATER = "2050-01-01T00:00:00Z";

describe("mcp()", () => {
  it("offers submit, inspect and cancel, with what each of them may change", async () => {
    const client = await clientOf(serverFor(givenAgent()));
    const { tools } = await client.listTools();
    expect(tools.map(({ name, annotations }) => [name, annotations])).toEqual([
      ["submit", { readOnlyHint: false, destructiveHint: false, idempotentHint: false }],
      ["inspect", { readOnlyHint: true, idempotentHint: true }],
      ["cancel", { readOnlyHint: false, destructiveHint: true, idempotentHint: true }],
    ]);
    expect(tools[0]?.inputSchema).toMatchObject({
      type: "object",
      properties: { text: { type: "string", maxLength: 100_000 }, wait: { maximum: 30 } },
    });
  });

  it("submits a turn, waits for its end, and stores who has called", async () => {
    const agent = givenAgent();
    const client = await clientOf(serverFor(agent));
    const { structuredContent, isError } = await call(client, "submit", {
      text: ask({ text: "hello" }),
      thread: "orders",
      wait: 20,
    });
    expect(isError).toBeFalsy();
    expect(structuredContent).toMatchObject({
      status: "completed",
      accepted: true,
      thread: "orders",
      output: "hello",
    });
    const stored = await agent.inspectSubmission(String(structuredContent?.submissionId));
    expect(stored?.metadata).toEqual({ mcp: "ann" });
    expect(await agent.threadMessages("orders")).toMatchObject([{ role: "user" }, {}]);
  });

  it("accepts a repeated call with a key once, and callers do not share keys", async () => {
    const agent = givenAgent();
    const server = serverFor(agent);
    const client = await clientOf(server);
    const args = {
      messages: [{ role: "user", text: "hi" }],
      idempotencyKey: "k",
      notBefore: LATER,
    };
    const first = (await call(client, "submit", args)).structuredContent;
    const again = (await call(client, "submit", args)).structuredContent;
    expect(first).toMatchObject({ status: "pending", accepted: true });
    expect(again).toMatchObject({ submissionId: first?.submissionId, accepted: false });
    expect(again?.conflict).toBeUndefined();
    const other = (await call(await clientOf(server, "bob"), "submit", args)).structuredContent;
    expect(other).toMatchObject({ accepted: true });
    expect(other?.submissionId).not.toBe(first?.submissionId);
  });

  it("inspects and cancels a submission of the same identity, and finds no other", async () => {
    const agent = givenAgent();
    const server = serverFor(agent);
    const [ann, bob] = [await clientOf(server), await clientOf(server, "bob")];
    const submitted = await call(ann, "submit", { text: "hi", notBefore: LATER });
    const { submissionId } = submitted.structuredContent ?? {};
    for (const tool of ["inspect", "cancel"]) {
      const refused = await call(bob, tool, { submissionId });
      expect(refused.isError).toBe(true);
      expect(refused.content[0]?.text).toMatch(/^No submission ".+"\. Pass the submissionId/);
    }
    expect((await call(ann, "inspect", { submissionId })).structuredContent).toMatchObject({
      submissionId,
      status: "pending",
      dueAt: Date.parse(LATER),
    });
    const cancelled = await call(ann, "cancel", { submissionId, reason: "not needed" });
    expect(cancelled.structuredContent).toEqual({
      submissionId,
      outcome: "cancelled",
      status: "aborted",
    });
    const twice = await call(ann, "cancel", { submissionId });
    expect(twice.structuredContent).toMatchObject({ outcome: "already_terminal" });
    const admin = await clientOf(serverFor(agent, { visibility: "all" }), "bob");
    expect((await call(admin, "inspect", { submissionId })).isError).toBeFalsy();
  });

  it("finds nothing that the app itself has submitted, whatever the app stores with it", async () => {
    const agent = givenAgent();
    const { submissionId } = await submit(
      agent,
      { text: "hi" },
      {
        metadata: { by: "bob" },
        notBefore: LATER,
      },
    );
    const bob = await clientOf(serverFor(agent), "bob");
    for (const tool of ["inspect", "cancel"]) {
      expect((await call(bob, tool, { submissionId })).isError).toBe(true);
    }
    expect(await agent.inspectSubmission(submissionId)).toMatchObject({ status: "pending" });
  });

  it("gives only the name of a failed turn's error", async () => {
    const client = await clientOf(serverFor(givenAgent()));
    const failing = ask({ fail: "SECRET of the provider" });
    const failed = await call(client, "submit", { text: failing, wait: 20 });
    expect(failed.structuredContent).toMatchObject({ status: "error" });
    expect(failed.structuredContent?.errorName).toBeTypeOf("string");
    expect(JSON.stringify(failed)).not.toContain("SECRET");
  });

  it("leaves out an output above the limit, and says its size", async () => {
    const client = await clientOf(serverFor(givenAgent(), { maxOutputBytes: 10 }));
    const args = { text: ask({ text: "a long answer" }), wait: 20 };
    const { structuredContent } = await call(client, "submit", args);
    expect(structuredContent).toMatchObject({ status: "completed", outputBytes: 15 });
    expect(structuredContent?.output).toBeUndefined();
  });

  it("refuses invalid arguments, and returns the agent's own refusal", async () => {
    const agent = givenAgent({ options: { maxPending: 1 } });
    const client = await clientOf(serverFor(agent));
    const refusal = async (args: object) => {
      const { isError, content } = await call(client, "submit", args);
      expect(isError).toBe(true);
      return content[0]?.text;
    };
    expect(await refusal({})).toContain("expected either text or messages");
    expect(await refusal({ text: "a", messages: [{ role: "user", text: "b" }] })).toContain(
      "either",
    );
    expect(await refusal({ text: "a", wait: 31 })).toContain("wait");
    expect(await refusal({ text: "a", metadata: { by: "eve" } })).toContain("metadata");
    expect(await refusal({ messages: [{ role: "system", text: "b" }] })).toContain("role");
    await call(client, "submit", { text: "a", notBefore: LATER });
    expect(await refusal({ text: "b", notBefore: LATER })).toMatch(/backlog|pending/i);
  });

  it("hides the error of an agent that cannot be reached, and logs it", async () => {
    const logged = vi.spyOn(console, "error").mockImplementation(() => {});
    const broken = {
      submitMessages: async (): Promise<never> => {
        throw new Error("secret internals");
      },
    };
    const client = await clientOf(serverFor(broken as never));
    const { isError, content } = await call(client, "submit", { text: "a" });
    expect(isError).toBe(true);
    expect(content[0]?.text).toBe("The agent could not be reached or failed. Try again later.");
    expect(logged.mock.lastCall?.join()).toContain("secret internals");
  });
});

describe("requests of mcp()", () => {
  const post = (headers: Record<string, string> = {}, body: BodyInit = "{}", url = URL_OF_SERVER) =>
    new Request(url, { method: "POST", headers: { host: "localhost", ...headers }, body });
  const answer = (request: Request, options: Partial<McpOptions> = {}) =>
    serverFor(givenAgent(), options)(request, env, createExecutionContext());

  it("leaves other paths to the app", async () => {
    expect(await answer(post({}, "{}", "http://localhost/other"))).toBeNull();
  });

  it.each([
    [undefined],
    [false],
    [null],
    [{}],
    [{ id: "" }],
    [{ id: 7 }],
    [true],
    [{ id: "x".repeat(201) }],
  ])("answers 401 where authorize() returns %j, and calls no agent", async (identity) => {
    const agent = vi.fn();
    const response = await answer(post(), { authorize: () => identity as never, agent });
    expect(response?.status).toBe(401);
    expect(response?.headers.get("www-authenticate")).toBe("Bearer");
    expect(agent).not.toHaveBeenCalled();
  });

  it.each([
    [{ id: 7 }, "id of type number"],
    [{ id: "" }, "id of 0 characters"],
    [{ id: "x".repeat(201) }, "id of 201 characters"],
    [{ id: "\ud800" }, "id with half a character"],
    [true, "a boolean"],
  ])("logs why the identity %j is not accepted", async (identity, reason) => {
    const logged = vi.spyOn(console, "warn").mockImplementation(() => {});
    const name = crypto.randomUUID();
    const response = await answer(post(), { name, authorize: () => identity as never });
    expect(response?.status).toBe(401);
    expect(await response?.json()).toEqual({ error: "Not authorized" });
    const line = JSON.parse(String(logged.mock.lastCall));
    expect(line).toMatchObject({ perdure: "webhook:refused", source: `mcp:${name}`, status: 401 });
    expect(line.reason).toContain(reason);
    expect(line.reason).toContain("Return { id }");
  });

  it("logs nothing for a caller that authorize() refuses, and few lines for many identities", async () => {
    const logged = vi.spyOn(console, "warn").mockImplementation(() => {});
    const name = crypto.randomUUID();
    for (const identity of [false, undefined, null]) {
      await answer(post(), { name, authorize: () => identity as never });
    }
    expect(logged).not.toHaveBeenCalled();
    for (let n = 0; n < 20; n++) await answer(post(), { name, authorize: () => true as never });
    expect(logged).toHaveBeenCalledTimes(10);
  });

  it.each([
    [
      "throws",
      () => {
        throw new Error("SECRET of the token service");
      },
    ],
    [
      "rejects",
      async () => {
        throw new Error("SECRET of the token service");
      },
    ],
  ])("answers 503 where authorize() %s, and logs it", async (_, authorize) => {
    const logged = vi.spyOn(console, "warn").mockImplementation(() => {});
    const name = crypto.randomUUID();
    const response = await answer(post(), { name, authorize });
    expect(response?.status).toBe(503);
    expect(await response?.text()).not.toMatch(/SECRET|\.ts/);
    expect(logged.mock.lastCall?.join()).toContain("SECRET of the token service");
  });

  it("answers 413 for a large request, and reads no more of it", async () => {
    const authorization = "Bearer ann";
    let sent = 0;
    const body = new ReadableStream<Uint8Array>({
      pull(controller) {
        sent += 65_536;
        controller.enqueue(new Uint8Array(65_536));
      },
    });
    const response = await answer(post({ authorization }, body), { maxBytes: 100_000 });
    expect(response?.status).toBe(413);
    expect(sent).toBeLessThan(1_000_000);
  });

  it("refuses the Origin of another site and another Host", async () => {
    const authorization = "Bearer ann";
    const origin = await answer(post({ authorization, origin: "https://evil.example" }));
    expect(origin?.status).toBe(403);
    const host = await answer(post({ authorization, host: "evil.example" }), {
      allowedHostnames: ["mcp.example.com"],
    });
    expect(host?.status).toBe(403);
  });

  it("refuses invalid options when it is made", () => {
    const made = (options: object) => () => serverFor(givenAgent(), options as never);
    expect(made({ authorize: undefined })).toThrow("Invalid authorize undefined");
    expect(made({ token: 1 })).toThrow('Unknown option "token" in the options of mcp()');
    expect(made({ path: "mcp" })).toThrow('Invalid path "mcp"');
    expect(made({ visibility: "mine" })).toThrow('expected "own" or "all"');
    expect(made({ maxWait: "1 hour" })).toThrow("Invalid maxWait");
    expect(made({ maxBytes: 0 })).toThrow("Invalid maxBytes 0");
    expect(made({ name: "" })).toThrow('Invalid name ""');
  });
});
