/** An agent's calls of keepers: which object they reach, and what happens while one cannot be reached. */

import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import {
  Keepers,
  KeeperUnreachableError,
  keeperOf,
  keepersOf,
} from "../../../src/features/limits/keepers.ts";
import { askFor, crash, givenKeeper, perMinute, returnOf } from "../../support/limits/keeper.ts";
import { keeperScripts } from "../../support/objects/keeper-object.ts";

afterEach(() => vi.restoreAllMocks());

const CALL_MS = 100;

/** A limit with a keeper of its own, and a client whose clock the test sets. */
function given(onAsk?: () => unknown) {
  const { name } = givenKeeper({ onAsk: () => onAsk?.() });
  const clock = { time: 1_000_000, now: () => clock.time, random: () => 1 };
  const keepers = new Keepers(env, "LIMIT_KEEPER", clock, CALL_MS);
  const limit = { name, shards: 1 };
  const ask = () => keepers.ask(limit, "agent", askFor(perMinute(100)));
  return { keepers, limit, clock, ask };
}

describe("the binding", () => {
  it("must be there, or the error says what to add", () => {
    const make = (binding: string) => () => new Keepers(env, binding);
    const message =
      /^Invalid keeper "LIMITS": .*This Worker has .*"LIMIT_KEEPER".*export \{ LimitKeeper \}.*new_sqlite_classes/;
    expect(make("LIMITS")).toThrow(
      expect.objectContaining({
        name: "InvalidOptionError",
        message: expect.stringMatching(message),
      }),
    );
    // A queue, and a workflow.
    expect(make("QUEUE")).toThrow(/Invalid keeper "QUEUE"/);
    expect(make("PROMPT_WORKFLOW")).toThrow(/Invalid keeper "PROMPT_WORKFLOW"/);
  });

  it("must lead to LimitKeeper, or the error of the first call says so", async () => {
    const keepers = new Keepers(env, "Receiver");
    const asking = keepers.ask({ name: "openai", shards: 1 }, "agent", askFor(perMinute(1)));
    await expect(asking).rejects.toMatchObject({
      name: "KeeperUnreachableError",
      message: expect.stringContaining(
        'the binding "Receiver" leads to a class that is not LimitKeeper',
      ),
    });
  });

  it("must not lead to a class whose ask() is another method, and its object is not asked at once again", async () => {
    const { name } = givenKeeper({ answer: { submissionId: "s", accepted: true } });
    const keepers = new Keepers(env, "LIMIT_KEEPER");
    const ask = () => keepers.ask({ name, shards: 1 }, "agent", askFor(perMinute(1)));
    const message = 'the binding "LIMIT_KEEPER" leads to a class that is not LimitKeeper';
    for (let n = 0; n < 2; n++) {
      const error = await ask().catch((cause) => cause);
      expect(error).toBeInstanceOf(KeeperUnreachableError);
      expect(error.message).toContain(message);
      expect(error.retryAfterMs).toBeGreaterThan(0);
    }
  });
});

describe("a keeper's name", () => {
  it("is the limit's, and that of its shard where it has several", () => {
    expect(keeperOf({ name: "openai", shards: 1 }, "", "agent")).toBe("openai");
    expect(keepersOf({ name: "openai", shards: 1 })).toEqual(["openai"]);
    expect(keepersOf({ name: "openai", shards: 3 })).toEqual(["openai/0", "openai/1", "openai/2"]);
  });

  it("depends on the key of a keyed limit, and on the agent of an unkeyed one", () => {
    const limit = { name: "tenant", shards: 8 };
    const names = (count: number, nameOf: (index: number) => string) =>
      new Set(Array.from({ length: count }, (_, index) => nameOf(index)));
    expect(names(50, (index) => keeperOf(limit, "acme", `agent-${index}`)).size).toBe(1);
    expect(names(500, (index) => keeperOf(limit, `key-${index}`, "agent"))).toEqual(
      new Set(keepersOf(limit)),
    );
    expect(names(500, (index) => keeperOf(limit, "", `agent-${index}`))).toEqual(
      new Set(keepersOf(limit)),
    );
  });

  it("stays the same in every version: a key of a running app must not move", () => {
    expect(keeperOf({ name: "tenant", shards: 1_000 }, "acme", "")).toBe("tenant/615");
  });
});

describe("a keeper that cannot be reached", () => {
  it("is not waited for longer than the time limit, and not called again for a while", async () => {
    let asked = 0;
    const { ask, clock } = given(() => {
      asked++;
      return new Promise(() => {});
    });
    const unreachable = { name: "KeeperUnreachableError", retryAfterMs: 1_000 };
    await expect(ask()).rejects.toMatchObject({
      ...unreachable,
      message: expect.stringContaining("No answer within 100 ms"),
    });
    const refused = await Promise.allSettled(Array.from({ length: 1_000 }, ask));
    expect(refused.every(({ status }) => status === "rejected")).toBe(true);
    expect(asked).toBe(1);
    // After the pause one call tries it for all.
    clock.time += 1_001;
    await Promise.allSettled(Array.from({ length: 1_000 }, ask));
    expect(asked).toBe(2);
  });

  it("is tried again at longer and longer intervals, up to 30 seconds, and at once when it has answered", async () => {
    let isDown = true;
    const { ask, clock } = given(() => {
      if (isDown) throw new Error("It is down");
    });
    const waits: number[] = [];
    for (let failures = 0; failures < 8; failures++) {
      const error = await ask().catch((caught: KeeperUnreachableError) => caught);
      if (!(error instanceof KeeperUnreachableError)) throw new Error("It answered");
      expect(error.message).toContain("It is down");
      waits.push(error.retryAfterMs);
      clock.time += error.retryAfterMs;
    }
    expect(waits).toEqual([1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000]);
    isDown = false;
    expect(await ask()).toMatchObject({ outcome: "lent" });
    expect(await ask()).toMatchObject({ outcome: "lent" });
  });

  it("fails once for calls that were under way together", async () => {
    const { ask, clock } = given(() => {
      throw new Error("It is down");
    });
    await Promise.allSettled(Array.from({ length: 50 }, ask));
    clock.time += 1_000;
    await expect(ask()).rejects.toMatchObject({ retryAfterMs: 2_000 });
  });

  it("is reached again after a clock that was far ahead is set back", async () => {
    let isDown = true;
    const { ask, clock } = given(() => {
      if (isDown) throw new Error("It is down");
    });
    clock.time += 1e12;
    await expect(ask()).rejects.toBeInstanceOf(KeeperUnreachableError);
    clock.time -= 1e12;
    isDown = false;
    expect(await ask()).toMatchObject({ outcome: "lent" });
  });

  it("keeps other keepers as they are", async () => {
    const down = given(() => {
      throw new Error("It is down");
    });
    const { name } = givenKeeper();
    await expect(down.ask()).rejects.toBeInstanceOf(KeeperUnreachableError);
    const other = down.keepers.ask({ name, shards: 1 }, "agent", askFor(perMinute(1)));
    expect(await other).toMatchObject({ outcome: "lent" });
  });

  it("is reached by the first call after its restart", async () => {
    const { ask, limit } = given();
    await ask();
    await crash(limit);
    expect(await ask()).toMatchObject({ outcome: "lent" });
  });
});

describe("an invalid call", () => {
  it("is refused with its field, and does not keep others from the keeper", async () => {
    const { keepers, limit, ask } = given();
    const invalid = keepers.ask(limit, "agent", askFor(perMinute(1), { key: "k".repeat(513) }));
    await expect(invalid).rejects.toMatchObject({
      name: "InvalidKeeperCallError",
      message: expect.stringMatching(/^Invalid key/),
    });
    expect(await ask()).toMatchObject({ outcome: "lent" });
  });
});

describe("giveBack()", () => {
  it("frees what was lent", async () => {
    const { keepers, limit } = given();
    const ask = askFor({ slots: 1 });
    const lent = await keepers.ask(limit, "agent", ask);
    if (lent.outcome !== "lent") throw new Error("Not lent");
    await keepers.giveBack(limit, "agent", [returnOf(ask, lent)]);
    expect(await keepers.ask(limit, "agent", askFor({ slots: 1 }))).toMatchObject({
      outcome: "lent",
    });
  });

  it("reaches the keeper of each key", async () => {
    const { keepers, limit } = given();
    const sharded = { ...limit, shards: 16 };
    const lent = await Promise.all(
      ["a", "b", "c", "d"].map(async (key) => {
        const ask = askFor({ slots: 1 }, { key });
        const lease = await keepers.ask(sharded, "agent", ask);
        if (lease.outcome !== "lent") throw new Error("Not lent");
        return returnOf(ask, lease);
      }),
    );
    await keepers.giveBack(sharded, "agent", lent);
    for (const { key } of lent)
      expect(await keepers.ask(sharded, "agent", askFor({ slots: 1 }, { key }))).toMatchObject({
        outcome: "lent",
      });
  });

  it("is sent at most once, and a lost one is no error", async () => {
    const { keepers, limit, ask } = given(() => {
      throw new Error("It is down");
    });
    await expect(ask()).rejects.toBeInstanceOf(KeeperUnreachableError);
    keeperScripts.set(limit.name, {});
    const lost = { key: "", rules: {}, lease: 1, lent: {}, used: {}, usedAgoMs: 0 };
    await expect(keepers.giveBack(limit, "agent", [lost])).resolves.toEqual([]);
  });

  it("logs what the keeper refuses", async () => {
    const logged = vi.spyOn(console, "error").mockImplementation(() => {});
    const { keepers, limit } = given();
    await keepers.observe(limit, "agent", { key: "k".repeat(513), rules: {} });
    expect(logged).toHaveBeenCalledWith(
      expect.stringContaining("has refused a call"),
      expect.anything(),
    );
  });
});
