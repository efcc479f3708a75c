/** Who is told of an approval, what can be asked of them, and what stands beside them. */

import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { describe, expect, it, vi } from "vitest";
import type { Approval } from "../src/hosts/think/index.ts";
import type { ApprovalParams } from "./support/approval-workflow.ts";
import { givenWorkflow } from "./support/approvals.ts";
import { givenThink, refusal, until } from "./support/given.ts";
import { ThinkAgent } from "./support/think-agent.ts";

describe("progress", () => {
  it("connected clients and the app are told of the question, the decision, the expiry and the cancellation", async () => {
    const told: Approval[] = [];
    const workflow = await givenWorkflow(
      [{ name: "first" }, { name: "second", timeout: 600, onTimeout: "reject" }, { name: "third" }],
      { onApproval: (approval) => void told.push(approval) },
    );
    const messages: { type: string; approval: Approval }[] = [];
    const first = await workflow.pending();
    const response = await workflow.agent.fetch(
      `http://agent/agents/think-agent/${workflow.agent.name}`,
      { headers: { Upgrade: "websocket" } },
    );
    const socket = response.webSocket;
    if (!socket) throw new Error(`No web socket: ${response.status} ${await response.text()}`);
    socket.accept();
    socket.addEventListener("message", ({ data }) => {
      const message = JSON.parse(String(data)) as { type: string; approval: Approval };
      if (message.type === "perdure:approval") messages.push(message);
    });
    await workflow.agent.grantApproval(first.approvalId, { by: "ada" });
    await until(() => messages.some(({ approval }) => approval.status === "expired"));
    await until(() => told.length === 5);
    await workflow.agent.terminate(workflow.id);
    await until(() => messages.length === 5);
    const seen = messages.map(({ approval }) => [approval.workflow.stepName, approval.status]);
    expect(seen).toEqual([
      ["first", "approved"],
      ["second", "pending"],
      ["second", "expired"],
      ["third", "pending"],
      ["third", "cancelled"],
    ]);
    expect(messages[0]).toMatchObject({ approval: { approvalId: first.approvalId, by: "ada" } });
    await until(() => told.length === 6);
    expect(told.map(({ status }) => status)).toEqual([
      "pending",
      ...seen.map(([, status]) => status),
    ]);
    socket.close();
  });

  it("the clients of a sub-agent are told of its own", async () => {
    const parent = givenThink();
    const { name } = parent;
    const path = `agents/think-agent/${name}/sub/think-agent/child`;
    const atChild = <T>(work: (child: ThinkAgent) => Promise<T>) =>
      runInDurableObject<ThinkAgent, T>(parent, async (agent) =>
        work((await agent.subAgent(ThinkAgent, "child")) as unknown as ThinkAgent),
      );
    await atChild((child) => child.listApprovals());
    const response = await parent.fetch(`http://agent/${path}`, {
      headers: { Upgrade: "websocket" },
    });
    const socket = response.webSocket;
    if (!socket) throw new Error(`No web socket: ${response.status} ${await response.text()}`);
    const statuses: string[] = [];
    socket.accept();
    socket.addEventListener("message", ({ data }) => {
      const message = JSON.parse(String(data)) as { type: string; approval: Approval };
      if (message.type === "perdure:approval") statuses.push(message.approval.status);
    });
    const approvals = [{ name: "gate" }];
    await atChild((child) => child.runWorkflow("APPROVAL_WORKFLOW", { approvals }));
    await until(() => statuses.length === 1);
    await atChild(async (child) => {
      const [approval] = await child.listApprovals();
      await child.rejectApproval(approval?.approvalId ?? "");
    });
    await until(() => statuses.length === 2);
    expect(statuses).toEqual(["pending", "rejected"]);
    socket.close();
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
