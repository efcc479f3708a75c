/**
 * O2 beside many endpoints that accept a request and never answer: a delivery to a destination of any kind waits for
 * the end of none of their attempts. Real requests to real servers.
 */

import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { getAgentByName } from "agents";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import {
  agent,
  type Destination,
  method,
  queue,
  webhook,
  workflowEvent,
} from "../../../src/outbox/index.ts";
import { crash, until } from "../../support/given.ts";
import { receivedBy, receiverUrl, someReceiver } from "../../support/receivers/client.ts";
import { HANG_MS } from "../../support/sizes.ts";

/** Deliveries whose first attempt has begun. */
const started = new Set<string>();

type Seen = { readonly type: string; readonly payload: { readonly id?: string } };
const note = (seen: unknown) => {
  const { type, payload } = seen as Seen;
  if (type === "outbox:attempt") started.add(payload.id ?? "");
};

beforeAll(() => subscribe("agents:lifecycle", note));
afterAll(() => void unsubscribe("agents:lifecycle", note));

const hook = (url: string) => webhook(url, { secret: "HOOK_SECRET" });
/** An endpoint that never answers, at which an attempt has no end. */
const hangingHook = (path: string) =>
  webhook(receiverUrl(path), { secret: "HOOK_SECRET", policy: { timeout: "1 day" } });

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
      const hanging = await stub.order(
        "hanging",
        Array.from({ length: count }, () => hangingHook(`/hang/${someReceiver()}`)),
      );
      // An endpoint after the seventh is tried only when another one has lost its slot.
      for (const tried of [0, 4, 8, 16]) {
        await until(() => hanging.filter((id) => started.has(id)).length >= tried);
        const all = healthy(known);
        const ids = await stub.order(`after ${tried}`, Object.values(all));
        await until(() => ids.every((id) => started.has(id))).catch(() => {});
        const late = Object.keys(all).filter((_, index) => !started.has(ids[index] ?? ""));
        expect(late, `after ${tried} attempts`).toEqual([]);
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
    let open = 0;
    const seen: number[] = [];
    const { fetch } = globalThis;
    using _ = vi.spyOn(globalThis, "fetch").mockImplementation((to, options) => {
      if (String(to).includes(name)) {
        seen.push(++open);
        options?.signal?.addEventListener("abort", () => open--);
      }
      return fetch(to, options);
    });
    const hanging = Array.from({ length: 60 }, (_, nth) => hangingHook(`/hang/${name}?${nth}`));
    await stub.order("hanging", hanging);
    await until(() => seen.length >= 24);
    // Two of them are of endpoints that are known to hang.
    expect(Math.max(...seen), seen.join()).toBeLessThanOrEqual(10);
    expect(Math.max(...seen), seen.join()).toBeGreaterThanOrEqual(4);
    await crash();
  });

  it("O3: a slow endpoint that loses its slot gets its whole timeout later", async () => {
    const stub = await getAgentByName(env.OutboxAgent, `hanging-${crypto.randomUUID()}`);
    const slow = someReceiver();
    const policy = { maxAttempts: 1, backoff: { base: 1, cap: 1 }, timeout: HANG_MS };
    // Longer than an endpoint keeps its slot.
    const to = webhook(receiverUrl(`/late/2000/${slow}`), { secret: "HOOK_SECRET", policy });
    const hanging = Array.from({ length: 12 }, () => hangingHook(`/hang/${someReceiver()}`));
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
