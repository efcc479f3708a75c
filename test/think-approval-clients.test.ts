/** Who is told of an approval, what can be asked of them, and what stands beside them. */

import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { describe, expect, it, vi } from "vitest";
import type { Approval, ApprovalMessage } from "../src/hosts/think/index.ts";
import type { ApprovalParams } from "./support/approval-workflow.ts";
import { givenWorkflow } from "./support/approvals.ts";
import { givenThink, refusal, until } from "./support/given.ts";
import { appHooks, ThinkAgent } from "./support/think-agent.ts";

type Message = { type: string; approval: ApprovalMessage["approval"] };

/** A client, and what it is sent of approvals. */
async function connected(agent: Pick<Fetcher, "fetch">, path: string) {
  const url = `http://agent/agents/think-agent/${path}`;
  const response = await agent.fetch(url, { headers: { Upgrade: "websocket" } });
  const socket = response.webSocket;
  if (!socket) throw new Error(`No web socket: ${response.status} ${await response.text()}`);
  const messages: Message[] = [];
  socket.accept();
  socket.addEventListener("message", ({ data }) => {
    const message = JSON.parse(String(data)) as Message;
    if (message.type === "perdure:approval") messages.push(message);
  });
  return { messages, close: () => socket.close() };
}

const SECRET = "a customer's IBAN";

describe("progress", () => {
  it("connected clients and the app are told of the question, the decision, the expiry and the cancellation", async () => {
    const told: Approval[] = [];
    const workflow = await givenWorkflow(
      [{ name: "first" }, { name: "second", timeout: 600, onTimeout: "reject" }, { name: "third" }],
      { onApproval: (approval) => void told.push(approval), shouldSendApproval: () => true },
    );
    const first = await workflow.pending();
    const client = await connected(workflow.agent, `${workflow.agent.name}`);
    const sent = () => client.messages.map(({ approval }) => approval as Approval);
    await workflow.agent.grantApproval(first.approvalId, { by: "ada" });
    await until(() => sent().some(({ status }) => status === "expired"));
    await until(() => told.length === 5);
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
    await until(() => told.length === 6);
    expect(told.map(({ status }) => status)).toEqual([
      "pending",
      ...seen.map(([, status]) => status),
    ]);
    client.close();
  });

  it("a client is sent the id, the status and the title, and nothing else, unless the app says so", async () => {
    const workflow = await givenWorkflow([
      { name: "refund", title: "Refund", data: { iban: SECRET }, schema: "refund" },
    ]);
    const { approvalId } = await workflow.pending();
    const client = await connected(workflow.agent, `${workflow.agent.name}`);
    const payload = { amount: 10, note: SECRET };
    await workflow.agent.grantApproval(approvalId, { payload, by: SECRET, reason: SECRET });
    await workflow.output();
    await until(() => client.messages.length === 1);
    const approval = { approvalId, status: "approved", title: "Refund" };
    expect(client.messages).toEqual([{ type: "perdure:approval", approval }]);
    client.close();
  });

  it("the app chooses the clients that are sent all of it, one by one", async () => {
    let asked = 0;
    const workflow = await givenWorkflow([{ name: "gate", data: SECRET }], {
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
    await workflow.agent.rejectApproval(approvalId);
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
  ])("a choice that %s sends the contents to nobody, and the app is told", async (_, choose) => {
    const logged = vi.spyOn(console, "error").mockImplementation(() => {});
    const told: Approval[] = [];
    const workflow = await givenWorkflow([{ name: "gate", data: SECRET }], {
      shouldSendApproval: choose,
      onApproval: (approval) => void told.push(approval),
    });
    const { approvalId } = await workflow.pending();
    const client = await connected(workflow.agent, `${workflow.agent.name}`);
    await workflow.agent.rejectApproval(approvalId);
    await until(() => client.messages.length > 0 && told.length === 2);
    expect(JSON.stringify(client.messages)).not.toContain(SECRET);
    logged.mockRestore();
    client.close();
  });

  it("the clients of a sub-agent are told of its own", async () => {
    const parent = givenThink();
    const atChild = <T>(work: (child: ThinkAgent) => Promise<T>) =>
      runInDurableObject<ThinkAgent, T>(parent, async (agent) =>
        work((await agent.subAgent(ThinkAgent, "child")) as unknown as ThinkAgent),
      );
    appHooks.set("child", { shouldSendApproval: (_, { id }) => id === "admin" });
    await atChild((child) => child.listApprovals());
    const path = `${parent.name}/sub/think-agent/child`;
    const admin = await connected(parent, `${path}?_pk=admin`);
    const other = await connected(parent, `${path}?_pk=other`);
    const approvals = [{ name: "gate", data: SECRET }];
    await atChild((child) => child.runWorkflow("APPROVAL_WORKFLOW", { approvals }));
    await until(() => other.messages.length === 1);
    await atChild(async (child) => {
      const [approval] = await child.listApprovals();
      await child.rejectApproval(approval?.approvalId ?? "");
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

  it("the app may decide by itself when it is told", async () => {
    const workflow = await givenWorkflow([{ name: "first" }, { name: "second" }], {
      onApproval: async ({ approvalId, status, workflow: { stepName } }, agent) => {
        if (status !== "pending") return;
        if (stepName === "first") await agent.grantApproval(approvalId, { by: "the app" });
        else await agent.rejectApproval(approvalId, { by: "the app" });
      },
    });
    expect((await workflow.output()).outcomes).toMatchObject([
      { approved: true, by: "the app" },
      { approved: false, by: "the app" },
    ]);
  });

  it("a hook that throws is logged, and changes nothing", async () => {
    const logged = vi.spyOn(console, "error").mockImplementation(() => {});
    const workflow = await givenWorkflow([{ name: "gate" }], {
      onApproval: () => {
        throw new Error("the app's own");
      },
    });
    const { approvalId } = await workflow.pending();
    await workflow.agent.grantApproval(approvalId);
    expect((await workflow.output()).outcomes).toMatchObject([{ approved: true }]);
    const ours = logged.mock.calls.filter((call) => String(call[1]).includes("the app's own"));
    expect(ours).toHaveLength(2);
    logged.mockRestore();
  });

  it("the agents' channel for observability is told", async () => {
    const seen: { type: string; name: string; payload: object }[] = [];
    const note = (message: unknown) => void seen.push(message as (typeof seen)[number]);
    subscribe("agents:lifecycle", note);
    const workflow = await givenWorkflow([{ name: "gate" }]);
    const { approvalId: gateId } = await workflow.pending();
    await workflow.agent.rejectApproval(gateId);
    await workflow.output();
    unsubscribe("agents:lifecycle", note);
    const { name } = workflow.agent;
    expect(
      seen.filter((event) => event.name === name && event.type.startsWith("gate")),
    ).toMatchObject([
      { type: "gate:create", payload: { gateId, kind: "approval" } },
      { type: "gate:rejected", payload: { gateId, kind: "approval" } },
    ]);
  });
});

it("waitForApproval() and approveWorkflow() of agents work beside it", async () => {
  const workflow = await givenWorkflow([{ name: "gate" }], { classic: true });
  const { approvalId } = await workflow.pending();
  // It is for the other one, and waits for it.
  await workflow.agent.approveWorkflow(workflow.id, { metadata: { by: "eve" } });
  expect(await workflow.agent.inspectApproval(approvalId)).toMatchObject({ status: "pending" });
  await workflow.agent.rejectApproval(approvalId);
  expect(await workflow.output()).toMatchObject({
    outcomes: [{ approved: false }],
    metadata: { by: "eve" },
  });
});

describe("bad input is refused at the call, and nothing is stored", () => {
  it.each<[object, string]>([
    [{ schema: "date" }, "got a schema that has no JSON Schema form"],
    [{ timeout: 0 }, "got 0 as timeout"],
    [{ title: " " }, 'got " " as title'],
    [{ title: "x".repeat(200_001) }, "got a title of 200001 bytes"],
    [{ key: 7 }, "got 7 as key"],
    [{ color: "red" }, 'unknown option "color"'],
    [{ data: "x".repeat(1_000_001) }, "got data of 1000003 bytes"],
    [{ onTimeout: "explode" }, 'got "explode" as onTimeout'],
    [{ onTimeout: "approve", schema: "refund" }, "with a schema { approve: payload }"],
    [{ onTimeout: { approve: { amount: 1 } } }, 'without a schema "approve"'],
    [{ onTimeout: { approve: { amount: 13 } }, schema: "refund" }, "amount: 13 brings bad luck"],
    [
      { onTimeout: { approve: { amount: 1, note: "x".repeat(1_000_000) } }, schema: "refund" },
      "got a payload in onTimeout of 1000022 bytes",
    ],
  ])("step.approval() with %j", async (options, text) => {
    const workflow = await givenWorkflow([
      { name: "gate", ...options } as ApprovalParams["approvals"][number],
    ]);
    const error = await refusal(workflow.output());
    expect(error.message).toContain("errored");
    expect(error.message).toContain(text);
    expect(error.message).toContain('step.approval("gate")');
    expect(await workflow.agent.listApprovals()).toEqual([]);
    expect((await env.APPROVAL_WORKFLOW.get(workflow.id)).id).toBe(workflow.id);
  });
});
