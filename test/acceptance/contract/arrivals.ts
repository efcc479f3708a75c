/** I1 to I7: arrivals, by signed requests to the receiver of the Worker. */

import { createExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { createHmac } from "node:crypto";
import { expect, it } from "vitest";
import { MAX_ARRIVAL_BYTES } from "../app/features.ts";
import { type GivenAgent, givenAgent, until } from "../app/given.ts";
import type { Host } from "../app/hosts.ts";
import { effects, refusals, workflowRuns } from "../app/receivers.ts";
import { type ArrivalBody, receiveWebhook, SOURCE } from "../app/webhooks.ts";

type Sent = Partial<ArrivalBody> & {
  readonly id: string;
  readonly secret?: string;
  /** Seconds since the epoch. */
  readonly time?: number;
};

/** Sends a request, signed as the sender does. Its id is also the key of its effects, unless it has another one. */
export async function send(agent: GivenAgent, { id, secret, time, ...fields }: Sent) {
  const key = `${agent.name}-${id}`;
  const body = JSON.stringify({
    host: agent.host.title,
    agent: agent.name,
    calls: [],
    key,
    ...fields,
  });
  const now = String(time ?? Math.floor(Date.now() / 1_000));
  const { HOOK_SECRET } = env as unknown as { HOOK_SECRET: string };
  const signature = createHmac("sha256", secret ?? HOOK_SECRET)
    .update(`${now}.${body}`)
    .digest("hex");
  const headers = { "x-signature": signature, "x-time": now, "x-id": id, "x-type": "paid" };
  const request = new Request(`https://app.example/hooks/${SOURCE}`, {
    method: "POST",
    body,
    headers: { "content-type": "application/json", ...headers },
  });
  const response = await receiveWebhook(request, env, createExecutionContext());
  if (!response) throw new Error("The receiver has no such path");
  const { verdict } = (await response.json()) as { verdict?: string };
  return { status: response.status, verdict, key };
}

export function arrivalsContract(host: Host): void {
  const given = () => givenAgent(host);

  it("I1: an arrival starts its calls once, and a duplicate gets the recorded result, also after a crash", async () => {
    const agent = given();
    const calls: ArrivalBody["calls"] = ["submit", "note", "start"];
    const { verdict, key } = await send(agent, { id: "one", calls });
    expect(verdict).toBe("accepted");
    expect(await send(agent, { id: "one", calls })).toMatchObject({ verdict: "duplicate" });
    await agent.crash();
    expect(await send(agent, { id: "one", calls })).toMatchObject({ verdict: "duplicate" });
    expect(effects.count(key)).toBe(1);
    const submissions = await (await agent.verbs()).listSubmissions();
    expect(submissions).toHaveLength(1);
    expect(await agent.untilEnded(submissions[0]?.submissionId ?? "")).toMatchObject({
      output: `You said: ${key}`,
    });
    expect(await agent.untilOutput(`wf-${key}`)).toBe("returned");
    expect(workflowRuns.count(`wf-${key}`)).toBe(1);
    const { inbound } = await agent.capabilities();
    expect(await inbound.inspect(SOURCE, "one")).toMatchObject({
      verdict: "accepted",
      duplicates: 2,
      calls: [
        { kind: "submission" },
        { kind: "method", result: `noted ${key}` },
        { kind: "workflow" },
      ],
    });
  });

  it("I1: of the same arrival at the same time, one starts its calls", async () => {
    const agent = given();
    const sent = await Promise.all(
      [1, 2, 3].map(() => send(agent, { id: "one", calls: ["submit", "note"] })),
    );
    expect(effects.count(sent[0]?.key ?? "")).toBe(1);
    expect(await (await agent.verbs()).listSubmissions()).toHaveLength(1);
  });

  it("I2: a refused call leaves nothing, accepted work stays, and the sender's retry continues", async () => {
    const agent = given();
    const key = `key-${crypto.randomUUID()}`;
    refusals.set(key, 1);
    const calls: ArrivalBody["calls"] = ["submit", "note"];
    const refused = await send(agent, { id: "one", calls, key });
    expect(refused.status).toBeGreaterThanOrEqual(400);
    expect(effects.count(key)).toBe(0);
    const submissions = await (await agent.verbs()).listSubmissions();
    expect(submissions).toHaveLength(1);
    await send(agent, { id: "one", calls, key });
    expect(effects.count(key)).toBe(1);
    expect(await (await agent.verbs()).listSubmissions()).toHaveLength(1);
  });

  it("I3: a request with a wrong signature, an old time or an invalid body stores nothing", async () => {
    const agent = given();
    const calls: ArrivalBody["calls"] = ["note"];
    const forged = await send(agent, { id: "one", calls, secret: "guess" });
    const old = await send(agent, {
      id: "two",
      calls,
      time: Math.floor(Date.now() / 1_000) - 3_600,
    });
    const invalid = await send(agent, { id: "three", calls: "note" as never });
    expect([forged.status, old.status]).toEqual([401, 401]);
    expect(invalid.status).toBe(400);
    const { inbound } = await agent.capabilities();
    expect((await inbound.list()).items).toEqual([]);
    for (const { key } of [forged, old, invalid]) expect(effects.count(key)).toBe(0);
  });

  it("I4: the first body of an id counts", async () => {
    const agent = given();
    const { key } = await send(agent, { id: "one", calls: ["note"] });
    const other = await send(agent, { id: "one", calls: ["note"], key: `${key}-other` });
    expect(other.verdict).not.toBe("accepted");
    expect([effects.count(key), effects.count(`${key}-other`)]).toEqual([1, 0]);
    const { inbound } = await agent.capabilities();
    expect(await inbound.inspect(SOURCE, "one")).toMatchObject({ body: { key } });
  });

  it("I5: an arrival resumes the workflow that waits for it", async () => {
    const agent = given();
    const id = await agent.start({ step: "webhook", source: SOURCE });
    const { operations } = await agent.capabilities();
    await until(async () =>
      (await operations.inspectWorkflow(id))?.steps.some(({ kind }) => kind === "webhook"),
    );
    const { verdict, key } = await send(agent, { id: "one" });
    expect(verdict).toBe("accepted");
    expect(await agent.untilOutput(id)).toMatchObject({ id: "one", body: { key } });
  });

  it("I5: a wait that opens after its arrival finds it, and two workflows that wait both get it", async () => {
    const agent = given();
    const { key, verdict } = await send(agent, { id: "one" });
    expect(verdict).toBe("filtered");
    for (let count = 0; count < 2; count++) {
      const id = await agent.start({ step: "webhook", source: SOURCE });
      expect(await agent.untilOutput(id)).toMatchObject({ id: "one", body: { key } });
    }
  });

  it.each([
    ["decided", true],
    ["decided", false],
    ["paid", true],
    ["paid", false],
  ] as const)(
    "W1: a race that %s has won has the same winner in a replay; the approval is its first branch: %s",
    async (winner, isApprovalFirst) => {
      const agent = given();
      const id = await agent.start({ step: "race", source: SOURCE, isApprovalFirst });
      const { approvals, operations } = await agent.capabilities();
      const waits = async () =>
        ((await operations.inspectWorkflow(id))?.steps ?? []).filter(
          ({ kind }) => kind === "webhook" || kind === "approval",
        );
      await until(async () => (await waits()).length === 2);
      const [approval] = (await approvals.list()).items;
      const branches = {
        decided: () => approvals.grant(approval?.approvalId ?? "", { payload: { amount: 5 } }),
        paid: () => send(agent, { id: "one" }),
      };
      const wins = () => workflowRuns.get(id).filter((one) => one !== "race");
      await branches[winner]();
      await until(() => wins().length === 1);
      await branches[winner === "paid" ? "decided" : "paid"]();
      await until(async () => (await waits()).every(({ endedAt }) => endedAt !== undefined));
      const { outbox } = await agent.capabilities();
      await until(async () => (await outbox.stats()).waiting === 0);
      await (await agent.verbs()).pauseWorkflow(id);
      await agent.untilWorkflow(id, "paused");
      await (await agent.verbs()).resumeWorkflow(id);
      await until(() => wins().length === 2);
      const instance = await host.workflows.get(id);
      await instance.sendEvent({ type: "continue", payload: null });
      expect(await agent.untilOutput(id)).toBe(winner);
      expect(wins()).toEqual([winner, winner]);
    },
  );

  /** A run with an open approval and an open wait for an arrival. */
  async function givenOrphans(error?: string) {
    const agent = given();
    const id = await agent.start({
      step: "orphans",
      source: SOURCE,
      ...(error !== undefined && { error }),
    });
    const { approvals, operations } = await agent.capabilities();
    const waits = async () =>
      ((await operations.inspectWorkflow(id))?.steps ?? []).filter(
        ({ kind }) => kind === "webhook" || kind === "approval",
      );
    await until(async () => (await waits()).length === 2);
    const [approval] = (await approvals.list()).items;
    const continued = async () =>
      (await host.workflows.get(id)).sendEvent({ type: "continue", payload: null });
    return { agent, id, approvals, waits, continued, approvalId: approval?.approvalId ?? "" };
  }

  const PAYLOAD = { payload: { amount: 5 } };

  it.each([
    ["returns", undefined, "complete"],
    ["fails", "no stock", "errored"],
  ] as const)(
    "W5: what a run that %s leaves open is cancelled, and decides and takes nothing",
    async (_, error, status) => {
      const { agent, id, approvals, waits, continued, approvalId } = await givenOrphans(error);
      await continued();
      await agent.untilWorkflow(id, status);
      await until(async () => (await waits()).every((one) => one.status === "cancelled"));
      expect((await approvals.list()).items).toEqual([]);
      expect(await approvals.grant(approvalId, PAYLOAD)).toMatchObject({
        outcome: "already_decided",
        approval: { status: "cancelled", reason: expect.stringContaining("has ended") },
      });
      expect(await send(agent, { id: "one" })).toMatchObject({ verdict: "filtered" });
    },
  );

  it("W5: what a restarted run does not ask for again decides nothing, and is cancelled when it ends", async () => {
    const { agent, id, approvals, waits, continued, approvalId } = await givenOrphans();
    await (await agent.verbs()).restartWorkflow(id);
    await until(() => workflowRuns.count(id) === 2);
    expect(await approvals.grant(approvalId, PAYLOAD)).toMatchObject({
      outcome: "already_decided",
      approval: { status: "cancelled", reason: expect.stringContaining("restarted") },
    });
    await continued();
    await agent.untilWorkflow(id, "complete");
    await until(async () => (await waits()).every((one) => one.status === "cancelled"));
  });

  it("I6: the log is bounded by the bytes of its bodies, and sets no alarm", async () => {
    const agent = given();
    const filler = "x".repeat(MAX_ARRIVAL_BYTES / 2);
    for (const id of ["one", "two", "three"]) await send(agent, { id, filler });
    const { inbound } = await agent.capabilities();
    expect((await inbound.list()).items).toHaveLength(3);
    expect(await inbound.inspect(SOURCE, "one")).not.toHaveProperty("body");
    expect(await inbound.inspect(SOURCE, "three")).toHaveProperty("body");
    expect(await agent.readAlarm()).toBeNull();
  });

  it("I7: a refused arrival is replayed under its own id, an accepted one as a new arrival", async () => {
    const agent = given();
    const key = `key-${crypto.randomUUID()}`;
    refusals.set(key, 1);
    await send(agent, { id: "one", calls: ["note"], key });
    const { inbound } = await agent.capabilities();
    const replayed = await inbound.replay(SOURCE, "one");
    expect(replayed).toEqual({ source: SOURCE, id: "one", verdict: "accepted" });
    expect(effects.count(key)).toBe(1);
    const again = await inbound.replay(SOURCE, "one");
    expect(again).toMatchObject({ verdict: "accepted" });
    expect(again?.id).not.toBe("one");
    expect(effects.count(key)).toBe(2);
  });
}
