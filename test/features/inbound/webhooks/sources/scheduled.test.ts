import { createExecutionContext, createScheduledController } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { handlers } from "../../../../../src/features/inbound/offer.ts";
import {
  type ScheduledHandler,
  scheduled,
} from "../../../../../src/features/inbound/webhooks/sources/scheduled.ts";
import { FakeAgent, NO_ROOM } from "./fake-agent.ts";

let agent: FakeAgent;
let logged: string[];
beforeEach(() => {
  agent = new FakeAgent();
  logged = [];
  vi.spyOn(console, "error").mockImplementation((line: string) => void logged.push(line));
});
afterEach(() => vi.restoreAllMocks());

const NINE = "0 9 * * *";
const fire = (handler: ScheduledHandler, cron = NINE, at = 1_000) =>
  handler(createScheduledController({ cron, scheduledTime: at }), env, createExecutionContext());

const submitting = (options: { attempts?: number; timeout?: number; cron?: string } = {}) =>
  scheduled({
    retryDelay: 1,
    ...options,
    agent: () => agent,
    handle: ({ body }, stub) => stub.submitMessages([body.cron, body.scheduledTime]),
  });

describe("scheduled()", () => {
  it("runs an occurrence once, however often the platform calls the handler", async () => {
    await fire(submitting());
    await fire(submitting());
    expect(agent.accepted.size).toBe(1);
    expect(agent.requests[0]).toMatchObject({
      arrival: {
        source: "scheduled",
        id: expect.stringMatching(/^1000-[0-9a-f]{16}$/),
        type: NINE,
        body: { cron: NINE, scheduledTime: 1_000 },
      },
      call: { verb: "submitMessages", args: [[NINE, 1_000]] },
    });
  });

  it("runs each time of each cron expression", async () => {
    await fire(submitting());
    await fire(submitting(), NINE, 2_000);
    await fire(submitting(), "* * * * *", 2_000);
    expect(agent.accepted.size).toBe(3);
  });

  it("tries again within the invocation until the agent accepts", async () => {
    agent.next.push(new Error("unreachable"), { ...NO_ROOM, retryAfter: 0.001 } as typeof NO_ROOM);
    await fire(submitting());
    expect(agent.accepted.size).toBe(1);
    expect(agent.requests).toHaveLength(3);
  });

  it("rejects after the last attempt, so that the platform shows the failure", async () => {
    for (let n = 0; n < 9; n++) agent.next.push(new Error("unreachable"));
    await expect(fire(submitting())).rejects.toThrow("unreachable");
    expect(agent.requests).toHaveLength(3);
    await expect(fire(submitting({ attempts: 1 }))).rejects.toThrow("unreachable");
    expect(agent.requests).toHaveLength(4);
    expect(logged).toHaveLength(4);
  });

  it("rejects when an agent gives no answer in time", async () => {
    agent.next.push(new Promise<never>(() => {}));
    await expect(fire(submitting({ attempts: 1, timeout: 50 }))).rejects.toThrow("within 50 ms");
  });

  it("ends without an arrival when no agent wants the occurrence", async () => {
    await fire(scheduled({ agent: () => undefined, handle: () => {} }));
    expect(agent.requests).toEqual([]);
  });

  it("passes other cron expressions to the next handler, and fails without one", async () => {
    const other = vi.fn<ScheduledHandler>(async () => {});
    const own = { cron: NINE, agent: () => agent, handle: () => {} };
    await fire(scheduled(own, other), "* * * * *");
    expect(other).toHaveBeenCalledOnce();
    await expect(fire(scheduled(own), "* * * * *")).rejects.toThrow('scheduled() handles "0 9');
    expect(handlers.has("scheduled:0_9_*_*_*")).toBe(true);
  });

  it("refuses invalid options when it is made", () => {
    const valid = { agent: () => agent, handle: () => {} };
    const refused = (options: object) => () => scheduled({ ...valid, ...options } as typeof valid);
    expect(refused({ retry: 1 })).toThrow('Unknown option "retry" in the options of scheduled()');
    expect(refused({ attempts: 8 })).toThrow("Invalid attempts 8: expected a whole number from 1");
    expect(refused({ timeout: "2 minutes" })).toThrow("Invalid timeout");
    expect(refused({ cron: 5 })).toThrow("Invalid cron 5");
  });
});
