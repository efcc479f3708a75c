/** Arrivals that operators replay: one, and all that a filter selects. */

import { afterEach, describe, expect, it } from "vitest";
import { handlers } from "../../../src/features/inbound/offer.ts";
import { capabilitiesOf } from "../../../src/hosts/public.ts";
import type { Action, OperateRequest, OperateResult } from "../../../src/operator/protocol.ts";
import { givenThink, message } from "../../support/given.ts";
import { arrival } from "../../support/inbound.ts";
import type { ThinkAgent } from "../../support/think-agent.ts";

type Agent = ReturnType<typeof givenThink>;

const later = "2100-01-01T00:00:00Z";

function act(
  agent: Agent,
  action: Action,
  more: Partial<OperateRequest> = {},
): Promise<OperateResult> {
  return capabilitiesOf(agent).operations.operate({
    action,
    by: "ada",
    reason: "the handler is repaired",
    ...more,
  });
}

/** A source whose handler submits a turn, except for the arrivals that it cannot take. */
function givenSource(broken: readonly string[] = []): string {
  const source = `source-${crypto.randomUUID()}`;
  handlers.set(source, {
    name: source,
    handle: async ({ id }, agent) => {
      if (broken.includes(id)) throw new Error(`no ${id}`);
      await (agent as unknown as ThinkAgent).submitMessages([message(id)], { notBefore: later });
    },
  });
  return source;
}

async function givenRefused(agent: Agent, source: string, count: number): Promise<void> {
  for (let each = 0; each < count; each++) {
    const refused = arrival(`d${each}`, { source });
    await agent.callKernel("acceptArrival", { arrival: refused, refusal: "not now" });
  }
}

const submitted = async (agent: Agent) => (await agent.submissionStats()).pending;

afterEach(() => handlers.clear());

describe("a replay", () => {
  it("I7: of one refused arrival accepts it, and of an accepted one it is a new arrival", async () => {
    const agent = givenThink();
    const source = givenSource();
    await givenRefused(agent, source, 1);
    const replay = { do: "replay", source, id: "d0" } as const;
    expect(await act(agent, replay, { dryRun: true })).toMatchObject({ outcome: "done", count: 1 });
    const result = await act(agent, replay);
    expect(result).toMatchObject({ outcome: "done", after: { id: "d0", verdict: "accepted" } });
    expect(await act(agent, replay)).toMatchObject({ outcome: "done" });
    expect(await submitted(agent)).toBe(2);
    const unknown = await act(agent, { do: "replay", source, id: "none" });
    expect(unknown).toMatchObject({ outcome: "not-found", count: 0 });
  });

  it("I7: of an arrival whose handler fails, or that this Worker has no handler for, has failed", async () => {
    const agent = givenThink();
    const source = givenSource(["d0"]);
    await givenRefused(agent, source, 1);
    const broken = await act(agent, { do: "replay", source, id: "d0" });
    expect(broken).toMatchObject({ outcome: "failed", failed: [{ id: `${source}/d0` }] });
    expect(broken.failed[0]?.error).toMatch(/no d0/);
    handlers.clear();
    const missing = await act(agent, { do: "replay", source, id: "d0" });
    expect(missing.failed[0]?.error).toMatch(/no source of that name/);
    const [entry] = (await capabilitiesOf(agent).operations.listActions()).items;
    expect(entry).toMatchObject({ outcome: "failed", error: missing.failed[0]?.error });
  });

  it("I7: of all that a filter selects goes page by page, with the failures listed", async () => {
    const agent = givenThink();
    const source = givenSource(["d7", "d120"]);
    await givenRefused(agent, source, 130);
    const action = { do: "replay", filter: { source } } as const;
    expect(await act(agent, action, { dryRun: true })).toMatchObject({ count: 130 });
    // A page ends after 100 arrivals, or after five seconds.
    const pages: OperateResult[] = [];
    let cursor: string | undefined;
    do {
      const page = await act(agent, action, cursor === undefined ? {} : { cursor });
      pages.push(page);
      cursor = page.cursor;
      expect(page.count + (page.failed?.length ?? 0)).toBeLessThanOrEqual(100);
    } while (cursor !== undefined);
    expect(pages.length).toBeGreaterThan(1);
    expect(pages.reduce((sum, { count }) => sum + count, 0)).toBe(128);
    const failed = pages.flatMap((page) => page.failed ?? []).map(({ id }) => id);
    expect(failed).toEqual([`${source}/d7`, `${source}/d120`]);
    expect(await submitted(agent)).toBe(128);
    expect(await act(agent, action, { dryRun: true })).toMatchObject({ count: 2 });
    const accepted = { do: "replay", filter: { source, verdict: "accepted" } } as const;
    expect(await act(agent, accepted, { dryRun: true })).toMatchObject({ count: 128 });
  });
});
