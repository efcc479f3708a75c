/** What apps and operators see and change of limits: `list()`, `pause()` and `resume()`. */

import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { LimitControls, type LimitState } from "../../../src/features/limits/controls.ts";
import {
  type DeclaredLimit,
  type Limit,
  limit,
  readLimits,
} from "../../../src/features/limits/declared/declarations.ts";
import type { Ask } from "../../../src/features/limits/keeper/protocol.ts";
import { Keepers, rulesOfShard } from "../../../src/features/limits/keepers.ts";
import { askFor, crash } from "../../support/limits/keeper.ts";

const suffix = crypto.randomUUID().slice(0, 8);
let made = 0;
/** A name of a limit that no other test uses. */
const newName = (name: string) => `${name}-${suffix}-${++made}`;

function given(...limits: DeclaredLimit[]) {
  const keepers = new Keepers(env, "LIMIT_KEEPER");
  const controls = new LimitControls(limits, keepers);
  const ask = (declared: DeclaredLimit, key: string, more: Partial<Ask> = {}, agent = "agent") =>
    keepers.ask(declared, agent, askFor(rulesOfShard(declared), { key, ...more }));
  return { controls, ask };
}

/** As the feature reads it. */
function limitOf(declared: Limit): DeclaredLimit {
  const prices = { "*": { input: 1, output: 1 } };
  return readLimits({ limits: [declared], prices }).limits[0] as DeclaredLimit;
}

const ofModels = (options: { shards?: number } = {}) =>
  limitOf(limit(newName("openai"), { requests: "10 per minute", concurrency: 4, ...options }));
const ofTenants = (options: { shards?: number } = {}) =>
  limitOf(limit(newName("tenant"), { key: () => "any", usd: "20 per day", ...options }));

const keysOf = (items: readonly LimitState[]) => items.map(({ key }) => key);

describe("limits.list()", () => {
  it("shows what is used of each amount, in the words of the declaration", async () => {
    const [models, tenants] = [ofModels(), ofTenants()];
    const { controls, ask } = given(models, tenants);
    await ask(models, "", { need: { requests: 3, slots: 1 } });
    await ask(tenants, "acme", { need: { nanodollars: 5_500_000_000 } });
    const { items, cursor } = await controls.list();
    expect(cursor).toBeUndefined();
    expect(items).toEqual([
      {
        ...{ limit: models.name, key: "", waiting: 0, longestWaitMs: 0 },
        requests: { used: 3, amount: 10 },
        concurrency: { used: 1, amount: 4 },
      },
      {
        ...{ limit: tenants.name, key: "acme", waiting: 0, longestWaitMs: 0 },
        usd: { used: 5.5, amount: 20 },
        windowEndsAt: expect.any(Number),
      },
    ]);
  });

  it("shows what waits, and since when", async () => {
    const models = ofModels();
    const { controls, ask } = given(models);
    for (let index = 0; index < 6; index++)
      await ask(models, "", { need: { slots: 1 }, waitedMs: index * 1_000 });
    const [state] = (await controls.list()).items;
    expect(state).toMatchObject({ waiting: 2, concurrency: { used: 4 } });
    expect(state?.longestWaitMs).toBeGreaterThanOrEqual(5_000);
  });

  it("pages through the keys of all limits, shard by shard, each once", async () => {
    const [models, tenants] = [ofModels({ shards: 2 }), ofTenants({ shards: 3 })];
    const { controls, ask } = given(models, tenants);
    const keys = Array.from({ length: 20 }, (_, index) => `key-${index}`);
    for (const agent of keys) await ask(models, "", { need: { requests: 1 } }, agent);
    for (const key of keys) await ask(tenants, key, { need: { nanodollars: 1 } });
    const seen: LimitState[] = [];
    let cursor: string | undefined;
    let pages = 0;
    do {
      const page = await controls.list({ limit: 4, cursor });
      expect(page.items.length).toBeLessThanOrEqual(4);
      seen.push(...page.items);
      cursor = page.cursor;
    } while (cursor !== undefined && ++pages < 20);
    expect(
      seen.filter(({ limit: name }) => name === models.name).map(({ shard }) => shard),
    ).toEqual([0, 1]);
    const ofKeys = seen.filter(({ limit: name }) => name === tenants.name);
    expect(keysOf(ofKeys).sort()).toEqual(keys.sort());
    // A shard has half of the amount.
    expect(seen[0]?.requests).toMatchObject({ amount: 5 });
  });

  it("finds one limit, and one key", async () => {
    const [models, tenants] = [ofModels(), ofTenants({ shards: 3 })];
    const { controls, ask } = given(models, tenants);
    await ask(models, "", { need: { requests: 1 } });
    for (const key of ["acme", "globex"]) await ask(tenants, key, { need: { nanodollars: 1 } });
    expect(keysOf((await controls.list({ name: models.name })).items)).toEqual([""]);
    expect(keysOf((await controls.list({ name: tenants.name, key: "acme" })).items)).toEqual([
      "acme",
    ]);
    expect((await controls.list({ name: tenants.name, key: "unknown" })).items).toEqual([]);
  });

  it("refuses an unknown limit, option or cursor", async () => {
    const { controls } = given(ofModels());
    const refused = (options: object) => controls.list(options as never);
    await expect(refused({ name: "opnai" })).rejects.toThrow(
      /^Invalid limit "opnai": expected one of the declared limits: "openai-/,
    );
    await expect(refused({ key: "acme" })).rejects.toThrow(/^Invalid limit undefined/);
    await expect(refused({ nam: "x" })).rejects.toThrow('Unknown option "nam"');
    await expect(refused({ limit: 0 })).rejects.toThrow("Invalid limit 0");
    for (const cursor of ["x", "limits:x", "limits:[1,2,3]", 'limits:["a","b"]'])
      await expect(refused({ cursor })).rejects.toMatchObject({ name: "InvalidFilterError" });
  });
});

describe("limits.pause()", () => {
  it("holds a key for all agents until it is resumed, also after restarts of the keeper", async () => {
    const tenants = ofTenants();
    const { controls } = given(tenants);
    await controls.pause(tenants.name, "acme", "unpaid");
    const other = given(tenants);
    await crash({ name: tenants.name });
    const asking = () => other.ask(tenants, "acme", { need: { nanodollars: 1 } });
    expect(await asking()).toMatchObject({ outcome: "wait", why: "paused", reason: "unpaid" });
    const [state] = (await other.controls.list()).items;
    expect(state).toMatchObject({ key: "acme", reason: "unpaid", pausedAt: expect.any(Number) });
    expect(await other.controls.resume(tenants.name, "acme")).toBe(true);
    expect(await controls.resume(tenants.name, "acme")).toBe(false);
    expect(await asking()).toMatchObject({ outcome: "lent" });
  });

  it("holds all shards of a limit without keys", async () => {
    const models = ofModels({ shards: 4 });
    const { controls, ask } = given(models);
    await controls.pause(models.name, "", "outage");
    for (let agent = 0; agent < 20; agent++)
      expect(await ask(models, "", { need: { requests: 1 } }, `agent-${agent}`)).toMatchObject({
        why: "paused",
      });
    expect(await controls.resume(models.name, "")).toBe(true);
    expect(await ask(models, "", { need: { requests: 1 } })).toMatchObject({ outcome: "lent" });
  });

  it("refuses a limit that is not declared, a key that it cannot have, and a missing reason", async () => {
    const [models, tenants] = [ofModels(), ofTenants()];
    const { controls } = given(models, tenants);
    const pause = (...args: unknown[]) => controls.pause(...(args as [string, string, string]));
    const invalid = (message: RegExp) =>
      expect.objectContaining({
        name: "InvalidOptionError",
        message: expect.stringMatching(message),
      });
    await expect(pause("other", "acme", "unpaid")).rejects.toEqual(
      invalid(/^Invalid limit "other": expected one of/),
    );
    await expect(pause(models.name, "acme", "unpaid")).rejects.toEqual(
      invalid(/^Invalid key "acme": expected "", because the limit "openai.*" has no keys/),
    );
    await expect(pause(tenants.name, "", "unpaid")).rejects.toEqual(
      invalid(/^Invalid key "": expected a key of the limit/),
    );
    await expect(pause(tenants.name, 7, "unpaid")).rejects.toEqual(invalid(/^Invalid key 7/));
    await expect(pause(tenants.name, "k".repeat(513), "unpaid")).rejects.toEqual(
      invalid(/^Invalid key "k/),
    );
    for (const reason of [undefined, "", "r".repeat(1_001)])
      await expect(pause(tenants.name, "acme", reason)).rejects.toEqual(
        invalid(/^(Invalid|Missing) /),
      );
    expect((await controls.list()).items).toEqual([]);
  });
});
