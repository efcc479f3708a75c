/** Which clients are sent approvals and submissions, invalid requests for approvals, and agents' own approvals. */

import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { readUIMessageStream, type UIMessage, type UIMessageChunk } from "ai";
import { describe, expect, it, vi } from "vitest";
import { capabilitiesOf } from "../../../src/hosts/public.ts";
import type {
  Approval,
  ApprovalMessage,
  ReplyMessage,
  SubmissionMessage,
} from "../../../src/hosts/think/index.ts";
import { givenThink, refusal, until } from "../../support/given.ts";
import { hold } from "../../support/held-model.ts";
import { type Agent, ended, givenAgent, submit } from "../../support/think.ts";
import { type AppHooks, appHooks, ThinkAgent } from "../../support/think-agent.ts";
import type { ApprovalParams } from "../../support/workflows/approval-workflow.ts";
import { givenWorkflow } from "../../support/workflows/approvals.ts";

type Message = { type: string; approval: ApprovalMessage["approval"] };

/** A client, and what it is sent of approvals, or of submissions. */
async function connected<Sent extends { type: string } = Message>(
  agent: Pick<Fetcher, "fetch">,
  path: string,
  types: readonly string[] = ["perdure:approval"],
) {
  const url = `http://agent/agents/think-agent/${path}`;
  const response = await agent.fetch(url, { headers: { Upgrade: "websocket" } });
  const socket = response.webSocket;
  if (!socket) throw new Error(`No web socket: ${response.status} ${await response.text()}`);
  const messages: Sent[] = [];
  socket.accept();
  socket.addEventListener("message", ({ data }) => {
    const message = JSON.parse(String(data)) as Sent;
    if (types.includes(message.type)) messages.push(message);
  });
  return { messages, close: () => socket.close() };
}

const SECRET = "a customer's IBAN";

describe("approvals", () => {
  it("W3: connected clients and onApproval() get the request, the decision, the expiry and the cancellation", async () => {
    const approvals: Approval[] = [];
    const workflow = await givenWorkflow(
      [{ name: "first" }, { name: "second", timeout: 600, onTimeout: "reject" }, { name: "third" }],
      { onApproval: (approval) => void approvals.push(approval), shouldSendApproval: () => true },
    );
    const first = await workflow.pending();
    const client = await connected(workflow.agent, `${workflow.agent.name}`);
    const sent = () => client.messages.map(({ approval }) => approval as Approval);
    await capabilitiesOf(workflow.agent).approvals.grant(first.approvalId, { by: "ada" });
    await until(() => sent().some(({ status }) => status === "expired"));
    await until(() => approvals.length === 5);
    await workflow.agent.terminate(workflow.id);
    await until(() => sent().length === 5);
    const seen = sent().map(({ workflow: { stepName }, status }) => [stepName, status]);
    expect(seen).toEqual([
      ["first", "approved"],
      ["second", "pending"],
      ["second", "expired"],
      ["third", "pending"],
      ["third", "cancelled"],
    ]);
    expect(sent()[0]).toMatchObject({ approvalId: first.approvalId, by: "ada" });
    await until(() => approvals.length === 6);
    expect(approvals.map(({ status }) => status)).toEqual([
      "pending",
      ...seen.map(([, status]) => status),
    ]);
    client.close();
  });

  it("W3: by default a client is sent only the id, the status and the title", async () => {
    const workflow = await givenWorkflow([
      { name: "refund", title: "Refund", data: { iban: SECRET }, schema: "refund" },
    ]);
    const { approvalId } = await workflow.pending();
    const client = await connected(workflow.agent, `${workflow.agent.name}`);
    const payload = { amount: 10, note: SECRET };
    await capabilitiesOf(workflow.agent).approvals.grant(approvalId, {
      payload,
      by: SECRET,
      reason: SECRET,
    });
    await workflow.output();
    await until(() => client.messages.length === 1);
    const approval = { approvalId, status: "approved", title: "Refund" };
    expect(client.messages).toEqual([{ type: "perdure:approval", approval }]);
    client.close();
  });

  it("W3: shouldSendApproval() chooses each client that is sent the whole approval", async () => {
    let asked = 0;
    const workflow = await givenWorkflow([{ name: "wait", data: SECRET }], {
      shouldSendApproval: ({ data }, { id }) => {
        asked++;
        return data === SECRET && id === "admin";
      },
    });
    const { approvalId } = await workflow.pending();
    const { name } = workflow.agent;
    const [admin, other] = [
      await connected(workflow.agent, `${name}?_pk=admin`),
      await connected(workflow.agent, `${name}?_pk=other`),
    ];
    await capabilitiesOf(workflow.agent).approvals.reject(approvalId);
    await until(() => admin.messages.length > 0 && other.messages.length > 0);
    await workflow.output();
    expect(asked).toBe(2);
    expect(admin.messages).toMatchObject([{ approval: { status: "rejected", data: SECRET } }]);
    expect(other.messages.map(({ approval }) => approval)).toEqual([
      { approvalId, status: "rejected", title: null },
    ]);
    admin.close();
    other.close();
  });

  it.each<[string, () => boolean]>([
    [
      "throws",
      () => {
        throw new Error("no session");
      },
    ],
    ["returns a promise", () => Promise.resolve(true) as unknown as boolean],
  ])(
    "W3: a shouldSendApproval() that %s sends the contents to no client, and onApproval() is called",
    async (_, choose) => {
      const logged = vi.spyOn(console, "error").mockImplementation(() => {});
      const approvals: Approval[] = [];
      const workflow = await givenWorkflow([{ name: "wait", data: SECRET }], {
        shouldSendApproval: choose,
        onApproval: (approval) => void approvals.push(approval),
      });
      const { approvalId } = await workflow.pending();
      const client = await connected(workflow.agent, `${workflow.agent.name}`);
      await capabilitiesOf(workflow.agent).approvals.reject(approvalId);
      await until(() => client.messages.length > 0 && approvals.length === 2);
      expect(JSON.stringify(client.messages)).not.toContain(SECRET);
      logged.mockRestore();
      client.close();
    },
  );

  it("W3: the clients of a sub-agent are sent its approvals", async () => {
    const parent = givenThink();
    const atChild = <T>(work: (child: ThinkAgent) => Promise<T>) =>
      runInDurableObject<ThinkAgent, T>(parent, async (agent) =>
        work((await agent.subAgent(ThinkAgent, "child")) as unknown as ThinkAgent),
      );
    appHooks.set("child", { shouldSendApproval: (_, { id }) => id === "admin" });
    await atChild((child) => capabilitiesOf(child).approvals.list());
    const path = `${parent.name}/sub/think-agent/child`;
    const admin = await connected(parent, `${path}?_pk=admin`);
    const other = await connected(parent, `${path}?_pk=other`);
    const approvals = [{ name: "wait", data: SECRET }];
    await atChild((child) => child.runWorkflow("APPROVAL_WORKFLOW", { approvals }));
    await until(() => other.messages.length === 1);
    await atChild(async (child) => {
      const {
        items: [approval],
      } = await capabilitiesOf(child).approvals.list();
      await capabilitiesOf(child).approvals.reject(approval?.approvalId ?? "");
    });
    await until(() => admin.messages.length === 2 && other.messages.length === 2);
    expect(other.messages.map(({ approval }) => approval.status)).toEqual(["pending", "rejected"]);
    expect(JSON.stringify(other.messages)).not.toContain(SECRET);
    expect(admin.messages).toMatchObject([
      { approval: { data: SECRET } },
      { approval: { data: SECRET } },
    ]);
    appHooks.delete("child");
    admin.close();
    other.close();
  });

  it("W3: the app can decide in onApproval()", async () => {
    const workflow = await givenWorkflow([{ name: "first" }, { name: "second" }], {
      onApproval: async ({ approvalId, status, workflow: { stepName } }, agent) => {
        if (status !== "pending") return;
        if (stepName === "first") await agent.approvals.grant(approvalId, { by: "the app" });
        else await agent.approvals.reject(approvalId, { by: "the app" });
      },
    });
    expect((await workflow.output()).outcomes).toMatchObject([
      { approved: true, by: "the app" },
      { approved: false, by: "the app" },
    ]);
  });

  it("W3: an onApproval() that throws is logged and changes nothing", async () => {
    const logged = vi.spyOn(console, "error").mockImplementation(() => {});
    const workflow = await givenWorkflow([{ name: "wait" }], {
      onApproval: () => {
        throw new Error("the app's own");
      },
    });
    const { approvalId } = await workflow.pending();
    await capabilitiesOf(workflow.agent).approvals.grant(approvalId);
    expect((await workflow.output()).outcomes).toMatchObject([{ approved: true }]);
    const ours = logged.mock.calls.filter((call) => String(call[1]).includes("the app's own"));
    expect(ours).toHaveLength(2);
    logged.mockRestore();
  });

  it("W3: agents' observability gets an event", async () => {
    const seen: { type: string; name: string; payload: object }[] = [];
    const note = (message: unknown) => void seen.push(message as (typeof seen)[number]);
    subscribe("agents:lifecycle", note);
    const workflow = await givenWorkflow([{ name: "wait" }]);
    const { approvalId: waitId } = await workflow.pending();
    await capabilitiesOf(workflow.agent).approvals.reject(waitId);
    await workflow.output();
    unsubscribe("agents:lifecycle", note);
    const { name } = workflow.agent;
    expect(
      seen.filter((event) => event.name === name && event.type.startsWith("wait")),
    ).toMatchObject([
      { type: "wait:create", payload: { waitId, kind: "approval" } },
      { type: "wait:rejected", payload: { waitId, kind: "approval" } },
    ]);
  });
});

it("W3: waitForApproval() and approveWorkflow() of agents still work", async () => {
  const workflow = await givenWorkflow([{ name: "wait" }], { classic: true });
  const { approvalId } = await workflow.pending();
  // It is for the other one, and waits for it.
  await workflow.agent.approveWorkflow(workflow.id, { metadata: { by: "eve" } });
  expect(await capabilitiesOf(workflow.agent).approvals.inspect(approvalId)).toMatchObject({
    status: "pending",
  });
  await capabilitiesOf(workflow.agent).approvals.reject(approvalId);
  expect(await workflow.output()).toMatchObject({
    outcomes: [{ approved: false }],
    metadata: { by: "eve" },
  });
});

describe("an invalid request is refused at the call, and nothing is stored", () => {
  it.each<[object, string]>([
    [{ schema: "date" }, "Invalid schema: it has no JSON Schema form"],
    [{ timeout: 0 }, "Invalid timeout 0"],
    [{ title: " " }, 'Invalid title " ": expected a non-empty string.'],
    [
      { title: "x".repeat(200_001) },
      "Invalid title of 200001 bytes: expected at most 200000 bytes.",
    ],
    [{ key: 7 }, "Invalid key 7"],
    [{ color: "red" }, 'Unknown option "color" in options'],
    [{ data: "x".repeat(1_000_001) }, "Invalid data of 1000003 bytes"],
    [{ onTimeout: "explode" }, 'Invalid onTimeout "explode": expected'],
    [{ onTimeout: "approve", schema: "refund" }, "with a schema { approve: payload }"],
    [{ onTimeout: { approve: { amount: 1 } } }, 'without a schema "approve"'],
    [{ onTimeout: { approve: { amount: 13 } }, schema: "refund" }, "amount: 13 brings bad luck"],
    [
      { onTimeout: { approve: { amount: 1, note: "x".repeat(1_000_000) } }, schema: "refund" },
      "Invalid onTimeout.approve of 1000022 bytes",
    ],
  ])("step.approval() with %j", async (options, text) => {
    const workflow = await givenWorkflow([
      { name: "wait", ...options } as ApprovalParams["approvals"][number],
    ]);
    const error = await refusal(workflow.output());
    expect(error.message).toContain("errored");
    expect(error.message).toContain(text);
    expect(error.message).toContain('step.approval("wait")');
    expect((await capabilitiesOf(workflow.agent).approvals.list()).items).toEqual([]);
    expect((await env.APPROVAL_WORKFLOW.get(workflow.id)).id).toBe(workflow.id);
  });
});

describe("submissions", () => {
  type Sent = SubmissionMessage | ReplyMessage;
  const TYPES = ["perdure:submission", "perdure:reply"];
  const client = (agent: Agent, query = "") =>
    connected<Sent>(agent, `${agent.name}${query}`, TYPES);
  const given = (shouldSendSubmission: NonNullable<AppHooks["shouldSendSubmission"]>) =>
    givenAgent({ shouldSendSubmission });
  const statusesOf = (sent: readonly Sent[]) =>
    sent.flatMap((message) => (message.type === "perdure:submission" ? [message.submission] : []));
  const repliesOf = (sent: readonly Sent[]) =>
    sent.flatMap((message) => (message.type === "perdure:reply" ? [message] : []));
  const isOver =
    ({ messages }: { messages: readonly Sent[] }) =>
    () =>
      statusesOf(messages).some(({ status }) => !["pending", "running"].includes(status));

  /** What a client makes of the chunks, as the docs say. */
  async function read(replies: readonly ReplyMessage[]): Promise<UIMessage | undefined> {
    const latest = replies.slice(replies.findLastIndex(({ from }) => from === 0));
    const stream = new ReadableStream<UIMessageChunk>({
      start(controller) {
        for (const { chunks } of latest) for (const chunk of chunks) controller.enqueue(chunk);
        controller.close();
      },
    });
    let message: UIMessage | undefined;
    for await (const state of readUIMessageStream({ stream })) message = state;
    return message;
  }

  it.each(["side", "isolated"])(
    "L2: a client sees the statuses and the reply of a turn (%s), in their order",
    async (thread) => {
      const agent = given(() => true);
      const { messages, close } = await client(agent);
      const script = { tool: { name: "charge", input: { account: crypto.randomUUID() } } };
      const { submissionId } = await submit(agent, { ...script, text: "It is paid." }, { thread });
      await until(() => statusesOf(messages).some(({ status }) => status === "completed"));
      expect(statusesOf(messages).map(({ status }) => status)).toEqual([
        "pending",
        "running",
        "completed",
      ]);
      expect(messages.at(-1)).toMatchObject({
        submission: { submissionId, output: "It is paid." },
      });
      const replies = repliesOf(messages);
      expect(replies[0]).toMatchObject({ submissionId, thread, attempt: 1, from: 0 });
      const reply = await read(replies);
      expect(reply?.parts.map(({ type }) => type)).toEqual([
        "step-start",
        "tool-charge",
        "step-start",
        "text",
      ]);
      expect(reply?.parts.at(-1)).toMatchObject({ text: "It is paid." });
      expect(messages.findLastIndex(({ type }) => type === "perdure:reply")).toBeLessThan(
        messages.length - 1,
      );
      close();
    },
  );

  it("L2: a client does not see the call of the final answer, and gets the output with the end", async () => {
    const agent = given(() => true);
    const { messages, close } = await client(agent);
    const output = { type: "object", properties: { city: { type: "string" } } };
    await submit(agent, { answer: { city: "Porto" } }, { thread: "side", output });
    await until(isOver({ messages }));
    expect(JSON.stringify(repliesOf(messages))).not.toContain("Porto");
    expect(statusesOf(messages).at(-1)).toMatchObject({ output: { city: "Porto" } });
    close();
  });

  it("L2: shouldSendSubmission() chooses each client, and whether it sees the reply", async () => {
    const agent = given(({ metadata }, { id }) => {
      if (id === "throws") throw new Error("no session");
      if (id === "promise") return Promise.resolve(true) as unknown as boolean;
      return id === "status" ? "status" : id === metadata?.user;
    });
    const logged = vi.spyOn(console, "error").mockImplementation(() => {});
    const ids = ["ada", "eve", "status", "throws", "promise"];
    const clients = await Promise.all(ids.map((id) => client(agent, `?_pk=${id}`)));
    const [ada, eve, status, ...none] = clients;
    const metadata = { user: "ada" };
    const { submissionId } = await submit(agent, "x", { thread: "side", metadata });
    await ended(agent, submissionId);
    await until(() => ada && isOver(ada)() && status && isOver(status)());
    expect(repliesOf(ada?.messages ?? [])).not.toEqual([]);
    expect(statusesOf(status?.messages ?? [])).toHaveLength(3);
    expect(repliesOf(status?.messages ?? [])).toEqual([]);
    for (const other of [eve, ...none]) expect(other?.messages).toEqual([]);
    expect(logged.mock.calls.flat().map(String).join()).toContain("client throws");
    logged.mockRestore();
    for (const { close } of clients) close();
  });

  it("L2: by default no client is sent submissions, and Think streams the agent's own conversation", async () => {
    const silent = givenAgent();
    const [unchosen, own] = [await client(silent), given(() => true)];
    await ended(silent, (await submit(silent, "x", { thread: "side" })).submissionId);
    expect(unchosen.messages).toEqual([]);
    const seer = await client(own);
    await ended(own, (await submit(own, "x")).submissionId);
    await until(isOver(seer));
    expect(repliesOf(seer.messages)).toEqual([]);
    unchosen.close();
    seer.close();
  });

  it("L6: a client that connects later, or again, is sent the reply so far; another attempt starts a new reply", async () => {
    const agent = given(() => true);
    const first = await client(agent, "?_pk=a");
    const tools = [{ name: "charge", input: { account: crypto.randomUUID() } }];
    const { script, release } = hold({ first: "Let me see. ", tools, text: "Done." });
    await submit(agent, script, { thread: "side" });
    await until(() => repliesOf(first.messages).length > 0);
    first.close();
    const again = await client(agent, "?_pk=a");
    release();
    await until(isOver(again));
    const replies = repliesOf(again.messages);
    expect(replies[0]).toMatchObject({ from: 0 });
    const reply = await read(replies);
    expect(JSON.stringify(reply?.parts)).toContain("Let me see. ");
    expect(reply?.parts.at(-1)).toMatchObject({ text: expect.stringContaining("Done.") });
    // Each client is sent each chunk once.
    for (const [index, { from }] of replies.slice(1).entries()) {
      const before = replies.slice(0, index + 1).flatMap(({ chunks }) => chunks).length;
      expect(from).toBe(before);
    }
    await submit(
      agent,
      { first: "I begin", fail: "503", failTimes: 1, status: 503 },
      { thread: "side" },
    );
    await until(() => repliesOf(again.messages).some(({ attempt }) => attempt === 2));
    expect(repliesOf(again.messages).find(({ attempt }) => attempt === 2)).toMatchObject({
      from: 0,
    });
    again.close();
  });

  it("L9: a reply is streamed up to 1 MiB, and a submission over 1 MiB is sent without its output", async () => {
    const agent = given(() => true);
    const { messages, close } = await client(agent);
    const text = "x".repeat(1_100_000);
    await submit(agent, { text }, { thread: "side", metadata: { of: "this" } });
    await until(isOver({ messages }));
    const replies = repliesOf(messages);
    expect(replies.at(-1)).toMatchObject({ isCut: true });
    expect(JSON.stringify(replies).length).toBeLessThan(1_100_000);
    const end = messages.at(-1) as SubmissionMessage;
    expect(end).toMatchObject({ isCut: true, submission: { status: "completed" } });
    expect(end.submission).not.toHaveProperty("output");
    expect(end.submission).not.toHaveProperty("metadata");
    close();
  });

  it("L9: no turn waits for a client that does not read", async () => {
    const agent = given(() => true);
    const url = `http://agent/agents/think-agent/${agent.name}`;
    // Its side is never accepted, so that nothing is ever read.
    const { webSocket } = await agent.fetch(url, { headers: { Upgrade: "websocket" } });
    const { messages, close } = await client(agent);
    for (let n = 0; n < 5; n++) {
      const text = "x".repeat(200_000);
      const { submissionId } = await submit(agent, { text }, { thread: "side" });
      expect(await ended(agent, submissionId)).toMatchObject({ status: "completed" });
    }
    await until(
      () => statusesOf(messages).filter(({ status }) => status === "completed").length === 5,
    );
    webSocket?.accept();
    webSocket?.close();
    close();
  });

  it("L2: the clients of a sub-agent are sent its submissions, each chunk once", async () => {
    const parent = givenThink();
    const work = <T>(run: (child: ThinkAgent) => Promise<T>) =>
      runInDurableObject<ThinkAgent, T>(parent, async (agent) =>
        run((await agent.subAgent(ThinkAgent, "seen")) as unknown as ThinkAgent),
      );
    appHooks.set("seen", { shouldSendSubmission: () => true });
    await work((child) => capabilitiesOf(child).approvals.list());
    const path = `${parent.name}/sub/think-agent/seen`;
    const { messages, close } = await connected<Sent>(parent, path, TYPES);
    const { script, release } = hold({ first: "Hm. ", text: "Done." });
    const asked = {
      id: "m",
      role: "user" as const,
      parts: [{ type: "text" as const, text: JSON.stringify(script) }],
    };
    await work((child) => child.submitMessages([asked], { thread: "side" }));
    await until(() => repliesOf(messages).length > 0);
    release();
    await until(isOver({ messages }));
    const replies = repliesOf(messages);
    expect(replies.filter(({ from }) => from === 0)).toHaveLength(1);
    expect(replies.length).toBeGreaterThan(1);
    const said = (await read(replies))?.parts.map((part) =>
      part.type === "text" ? part.text : "",
    );
    expect(said?.join("")).toBe("Hm. Done.");
    appHooks.delete("seen");
    close();
  });
});
