/** Sub-agents share what keepers have lent to their root. */

import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { getSubAgentByName } from "agents";
import { describe, expect, it } from "vitest";
import { limit } from "../../../src/features/limits/index.ts";
import { ask } from "../../../src/testing/index.ts";
import { message } from "../../support/given.ts";
import { stubOf as keeperOf } from "../../support/limits/keeper.ts";
import { LimitedAgent, TREE } from "./limited-agent.ts";
import { givenGate, now, pass, submission, worked } from "./support.ts";

const keyState = async (key: string) =>
  (await keeperOf({ name: TREE }).list({ key, limit: 1 })).keys[0];

type Caller = Pick<LimitedAgent, "submitMessages" | "waitForSubmission">;

async function turnOf(agent: Caller, tree: string): Promise<string | undefined> {
  const { submissionId } = await agent.submitMessages([message(ask({}))], { metadata: { tree } });
  return (await agent.waitForSubmission(submissionId))?.status;
}

describe("a sub-agent in the real runtime", () => {
  it("uses the lease of its root, without a call of the keeper", async () => {
    const tree = crypto.randomUUID();
    const root = env.LimitedAgent.getByName(tree);
    for (let n = 0; n < 4; n++)
      expect(await turnOf(root as unknown as Caller, tree)).toBe("completed");
    const before = await keyState(tree);
    expect(before?.used.requests).toBeGreaterThan(4);
    const child = await getSubAgentByName(root as never, LimitedAgent, "child");
    expect(await turnOf(child as unknown as Caller, tree)).toBe("completed");
    expect((await keyState(tree))?.used.requests).toBe(before?.used.requests);
  });

  it("runs again after a crash of both, by what is left of the lease", async () => {
    const tree = crypto.randomUUID();
    const root = () => env.LimitedAgent.getByName(tree);
    const child = () => getSubAgentByName(root() as never, LimitedAgent, "child");
    expect(await turnOf((await child()) as unknown as Caller, tree)).toBe("completed");
    await runInDurableObject(root(), (_, ctx) => ctx.abort("crash")).catch(() => {});
    expect(await turnOf((await child()) as unknown as Caller, tree)).toBe("completed");
    expect(await turnOf(root() as unknown as Caller, tree)).toBe("completed");
  });
});

describe("agents of one root", () => {
  const one = (more: object = {}) =>
    limit("one", { requests: "1000 per minute", ...more } as never);

  it("use each other's leases, and report each use once", async () => {
    const root = givenGate({ limits: [one()] });
    const { keepers } = root;
    for (let seq = 1; seq <= 5; seq++) await worked(root, seq);
    const asks = keepers.asks.length;
    const child = givenGate({ limits: [one()] }, keepers, { root: root.root });
    await worked(child, 1);
    expect(keepers.asks).toHaveLength(asks);
    await pass(120_000);
    const used = keepers.returns.reduce((sum, { used: { requests = 0 } }) => sum + requests, 0);
    expect(used).toBe(6);
    expect(keepers.bookOf("one").inspect([""])[0]?.used.requests).toBe(0);
  });

  it("give back what is free when the last of them has ended its work", async () => {
    const root = givenGate({ limits: [one({ concurrency: 2 })] });
    const { keepers } = root;
    const child = givenGate({ limits: [one({ concurrency: 2 })] }, keepers, { root: root.root });
    while (child.gate.admit(submission(7))) await pass(100);
    await worked(root, 1);
    await pass(6_000);
    const slots = () => keepers.bookOf("one").inspect([""])[0]?.used.slots;
    expect(slots()).toBe(2);
    child.gate.released(7);
    await pass(6_000);
    expect(slots()).toBe(0);
  });

  it("belong to the same shard of a limit without keys", async () => {
    const sharded = one({ shards: 16 });
    const root = givenGate({ limits: [sharded] });
    for (let n = 0; n < 8; n++)
      await worked(givenGate({ limits: [sharded] }, root.keepers, { root: root.root }), 1);
    expect(new Set(root.keepers.asks.map(({ keeper }) => keeper)).size).toBe(1);
  });

  it("share no slots of keys that submissions bring", async () => {
    const root = givenGate();
    const child = givenGate({}, root.keepers, { root: root.root });
    const limits = { concurrency: { key: "c", limit: 1 } };
    const owned = (seq: number) => submission(seq, { limits } as never);
    while (root.gate.admit(owned(1))) await pass(100);
    expect(await now(Promise.resolve(child.gate.admit(owned(1))))).toMatchObject({
      waitingFor: { limit: "concurrency" },
    });
  });
});
