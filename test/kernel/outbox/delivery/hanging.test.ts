/**
 * O2 beside many endpoints that accept a request and never answer: a delivery
 * to a destination of any kind starts within a second. Real requests to real servers.
 */

import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { getAgentByName } from "agents";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  agent,
  type Destination,
  method,
  queue,
  webhook,
  workflowEvent,
} from "../../../../src/kernel/outbox/index.ts";
import { crash, until } from "../../../support/given.ts";
import { sleep } from "../../../support/ledger.ts";
import {
  hangingAt,
  receivedBy,
  receiverUrl,
  someReceiver,
} from "../../../support/receivers/client.ts";

/** Far less than an attempt at an endpoint that hangs takes: a delivery that waited for the end of one would be later. */
const WITHIN_MS = 10_000;
/** When the first attempt of a delivery began, by its id. */
const startedAt = new Map<string, number>();

type Seen = { readonly type: string; readonly payload: { readonly id?: string } };
const note = (seen: unknown) => {
  const { type, payload } = seen as Seen;
  const isFirst = type === "outbox:attempt" && !startedAt.has(payload.id ?? "");
  if (isFirst) startedAt.set(payload.id ?? "", Date.now());
};

beforeAll(() => subscribe("agents:lifecycle", note));
afterAll(() => void unsubscribe("agents:lifecycle", note));

const hook = (url: string) => webhook(url, { secret: "HOOK_SECRET" });

/** One destination of each kind, each of them healthy; `known` has answered before. */
const healthy = (known: string): Record<string, Destination> => ({
  "a method": method("onOrder"),
  "an agent": agent({ agent: "ReceiverAgent", name: someReceiver(), method: "take" }),
  "a workflow": workflowEvent({
    workflow: "WAITING_WORKFLOW",
    instance: "none",
    eventType: "ended",
  }),
  "a queue": queue("QUEUE"),
  "an endpoint that has answered": hook(receiverUrl(`/ok/${known}`)),
  "an endpoint that has not": hook(receiverUrl(`/ok/${someReceiver()}`)),
});

describe("Beside endpoints that hang", () => {
  it.each([100, 300])(
    "O2: every other destination is delivered to at once beside %i hanging endpoints",
    async (count) => {
      const stub = await getAgentByName(env.OutboxAgent, `hanging-${crypto.randomUUID()}`);
      const known = someReceiver();
      await stub.order("first", [hook(receiverUrl(`/ok/${known}`))]);
      await until(async () => (await receivedBy(known)).length === 1);
      const hanging = Array.from({ length: count }, () =>
        hook(receiverUrl(`/hang/${someReceiver()}`)),
      );
      await stub.order("hanging", hanging);
      for (const waitMs of [0, 300, 2_500, 4_000]) {
        await sleep(waitMs);
        const all = healthy(known);
        const putAt = Date.now();
        const ids = await stub.order(`after ${waitMs}`, Object.values(all));
        await until(() => ids.every((id) => startedAt.has(id))).catch(() => {});
        for (const [index, name] of Object.keys(all).entries()) {
          const delay = (startedAt.get(ids[index] ?? "") ?? Number.POSITIVE_INFINITY) - putAt;
          expect(delay, `${name}, ${waitMs} ms later`).toBeLessThan(WITHIN_MS);
        }
      }
      await runInDurableObject(stub, async ({ outbox }) => {
        expect((await outbox.stats()).waiting).toBeGreaterThanOrEqual(count);
      });
      await crash();
    },
  );

  it("O2: at most eight requests wait for endpoints that have not responded yet", async () => {
    const stub = await getAgentByName(env.OutboxAgent, `hanging-${crypto.randomUUID()}`);
    const name = someReceiver();
    const hanging = Array.from({ length: 60 }, (_, nth) =>
      hook(receiverUrl(`/hang/${name}?${nth}`)),
    );
    await stub.order("hanging", hanging);
    const seen: number[] = [];
    for (let look = 0; look < 40; look++) {
      await sleep(200);
      seen.push(await hangingAt(name));
    }
    // Two of them are of endpoints that are known to hang.
    expect(Math.max(...seen), seen.join()).toBeLessThanOrEqual(10);
    // Most of the time: a busy machine answers a look late.
    const median = seen.toSorted((one, other) => one - other)[seen.length / 2];
    expect(median, seen.join()).toBeGreaterThanOrEqual(4);
    await crash();
  });

  it("O3: a slow endpoint that loses its slot gets its whole timeout later", async () => {
    const stub = await getAgentByName(env.OutboxAgent, `hanging-${crypto.randomUUID()}`);
    const slow = someReceiver();
    const policy = { maxAttempts: 1, backoff: { base: 1, cap: 1 } };
    const to = webhook(receiverUrl(`/slow/4000/${slow}`), { secret: "HOOK_SECRET", policy });
    const hanging = Array.from({ length: 12 }, () => hook(receiverUrl(`/hang/${someReceiver()}`)));
    const [id = ""] = await stub.order("slow", [to, ...hanging]);
    await until(() =>
      runInDurableObject(stub, async ({ outbox }) => (await outbox.inspect(id)) === null),
    );
    expect(await receivedBy(slow)).toHaveLength(2);
    await runInDurableObject(stub, async ({ outbox }) => {
      expect((await outbox.stats()).deadLetters).toBe(0);
    });
    await crash();
  });
});
