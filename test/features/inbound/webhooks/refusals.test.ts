/** Refused requests that an agent counts. */

import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { RefusedRequests } from "../../../../src/features/inbound/protocol.ts";
import {
  countRefusals,
  custom,
  github,
  links,
  webhooks,
} from "../../../../src/features/inbound/webhooks/index.ts";
import { FakeAgent, FakeContext, hmacHex, post } from "./fakes.ts";

const SECRET = "It's a Secret to Everybody";
const bindings = { SECRET };
const NOW = 1_700_000_000_000;

let ctx: FakeContext;
let told: RefusedRequests[];
let sources = 0;
let name: string;
/** Answers the next call of the agent. */
let answer: () => unknown;

beforeEach(() => {
  vi.useFakeTimers({ now: NOW, toFake: ["setTimeout", "clearTimeout", "Date"] });
  vi.spyOn(console, "warn").mockImplementation(() => {});
  ctx = new FakeContext();
  told = [];
  answer = () => undefined;
  name = `refused-${++sources}`;
});
afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

const keeper = {
  async callKernel(name: string, refused: RefusedRequests) {
    expect(name).toBe("countRefused");
    answer();
    told.push(refused);
  },
  waitForSubmission: () => undefined,
};
const noAgent = () => {
  throw new Error("No agent hears of a request that is refused");
};

function hooksOf(refusals: () => typeof keeper | null) {
  const endpoint = github({ secret: "SECRET", name, path: "/hooks/x", agent: noAgent });
  return webhooks(countRefusals(endpoint, refusals));
}

async function refuse(hooks: ReturnType<typeof hooksOf>, count: number) {
  for (let i = 0; i < count; i++) {
    const response = await hooks(
      post("/hooks/x", "{}", { "x-hub-signature-256": "no" }),
      bindings,
      ctx,
    );
    expect(response?.status).toBe(401);
  }
}

describe("refused requests", () => {
  it("H7: a thousand refused requests are one call of the agent a minute", async () => {
    const hooks = hooksOf(() => keeper);
    await refuse(hooks, 1_000);
    expect(told).toEqual([]);
    await vi.advanceTimersByTimeAsync(10_000);
    expect(told).toEqual([{ source: name, reason: "signature", count: 1_000 }]);
    for (let second = 0; second < 110; second++) {
      await refuse(hooks, 10);
      await vi.advanceTimersByTimeAsync(1_000);
    }
    await vi.advanceTimersByTimeAsync(60_000);
    expect(told.map(({ count }) => count)).toEqual([1_000, 600, 500]);
    await Promise.all(ctx.works);
  });

  it("H7: the clock is a reason of its own", async () => {
    const time = String(NOW / 1_000 - 3_600);
    const endpoint = custom({
      ...{ name, path: "/hooks/x", scheme: "hmac", secret: "SECRET", header: "x-signature" },
      ...{ id: "x-id", timestamp: "x-time", agent: noAgent },
    });
    const hooks = webhooks(countRefusals(endpoint, () => keeper));
    const signature = await hmacHex(SECRET, `${time}.{}`);
    const headers = { "x-signature": signature, "x-time": time, "x-id": "1" };
    await hooks(post("/hooks/x", "{}", headers), bindings, ctx);
    await vi.advanceTimersByTimeAsync(10_000);
    expect(told).toEqual([{ source: name, reason: "clock", count: 1 }]);
  });

  it("H7: what the agent could not take is counted with later ones", async () => {
    const hooks = hooksOf(() => keeper);
    answer = () => {
      throw new Error("overloaded");
    };
    await refuse(hooks, 3);
    await vi.advanceTimersByTimeAsync(10_000);
    answer = () => undefined;
    await vi.advanceTimersByTimeAsync(60_000);
    await refuse(hooks, 1);
    await vi.advanceTimersByTimeAsync(10_000);
    expect(told).toEqual([{ source: name, reason: "signature", count: 4 }]);
    await Promise.all(ctx.works);
  });

  it("H7: without an agent to count them they are logged only", async () => {
    await refuse(
      hooksOf(() => null),
      2,
    );
    await vi.advanceTimersByTimeAsync(10_000);
    await Promise.all(ctx.works);
    expect(told).toEqual([]);
  });

  const find: readonly [string, (arrival: { readonly body: unknown }) => unknown][] = [
    ["the arrival's", () => keeper],
    ["the arrival's, as a promise", async () => keeper],
  ];
  it.each(find)(
    "H7: without a wrapper, the agent that needs no arrival counts: %s",
    async (_, agent) => {
      const hooks = webhooks(
        github({ secret: "SECRET", name, path: "/hooks/x", agent: agent as () => typeof keeper }),
      );
      await refuse(hooks, 7);
      await vi.advanceTimersByTimeAsync(10_000);
      expect(told).toEqual([{ source: name, reason: "signature", count: 7 }]);
      await Promise.all(ctx.works);
    },
  );

  it("H1, H7: a refused request selects no agent, and the agent of the next arrival counts", async () => {
    const selected: unknown[] = [];
    const agent = new FakeAgent();
    const counting = Object.assign(agent, {
      callKernel: async (verb: string, request: never) => {
        if (verb === "countRefused") told.push(request);
        else return FakeAgent.prototype.callKernel.call(agent, "acceptArrival", request);
      },
    });
    const hooks = webhooks(
      github({
        secret: "SECRET",
        name,
        path: "/hooks/x",
        agent: ({ body }) => {
          selected.push(body);
          return counting as unknown as FakeAgent;
        },
      }),
    );
    await refuse(hooks, 6);
    await vi.advanceTimersByTimeAsync(11_000);
    expect([selected, told]).toEqual([[], []]);
    const signature = `sha256=${await hmacHex(SECRET, "{}")}`;
    const headers = { "x-hub-signature-256": signature, "x-github-delivery": "1" };
    await hooks(post("/hooks/x", "{}", headers), bindings, ctx);
    await Promise.all(ctx.works);
    expect(selected).toEqual([{}]);
    expect(told).toEqual([{ source: name, reason: "signature", count: 6 }]);
  });

  it("refuses what is no endpoint, and no function", () => {
    const endpoint = github({ secret: "SECRET", name, agent: noAgent });
    const ofLinks = links({ secret: "LINKS" });
    for (const given of [undefined, {}, ofLinks])
      expect(() => countRefusals(given as never, () => keeper)).toThrow(
        /Invalid endpoint .*github/,
      );
    expect(() => countRefusals(endpoint, keeper as never)).toThrow(/Invalid agent .*a function/);
  });
});
