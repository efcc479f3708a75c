/** Deliveries are listed, by state, destination and submission; and those that no run waits for are discarded. */

import { describe, expect, it } from "vitest";
import { because } from "../../src/core/failures.ts";
import { NotNeededError } from "../../src/outbox/errors.ts";
import {
  type DeliveryInfo,
  type Destination,
  queue,
  UndeliverableError,
} from "../../src/outbox/index.ts";
import { until } from "../support/given.ts";
import { arrived, forever, givenLedgerWith, somewhere, submit, within } from "../support/ledger.ts";
import { couriers } from "../support/objects/ledger-object.ts";
import {
  type Box,
  crashBox,
  givenListening,
  givenOutbox,
  inside,
  orphansIn,
  putAll,
  WEBHOOK,
  wakeBox,
  workflowNamed,
} from "../support/outbox.ts";

const idsOf = (deliveries: readonly DeliveryInfo[]) => deliveries.map(({ id }) => id);

/** What becomes of a delivery is in its id. */
function deliver({ id }: { id: string }): void {
  if (id.startsWith("dead")) throw new UndeliverableError("never");
  if (id.startsWith("discarded")) throw new NotNeededError("it is complete");
  if (id.startsWith("waiting")) throw new Error("not now");
}

const LATER = { backoff: { base: "1 hour", cap: "1 hour" } } as const;

async function givenOneOfEach(): Promise<Box> {
  const box = givenOutbox({ settings: { keepDelivered: {}, policy: LATER }, deliver });
  await putAll(box, ["waiting"]);
  await putAll(box, ["dead"]);
  await putAll(box, ["discarded"], queue("Q"));
  await putAll(box, ["delivered"], WEBHOOK);
  await until(() =>
    inside(box, async ({ outbox }) => {
      const states = await Promise.all(
        ["waiting", "dead", "discarded", "delivered"].map((id) => outbox.inspect(id)),
      );
      const [waiting] = states;
      const isWaiting = waiting?.state === "waiting" && waiting.lastError !== undefined;
      return isWaiting && states.slice(1).every((found) => found?.state !== "waiting");
    }),
  );
  return box;
}

describe("Lists of deliveries", () => {
  it("O3: an error is stored with its cause, and listed without", async () => {
    const fail = (error: Error) => because(error, "secret-missing", "S");
    const box = givenOutbox({
      settings: { policy: LATER },
      deliver: ({ id }) => {
        throw fail(id === "dead" ? new UndeliverableError("never") : new Error("not now"));
      },
    });
    await putAll(box, ["waiting"]);
    await putAll(box, ["dead"], queue("Q"));
    await until(() =>
      inside(box, async ({ outbox }) => (await outbox.inspect("dead"))?.state === "dead"),
    );
    await inside(box, async ({ outbox }, { storage }) => {
      expect(await outbox.inspect("waiting")).toMatchObject({ lastError: "not now" });
      const { items: deadLetters } = await outbox.listDeadLetters();
      expect(deadLetters).toMatchObject([{ id: "dead", lastError: "never" }]);
      const query =
        "SELECT last_error AS text FROM perdure_outbox UNION ALL SELECT reason FROM perdure_outbox_ended";
      const texts = storage.sql.exec<{ text: string }>(query).toArray();
      expect(texts.map(({ text }) => text)).toEqual([
        "#secret-missing/S not now",
        "#secret-missing/S never",
      ]);
    });
  });

  it("O3: a list has each delivery with its destination and state, and no event", async () => {
    const box = await givenOneOfEach();
    await inside(box, async ({ outbox }) => {
      const { items: deliveries, cursor } = await outbox.listDeliveries();
      expect(cursor).toBeUndefined();
      const at = expect.any(Number);
      const byId = Object.fromEntries(deliveries.map((found) => [found.id, found]));
      const plain = workflowNamed("plain");
      expect(byId).toEqual({
        waiting: {
          ...{ id: "waiting", destination: plain, createdAt: at, state: "waiting" },
          ...{ attempt: 2, dueAt: at, lastError: "not now" },
        },
        dead: {
          ...{ id: "dead", destination: plain, createdAt: at, state: "dead" },
          ...{ attempt: 1, diedAt: at, lastError: "never" },
        },
        discarded: {
          ...{ id: "discarded", destination: queue("Q"), createdAt: at, state: "discarded" },
          ...{ attempt: 1, discardedAt: at, reason: "it is complete" },
        },
        delivered: {
          ...{ id: "delivered", destination: WEBHOOK, createdAt: at, state: "delivered" },
          ...{ attempt: 1, deliveredAt: at },
        },
      });
    });
  });

  it.each<[object, string[]]>([
    [{ state: "waiting" }, ["waiting"]],
    [{ state: ["dead", "delivered"] }, ["dead", "delivered"]],
    [{ state: "discarded" }, ["discarded"]],
    [{ state: "delivered" }, ["delivered"]],
    [{ kind: "workflow" }, ["dead", "waiting"]],
    [{ kind: "workflow", state: "waiting" }, ["waiting"]],
    [{ destination: WEBHOOK }, ["delivered"]],
    [{ destination: workflowNamed("another") }, []],
    [{ submissionId: "s" }, []],
  ])("O3: a list by %j has exactly those deliveries", async (options, ids) => {
    const box = await givenOneOfEach();
    await inside(box, async ({ outbox }) => {
      const { items: deliveries } = await outbox.listDeliveries(options);
      expect(idsOf(deliveries).toSorted()).toEqual(ids);
    });
  });

  it("O3: pages over all states have no gap, newest first", async () => {
    const { box } = givenListening({ settings: { policy: LATER }, deliver });
    const ids = ["waiting 1", "dead 1", "waiting 2", "discarded 1", "dead 2"];
    for (const id of ids) await putAll(box, [id], workflowNamed(id));
    await until(() =>
      inside(
        box,
        async ({ outbox }) =>
          (await outbox.stats()).waiting === 2 &&
          (await outbox.inspect("dead 2"))?.state === "dead",
      ),
    );
    await inside(box, async ({ outbox }) => {
      const found: string[] = [];
      let cursor: string | undefined;
      do {
        const page = await outbox.listDeliveries({ limit: 2, cursor });
        expect(page.items.length).toBeLessThanOrEqual(2);
        found.push(...idsOf(page.items));
        cursor = page.cursor;
      } while (cursor);
      expect(found.toSorted()).toEqual(ids.toSorted());
      expect(found).toEqual(idsOf((await outbox.listDeliveries()).items));
    });
  });

  it("O3: a list does not show the proof of an event", async () => {
    const box = givenOutbox({ deliver: forever });
    await putAll(box, ["e"], { ...workflowNamed("w"), proof: "secret" });
    await inside(box, async ({ outbox }) => {
      const page = await outbox.listDeliveries();
      expect(idsOf(page.items)).toEqual(["e"]);
      expect(JSON.stringify(page)).not.toContain("secret");
    });
  });

  it.each([
    [{ limit: 0 }, /Invalid limit 0: expected a whole number from 1 to 1000/],
    [{ cursor: "page 2" }, /Invalid cursor "page 2": expected the cursor of an earlier page/],
    [
      { state: "gone" },
      /Invalid state "gone": expected one or more of waiting, delivered, discarded, dead/,
    ],
    [{ state: [] }, /Invalid state \[\]: expected one or more of/],
    [{ kind: "fax" }, /Invalid kind "fax": expected one of agent, method, queue, webhook/],
    [{ submissionId: 1 }, /Invalid submissionId 1: expected a string/],
    [
      { submissionId: undefined },
      /Invalid submissionId undefined in options of listDeliveries\(\)/,
    ],
    [{ to: "w" }, /Unknown option "to" in options of listDeliveries/],
    [{ destination: {} }, /Invalid destination.kind undefined: expected one of/],
  ])("O3: a list with invalid options is refused: %o", async (options, message) => {
    await inside(givenOutbox({ deliver }), async ({ outbox }) => {
      const listing = outbox.listDeliveries(options as object);
      await expect(listing).rejects.toThrow(message);
      await expect(listing).rejects.toHaveProperty("name", "InvalidFilterError");
    });
  });
});

describe("The deliveries of a submission", () => {
  const to = () => ({ ...somewhere() }) as Destination & { instance: string };

  it("O1: a list by submissionId has exactly its deliveries, also where one id begins with another", async () => {
    const stub = givenLedgerWith({ keepDelivered: {} });
    const ids = ["s", "s/2", "s 2", "ü".repeat(900)];
    const others = await Promise.all(
      ids.map(async (submissionId) => {
        const notify = [to(), to()];
        const [, second] = notify;
        if (second) couriers.set(second.instance, forever);
        await submit(stub, {}, { submissionId, notify: () => notify });
        await arrived(notify[0] as never);
        return notify;
      }),
    );
    await within(stub, async ({ outbox }) => {
      for (const [index, submissionId] of ids.entries()) {
        await until(
          async () =>
            (await outbox.listDeliveries({ submissionId, state: "delivered" })).items.length === 1,
        );
        const { items: deliveries } = await outbox.listDeliveries({ submissionId });
        expect(deliveries.map(({ state }) => state).toSorted()).toEqual(["delivered", "waiting"]);
        const isShort = submissionId.length < 200;
        expect(deliveries.map((found) => found.submissionId)).toEqual(
          isShort ? [submissionId, submissionId] : [undefined, undefined],
        );
        const instances = deliveries.map(
          ({ destination }) => (destination as { instance?: string }).instance,
        );
        expect(instances.toSorted()).toEqual(
          others[index]?.map(({ instance }) => instance).toSorted(),
        );
      }
    });
  });

  it("L9: a list by submissionId reads only the rows of its deliveries", async () => {
    const stub = givenLedgerWith({ keepDelivered: {} });
    await submit(stub, {}, { submissionId: "s", notify: () => [somewhere()] });
    await within(stub, async ({ outbox, meter }, ctx) => {
      await until(
        async () =>
          (await outbox.listDeliveries({ submissionId: "s" })).items[0]?.state === "delivered",
      );
      for (let n = 0; n < 300; n++) {
        ctx.storage.sql.exec(
          "INSERT INTO perdure_outbox_ended VALUES (?, 'k', 'dead', 0, 0, 1, 1, 1, 1, 0, NULL, 'no', '{}', '1')",
          `other ${n}`,
        );
      }
      meter.reset();
      await outbox.listDeliveries({ submissionId: "s" });
      expect(meter.read().rowsRead).toBeLessThan(10);
    });
  });
});

describe("An event that no step waits for", () => {
  it("O3: it is discarded with its parts, is no dead letter, and leaves no wake", async () => {
    const notified: string[] = [];
    const box = givenOutbox({ deliver, onDeadLetter: ({ id }) => void notified.push(id) });
    await putAll(box, ["discarded"], workflowNamed("w"), "x".repeat(600_000));
    const found = await until(() =>
      inside(box, async ({ outbox }) => {
        const state = await outbox.inspect("discarded");
        return state?.state === "discarded" && state;
      }),
    );
    expect(found).toEqual({
      state: "discarded",
      attempt: 1,
      discardedAt: expect.any(Number),
      reason: "it is complete",
    });
    await inside(box, async ({ outbox }, ctx) => {
      expect(await outbox.stats()).toEqual({ waiting: 0, deadLetters: 0 });
      expect(orphansIn(ctx)).toEqual([]);
      expect(await outbox.read("discarded")).toBeNull();
      expect(await outbox.redrive("discarded")).toBe(false);
    });
    expect(notified).toEqual([]);
  });

  it("O3: a crash before it is stored as discarded repeats the attempt, with the same outcome", async () => {
    let times = 0;
    const box = givenOutbox({
      deliver: (sent) => {
        if (++times === 1) return forever();
        return deliver(sent);
      },
    });
    await putAll(box, ["discarded"]);
    await until(() => times === 1);
    await crashBox(box);
    await until(async () => {
      await wakeBox(box);
      return inside(
        box,
        async ({ outbox }) => (await outbox.inspect("discarded"))?.state === "discarded",
      );
    });
  });
});

it("O3: a redrive sends nothing to a disabled endpoint, and counts only sent entries", async () => {
  let isMended = false;
  const box = givenOutbox({
    deliver: () => {
      if (!isMended) throw new UndeliverableError("never");
    },
  });
  await putAll(box, ["a", "b"]);
  await putAll(box, ["hook"], WEBHOOK);
  await until(() => inside(box, async ({ outbox }) => (await outbox.countDeadLetters()) === 3));
  isMended = true;
  await inside(box, async ({ outbox }) => {
    await outbox.disableEndpoint(WEBHOOK.url);
    expect(await outbox.redrive("hook")).toBe(false);
    expect(await outbox.redriveAll()).toBe(2);
    expect(await outbox.countDeadLetters()).toBe(1);
    expect(await outbox.enableEndpoint(WEBHOOK.url)).toBe(0);
    expect(await outbox.redrive("hook")).toBe(true);
  });
});
