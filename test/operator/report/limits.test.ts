/** What the health report says of limits, by what keepers and waiting submissions say. */

import { describe, expect, it } from "vitest";
import type { LimitState } from "../../../src/features/limits/controls.ts";
import { limitsHealth } from "../../../src/features/limits/operated/health.ts";
import { LIMIT_RULES, type LimitFacts } from "../../../src/features/limits/operated/rules.ts";
import type { LimitWaits } from "../../../src/submissions/store/limit-waits.ts";

const NOW = Date.parse("2026-11-26T12:00:00Z");
const MINUTE = 60_000;

const openai: LimitState = {
  ...{ limit: "openai", key: "", waiting: 0, longestWaitMs: 0 },
  requests: { used: 10, amount: 1_000 },
};
const acme: LimitState = {
  ...{ limit: "tenant", key: "acme", waiting: 0, longestWaitMs: 0 },
  usd: { used: 2, amount: 20 },
  windowEndsAt: NOW + 12 * 60 * MINUTE,
};
const waits: LimitWaits = {
  ...{ limit: "tenant", key: "acme", why: "full", count: 3, ids: ["a", "b", "c"] },
  since: NOW - 10 * MINUTE,
};

const found = (facts: Partial<LimitFacts>) =>
  LIMIT_RULES.flatMap((rule) =>
    rule({ waits: [], states: [], unreachable: [], unkeyed: [], ...facts }, NOW),
  ).map((finding) => ({ ...finding, is: `${finding.code} ${finding.severity}` }));

describe("limits", () => {
  it("without work that waits, and far from their amounts, have no finding", () => {
    expect(found({ states: [openai, acme] })).toEqual([]);
    expect(found({ states: [{ ...openai, requests: { used: 1_000, amount: 1_000 } }] })).toEqual(
      [],
    );
  });

  it("limit-full: work that waits for a full limit is an information, and after five minutes a warning", () => {
    const full = { ...openai, requests: { used: 1_000, amount: 1_000 }, waiting: 4 };
    const [peak, ...others] = found({ states: [{ ...full, longestWaitMs: 2_000 }] });
    expect(others).toEqual([]);
    expect(peak).toMatchObject({
      is: "limit-full info",
      title: "The limit openai is full (requests 1,000 of 1,000): 4 calls of all agents wait.",
      link: { view: "limits", filter: 'name:"openai"' },
    });
    expect(found({ states: [{ ...full, longestWaitMs: 6 * MINUTE }] })).toMatchObject([
      { is: "limit-full warning", evidence: { count: 4, since: NOW - 6 * MINUTE } },
    ]);
    const closedUntil = NOW + MINUTE;
    expect(found({ states: [{ ...openai, waiting: 1, closedUntil }] })).toMatchObject([
      {
        title:
          "The limit openai is closed by the provider until 12:01 UTC: 1 call of all agents waits.",
      },
    ]);
  });

  it("limit-waits-long: submissions that wait for five minutes are a warning, and after an hour an error", () => {
    expect(found({ waits: [{ ...waits, since: NOW - 4 * MINUTE }] })).toEqual([]);
    expect(found({ waits: [waits] })).toMatchObject([
      {
        is: "limit-waits-long warning",
        title:
          '3 submissions wait for the key "acme" of the limit tenant, the first since 11:50 UTC.',
        evidence: { count: 3, ids: ["a", "b", "c"] },
      },
    ]);
    expect(found({ waits: [{ ...waits, since: NOW - 61 * MINUTE }] })).toMatchObject([
      { is: "limit-waits-long error" },
    ]);
  });

  it("limit-paused: a paused key is shown with its reason and the action that resumes it", () => {
    const paused = { ...acme, pausedAt: NOW - MINUTE, reason: "a\nloop" };
    const own = { ...waits, why: "paused" } as const;
    expect(found({ states: [paused] })).toMatchObject([{ is: "limit-paused info" }]);
    const forgotten = { ...paused, pausedAt: NOW - 7 * 24 * 60 * MINUTE };
    expect(found({ states: [forgotten] })).toMatchObject([{ is: "limit-paused warning" }]);
    expect(found({ states: [paused], waits: [own] })).toMatchObject([
      {
        is: "limit-paused warning",
        title: 'The key "acme" of the limit tenant is paused since 11:59 UTC: a loop',
        evidence: { ids: ["a", "b", "c"] },
        fix: { action: { do: "resume-limit", limit: "tenant", key: "acme" } },
      },
    ]);
  });

  it("limit-money: 80 percent of the money is an information, 100 percent a warning", () => {
    const spent = (used: number) => found({ states: [{ ...acme, usd: { used, amount: 20 } }] });
    expect(spent(15.9)).toEqual([]);
    expect(spent(16)).toMatchObject([
      {
        is: "limit-money info",
        title: 'The key "acme" of the limit tenant has used 16 of 20 dollars until 00:00 UTC.',
      },
    ]);
    expect(spent(20)).toMatchObject([{ is: "limit-money warning" }]);
  });

  it("limit-lowered: a provider that allows less than declared is a warning, once for each amount", () => {
    const lowered = {
      ...openai,
      requests: { used: 10, amount: 1_000, allowed: 500 },
      tokens: { used: 10, amount: 2_000_000, allowed: 1_000_000 },
    };
    expect(found({ states: [lowered] })).toMatchObject([
      {
        is: "limit-lowered warning",
        title: "The provider allows 500 requests, and the limit openai declares 1,000.",
      },
      { is: "limit-lowered warning", about: "openai/ tokens" },
    ]);
  });

  it("limit-slowed: what is used after a refusal is not what a provider allows", () => {
    const requests = { used: 10, amount: 1_000, lowered: 634 };
    expect(found({ states: [{ ...openai, requests }] })).toMatchObject([
      {
        is: "limit-slowed info",
        title:
          "The provider has refused requests: agents use 634 of 1,000 requests of the limit openai for now.",
      },
    ]);
  });

  it("limit-not-applied: a key that no turn has had is a warning, and an information where other agents use the limit", () => {
    const unkeyed = {
      limit: "tenant",
      count: 105,
      since: NOW - MINUTE,
      ids: ["a"],
      hasClients: false,
    };
    expect(found({ unkeyed: [unkeyed] })).toMatchObject([
      {
        is: "limit-not-applied warning",
        title:
          "The limit tenant has not applied to any of 105 turns since 11:59 UTC: its key returned undefined for each.",
        evidence: { count: 105, ids: ["a"] },
      },
    ]);
    expect(found({ unkeyed: [unkeyed], states: [acme] })).toMatchObject([
      { is: "limit-not-applied info" },
    ]);
    const ofClients = { ...unkeyed, count: 0, ids: [], hasClients: true };
    expect(found({ unkeyed: [ofClients] })).toMatchObject([
      {
        title:
          "The limit tenant does not apply to turns of chat clients: its key returns undefined.",
      },
    ]);
  });

  it("a hostile key is one line, and cannot change how the sentence around it is read", () => {
    const key = `\u202e"}\n<img src=x>${"x".repeat(500)}`;
    const [paused] = found({ states: [{ ...acme, key, pausedAt: NOW }] });
    expect(paused?.title).not.toMatch(/[\n\u202e]/);
    expect(paused?.title.length).toBeLessThan(250);
    expect(paused?.fix.action).toEqual({ do: "resume-limit", limit: "tenant", key });
  });
});

describe("keepers", () => {
  const health = async (
    list: (of: { name?: string | undefined }) => Promise<readonly LimitState[]>,
  ) => {
    const limits = [{ name: "openai" }, { name: "tenant" }];
    const controls = { list: async (of = {}) => ({ items: await list(of) }) };
    const { rules } = await limitsHealth(limits, controls, { waits: [waits], unkeyed: [] }, NOW);
    return rules.flatMap((rule) => rule());
  };

  it("keeper-unreachable: one that hangs or fails is an error, and the others are shown", async () => {
    const findings = await health(async ({ name }) =>
      name === "openai" ? new Promise(() => {}) : [{ ...acme, pausedAt: NOW }],
    );
    expect(findings.map(({ code }) => code)).toEqual([
      ...["limit-waits-long", "limit-paused", "keeper-unreachable"],
    ]);
    const failing = await health(async () => {
      throw new Error("The keeper failed");
    });
    expect(failing).toMatchObject([
      { code: "limit-waits-long" },
      { code: "keeper-unreachable", about: "openai", evidence: { count: 1 } },
      {
        ...{ code: "keeper-unreachable", about: "tenant" },
        evidence: { ids: ["a", "b", "c"], lastError: "The keeper failed" },
      },
    ]);
  });
});
