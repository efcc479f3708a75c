/** One id for a submission and its turn: in results, hooks, events and verbs, as Think has it. */

import { runInDurableObject } from "cloudflare:test";
import { getCurrentAgent } from "agents";
import { tool } from "ai";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import type { SubmitMessagesOptions } from "../../../src/submissions/submit-options.ts";
import type { SubmissionInspection } from "../../../src/submissions/types.ts";
import { ask, modelCalls, type Script } from "../../../src/testing/index.ts";
import { message, until } from "../../support/given.ts";
import { hold } from "../../support/held-model.ts";
import { acceptPrompt } from "../../support/prompts.ts";
import { type Agent, again, asked, ended, joined, running, submit } from "../../support/think.ts";
import type { ThinkAgent } from "../../support/think-agent.ts";
import { chatClient, eventsOf, givenPeer, type HookCall, PEERS, recordingHooks } from "./peers.ts";

const look = tool({ inputSchema: z.object({}), execute: async () => "nothing there" });

/** What `work` does in the agent itself, where its methods are no RPC calls. */
function inside<T>(agent: Agent, work: (agent: ThinkAgent) => T | Promise<T>): Promise<T> {
  return runInDurableObject<ThinkAgent, T>(agent, (object) => work(object));
}

/** The agent dies where it stands. */
async function crashed(agent: Agent): Promise<void> {
  await runInDurableObject<ThinkAgent, void>(agent, (_, ctx) => ctx.abort("crash")).catch(() => {});
}

function slow(rest: Script = {}): Script {
  return { id: crypto.randomUUID(), delayMs: 600_000, ...rest };
}

describe.each(PEERS)("L7: on %s", (peer) => {
  it("L7: submitMessages(), inspectSubmission() and waitForSubmission() return the submission's id as request id", async () => {
    const agent = givenPeer(peer, () => ({}));
    const accepted = await submit(agent, "hello");
    expect(accepted.requestId).toBe(accepted.submissionId);
    const end = await ended(agent, accepted.submissionId);
    expect(end.requestId).toBe(accepted.submissionId);
    const listed = await agent.listSubmissions();
    expect(listed.map(({ requestId }) => requestId)).toEqual([accepted.submissionId]);
  });

  it("L7: every hook of a turn gets the submission's id", async () => {
    const hookCalls: HookCall[] = [];
    const agent = givenPeer(peer, (self) => ({
      ...recordingHooks(self, hookCalls, "submission"),
      getTools: () => ({ look }),
    }));
    await submit(agent, { tool: { name: "look", input: {} } }, { submissionId: "s" });
    expect(await ended(agent, "s")).toMatchObject({ status: "completed" });
    const failing = { id: crypto.randomUUID(), fail: "bad request", status: 400 };
    await submit(agent, failing, { submissionId: "failing" });
    expect(await ended(agent, "failing")).toMatchObject({ status: "error" });
    const hooks = [
      ["beforeTurn", "s"],
      ["authorizeTurn", "s"],
      ["beforeToolCall", "s"],
      ["afterToolCall", "s"],
      ["onChatResponse", "s"],
      ["beforeTurn", "failing"],
      ["classifyChatError", "failing"],
      ["onChatResponse", "failing"],
    ];
    for (const [hook, requestId] of hooks) {
      expect(hookCalls).toContainEqual(expect.objectContaining({ hook, requestId }));
    }
    for (const { requestId, active, trigger } of hookCalls) {
      expect([active, trigger]).toEqual([expect.stringMatching(/^(s|failing)$/), "submission"]);
      expect([undefined, active]).toContain(requestId);
    }
  });

  it("L7: every event of a turn and of its submission has the submission's id", async () => {
    const agent = givenPeer(peer, () => ({}));
    using events = eventsOf(agent.name);
    await submit(agent, "hello", { submissionId: "s", idempotencyKey: "k" });
    await ended(agent, "s");
    const failing = { id: crypto.randomUUID(), fail: "bad request", status: 400 };
    await submit(agent, failing, { submissionId: "f" });
    const { error } = await ended(agent, "f");
    const submission = (id: string) => ({ submissionId: id, requestId: id });
    const turn = (id: string) => ({ requestId: id, trigger: "submission", admission: "queue" });
    await until(() => events.seen.filter(({ type }) => type === "chat:turn:finish").length === 2);
    const seen = events.seen.map(({ type, payload }) => {
      const { durationMs: _, generation: __, ...rest } = payload;
      return [type, rest];
    });
    const statuses = (id: string, status: string) => [
      "submission:status",
      { ...submission(id), status },
    ];
    for (const expected of [
      ["submission:create", { ...submission("s"), idempotencyKey: "k" }],
      statuses("s", "pending"),
      statuses("s", "running"),
      ["chat:turn:start", { ...turn("s"), continuation: false }],
      ["chat:turn:finish", { ...turn("s"), continuation: false, status: "completed" }],
      statuses("s", "completed"),
      statuses("f", "error"),
      ["submission:error", { ...submission("f"), error }],
      ["chat:turn:finish", { ...turn("f"), continuation: false, status: "error" }],
    ]) {
      expect(seen).toContainEqual(expected);
    }
    expect(seen.filter(([type]) => type === "submission:status")).toHaveLength(6);
  });

  it("L5: cancelChat() with the request id of submitMessages() aborts the turn, without an error text", async () => {
    const statuses: SubmissionInspection[] = [];
    const agent = givenPeer(peer, () => ({
      onSubmissionStatus: (submission: SubmissionInspection) => void statuses.push(submission),
    }));
    const script = slow({ first: "a beginning" });
    const { requestId } = await submit(agent, script);
    await asked(script);
    await inside(agent, (self) => self.cancelChat(requestId, "enough"));
    const end = await ended(agent, requestId);
    expect(end.status).toBe("aborted");
    expect(end.error).toBeUndefined();
    expect(statuses.map(({ status, error }) => [status, error])).toEqual([
      ["pending", undefined],
      ["running", undefined],
      ["aborted", undefined],
    ]);
  });

  it("L5: a turn that is cancelled without a reason, or reset, has no error text", async () => {
    const agent = givenPeer(peer, () => ({}));
    const [cancelled, reasoned, reset] = [slow(), slow(), slow()];
    await submit(agent, cancelled, { submissionId: "cancelled" });
    await asked(cancelled);
    await agent.cancelSubmission("cancelled");
    const first = await ended(agent, "cancelled");
    expect([first.status, first.error]).toEqual(["aborted", undefined]);
    await submit(agent, reasoned, { submissionId: "reasoned" });
    await asked(reasoned);
    await agent.cancelSubmission("reasoned", "enough");
    expect(await ended(agent, "reasoned")).toMatchObject({ status: "aborted", error: "enough" });
    await submit(agent, reset, { submissionId: "reset" });
    await asked(reset);
    await inside(agent, (self) => (self as unknown as { resetTurnState(): void }).resetTurnState());
    const last = await ended(agent, "reset");
    expect([last.status, last.error]).toEqual(["aborted", undefined]);
  });

  it("L1: an override of submitMessages() that calls super is called by callers and by runTurn()", async () => {
    const submitted: string[] = [];
    const agent = givenPeer(peer, (self) => {
      const base = self.submitMessages.bind(self);
      const submitMessages: typeof self.submitMessages = async (messages, options) => {
        const accepted = await base(messages, { ...options, metadata: { stamped: true } });
        submitted.push(accepted.submissionId);
        return accepted;
      };
      return { submitMessages };
    });
    const ids = await inside(agent, async (self) => [
      (await self.submitMessages([message("one")])).submissionId,
      (await self.runTurn({ mode: "submit", input: "two" })).submissionId,
    ]);
    expect(submitted).toEqual(ids);
    for (const id of ids) {
      expect(await ended(agent, id)).toMatchObject({
        status: "completed",
        metadata: { stamped: true },
      });
    }
  });

  it("L7: onSubmissionStatus() sees the request that has submitted", async () => {
    const seen: [string, string | undefined][] = [];
    const agent = givenPeer(peer, (self) => ({
      onRequest: async (request: Request) => {
        const { submissionId } = await self.submitMessages([message("hello")]);
        return Response.json([submissionId, request.url]);
      },
      onSubmissionStatus: ({ status }: SubmissionInspection) =>
        void seen.push([status, getCurrentAgent().request?.url]),
    }));
    const url = `http://agent/agents/agent/${agent.name}`;
    const [submissionId] = await (await agent.fetch(url)).json<[string]>();
    await ended(agent, submissionId);
    expect(seen).toEqual([
      ["pending", url],
      ["running", undefined],
      ["completed", undefined],
    ]);
  });
});

describe("L7: on DurableThink", () => {
  const THREADS = ["main", "side", "isolated"] as const;

  it.each(THREADS)(
    "L8: each attempt of a turn has the same id in hooks and in activeTurn (%s)",
    async (thread) => {
      const hookCalls: HookCall[] = [];
      const agent = givenPeer("DurableThink", (self) => ({
        ...recordingHooks(self, hookCalls, "submission"),
        getTools: () => ({ look }),
      }));
      const options = { submissionId: "s", thread };
      const flaky = {
        fail: "overloaded",
        status: 503,
        failTimes: 1,
        headers: { "retry-after": "0" },
      };
      const script = { id: crypto.randomUUID(), tool: { name: "look", input: {} }, ...flaky };
      await submit(agent, script, options);
      expect(await ended(agent, "s")).toMatchObject({ attempts: 2, requestId: "s" });
      expect(hookCalls.filter(({ hook }) => hook === "beforeTurn")).toHaveLength(2);
      for (const { requestId, active, trigger } of hookCalls) {
        expect([active, trigger]).toEqual(["s", "submission"]);
        expect([undefined, "s"]).toContain(requestId);
      }
      await submit(agent, "again", { submissionId: "other", thread });
      await ended(agent, "other");
      expect(await inside(agent, (self) => self.activeTurn)).toBeUndefined();
    },
  );

  it.each(THREADS)(
    "L5: cancelChat() aborts a turn of the thread %s by the id of its submission, and a pending one still runs",
    async (thread) => {
      const agent = givenPeer("DurableThink", () => ({}));
      const script = slow({ first: "a beginning" });
      await submit(agent, script, { submissionId: "s", thread });
      await asked(script);
      const next = { submissionId: "next", thread, notBefore: new Date(Date.now() + 3_000) };
      await submit(agent, "and then", next);
      await inside(agent, (self) => {
        self.cancelChat("next");
        self.cancelChat("unknown");
        self.cancelChat("s");
      });
      const end = await ended(agent, "s");
      expect([end.status, end.error, end.errorName]).toEqual(["aborted", undefined, undefined]);
      expect(await ended(agent, "next")).toMatchObject({ status: "completed" });
    },
  );

  it.each(["main", "side"])(
    "L5: cancelChat() from onSubmissionStatus() ends a turn that has no reply yet (%s)",
    async (thread) => {
      const agent = givenPeer("DurableThink", (self) => ({
        onSubmissionStatus: ({ status, requestId }: SubmissionInspection) => {
          if (status === "running" && requestId === "s") self.cancelChat(requestId);
        },
      }));
      await submit(agent, "not this", { submissionId: "s", thread });
      expect(await ended(agent, "s")).toMatchObject({ status: "aborted" });
      await submit(agent, "but this", { submissionId: "next", thread });
      expect(await ended(agent, "next")).toMatchObject({ status: "completed" });
    },
  );

  it("L7: a submission that has joined a turn keeps its id, and cancelChat() with it aborts that turn", async () => {
    const hookCalls: HookCall[] = [];
    const agent = givenPeer("DurableThink", (self) => ({
      ...recordingHooks(self, hookCalls, "submission"),
      getTools: () => ({
        look: tool({
          inputSchema: z.object({}),
          execute: async () => {
            const options = { submissionId: "steer", whenBusy: "steer" } as SubmitMessagesOptions;
            await self.submitMessages([message(slow())], options);
            return "more is asked";
          },
        }),
      }),
    }));
    await submit(
      agent,
      { id: crypto.randomUUID(), tool: { name: "look", input: {} } },
      { submissionId: "s" },
    );
    await joined(agent, "steer", "s");
    expect(await agent.inspectSubmission("steer")).toMatchObject({ requestId: "steer" });
    await inside(agent, (self) => self.cancelChat("steer"));
    expect(await ended(agent, "s")).toMatchObject({ status: "aborted", requestId: "s" });
    expect(await ended(agent, "steer")).toMatchObject({ status: "aborted", requestId: "steer" });
    expect(new Set(hookCalls.map(({ active }) => active))).toEqual(new Set(["s"]));
  });

  it("L7: a prompt of a workflow has its submission's id in hooks, and a new id when it is retried", async () => {
    const hookCalls: HookCall[] = [];
    const agent = givenPeer("DurableThink", (self) =>
      recordingHooks(self, hookCalls, "submission"),
    );
    const submissionId = await acceptPrompt(agent, {
      idempotencyKey: "k",
      run: "r",
      messages: [message({ id: crypto.randomUUID(), ignoreTools: true })],
      workflow: { name: "PROMPT_WORKFLOW", id: crypto.randomUUID(), stepName: "s" },
      answer: { schema: { type: "object" }, strategy: "tool" },
    });
    const end = await ended(agent, submissionId);
    expect([end.status, end.requestId]).toEqual(["error", submissionId]);
    const retried = await agent.retrySubmission(submissionId);
    expect(retried?.requestId).toBe(retried?.submissionId);
    await ended(agent, retried?.submissionId ?? "");
    const turns = hookCalls.filter(({ hook }) => hook === "beforeTurn");
    expect(turns.map(({ requestId }) => requestId)).toEqual([submissionId, retried?.submissionId]);
  });

  it("L7: every verb finds the submission by the id of the client's stream, also after a crash", async () => {
    const agent = givenPeer("DurableThink", (self) => ({
      onChatResponse: ({ requestId }: { requestId: string }) =>
        void attached.push(self.replyAttachments(requestId)),
    }));
    const attached: unknown[] = [];
    const client = await chatClient(agent);
    const [second, third] = [slow(), slow()];
    const { script: first, release } = hold({ first: "a" });
    await submit(agent, first, { submissionId: "s" });
    const stream = await until(() => client.frames[0]?.id);
    expect(stream).not.toBe("s");
    expect(await agent.inspectSubmission(stream)).toMatchObject({
      submissionId: "s",
      status: "running",
    });
    release();
    expect(await ended(agent, stream)).toMatchObject({ submissionId: "s", status: "completed" });
    expect(attached).toEqual([[]]);
    await submit(agent, { ...second, first: "b" }, { submissionId: "t" });
    const next = await until(() => client.frames.find(({ id }) => id !== stream)?.id);
    expect(await agent.cancelSubmission(next)).toMatchObject({
      outcome: "cancelled",
      submissionId: "t",
    });
    await submit(agent, { ...third, first: "c" }, { submissionId: "u" });
    const last = await until(
      () => client.frames.find(({ id }) => id !== stream && id !== next)?.id,
    );
    await inside(agent, (self) => self.cancelChat(last));
    expect(await ended(agent, last)).toMatchObject({ submissionId: "u", status: "aborted" });
    client.close();
    await crashed(agent);
    const later = again(agent);
    expect(await later.inspectSubmission(stream)).toMatchObject({ submissionId: "s" });
    expect(await later.retrySubmission(last)).toMatchObject({ accepted: true });
    expect(await later.deleteSubmission(stream)).toBe(true);
    expect(await later.inspectSubmission("s")).toBeNull();
    expect(await later.inspectSubmission(crypto.randomUUID())).toBeNull();
  });

  it.each(["again", "not yet"] as const)(
    "L5: cancelChat() ends an interrupted turn whose model is asked %s",
    async (when) => {
      const agent = givenPeer("DurableThink", () => ({}));
      const script = slow({ first: "a beginning" });
      await submit(agent, script, { submissionId: "s" });
      await asked(script);
      await crashed(agent);
      const next = again(agent);
      await running(next, "s");
      if (when === "again") await asked(script, 2);
      await inside(next, async (self) => {
        await self.submissionStats();
        self.cancelChat("s");
      });
      const end = await ended(next, "s");
      expect([end.status, end.error]).toEqual(["aborted", undefined]);
      await submit(next, "and then", { submissionId: "next" });
      expect(await ended(next, "next")).toMatchObject({ status: "completed" });
      expect(modelCalls.get(ask(script))).toBe(when === "again" ? 2 : 1);
    },
  );

  it("L6: a turn that Think's recovery continues has the submission's id, and Think's trigger", async () => {
    const hookCalls: HookCall[] = [];
    const recovered: unknown[] = [];
    const kept = new Set<string>();
    const agent = givenPeer("DurableThink", (self) => ({
      ...recordingHooks(self, hookCalls),
      onChatRecovery: async (ctx: { requestId: string; recoveryRootRequestId?: string }) => {
        recovered.push([ctx.requestId, ctx.recoveryRootRequestId]);
        return {};
      },
      chatRecovery: {
        shouldKeepRecovering: ({ requestId }: { requestId: string }) => {
          kept.add(requestId);
          return true;
        },
      },
    }));
    const { script, release } = hold({ first: "a beginning" });
    await submit(agent, script, { submissionId: "s" });
    await asked(script);
    await crashed(agent);
    hookCalls.length = 0;
    using events = eventsOf(agent.name);
    const second = again(agent);
    await running(second, "s");
    await asked(script, 2);
    await crashed(second);
    release();
    const third = again(agent);
    await running(third, "s");
    expect(await ended(third, "s")).toMatchObject({ status: "completed", requestId: "s" });
    expect(recovered).toEqual([
      ["s", "s"],
      ["s", "s"],
    ]);
    expect([...kept]).toEqual(["s"]);
    expect(hookCalls.length).toBeGreaterThan(2);
    for (const { requestId, active, trigger } of hookCalls) {
      expect([active, trigger]).toEqual(["s", expect.stringMatching(/^recovery-/)]);
      expect([undefined, "s"]).toContain(requestId);
    }
    const turns = events.seen.filter(({ type }) => type.startsWith("chat:turn:"));
    expect(turns.map(({ payload }) => payload.requestId)).toEqual(["s", "s", "s"]);
    const others = events.seen.filter(({ payload }) => payload.requestId !== undefined);
    expect(others.map(({ type }) => type)).toContain("chat:recovery:detected");
    expect(new Set(others.map(({ payload }) => payload.requestId))).toEqual(new Set(["s"]));
  });
});
