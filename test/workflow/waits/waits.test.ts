/** Waits of every kind: each is closed once and notifies once, and is driven and stopped across crashes. */

import { afterEach, describe, expect, it, vi } from "vitest";
import type { Meter } from "../../../src/testing/index.ts";
import type { StoredKind, Wait } from "../../../src/workflow/waits/protocol.ts";
import { until } from "../../support/given.ts";
import { jobOf, sleep, waitingIn } from "../../support/ledger.ts";
import {
  endEvents,
  type WaitsObject,
  type WaitsScript,
  waitsScripts,
  waitsTime,
} from "../../support/objects/waits-object.ts";
import { silence } from "../../support/scheduler.ts";
import {
  ask,
  type Capability,
  crash,
  givenWaits,
  inside,
  open,
  rowsOf,
  start,
  wake,
} from "../../support/waits.ts";

const DAY_MS = 86_400_000;
const DONE = { status: "completed", result: { answer: 42 } } as const;
const EXPIRED = { status: "expired", result: null } as const;
const CANCELLED = { status: "cancelled", result: null } as const;

afterEach(() => {
  waitsTime.aheadMs = 0;
});

const close = (
  stub: Capability,
  waitId: string,
  closing: Parameters<WaitsObject["waits"]["settle"]>[1] = DONE,
) => inside(stub, ({ waits }) => waits.settle(waitId, closing));

const expire = (stub: Capability, waitId: string) =>
  inside(stub, ({ waits }) => waits.close({ waitId }, EXPIRED));

const cameTo = (instance: string) => endEvents.get(instance) ?? [];

/** An object with waits of a driven kind; `again` is the result of a drive. */
function givenDriven(kind: (object: WaitsObject) => Partial<StoredKind>) {
  return givenWaits({
    kinds: (object) => ({ codemode: { answersLaterRuns: () => true, ...kind(object) } }),
  });
}

describe("W1: a wait is asked for again", () => {
  it("W1: an open wait is found again, also by a later run, which takes it over", async () => {
    const stub = givenWaits();
    const request = ask();
    const first = await open(stub, request);
    const again = await open(stub, request);
    await crash(stub);
    const later = await open(stub, { ...request, run: "run-2", timeoutMs: 120_000 });
    expect([again, later]).toEqual([first, first]);
    const found = await inside(stub, ({ waits }) => waits.find(first.waitId));
    expect(found).toMatchObject({ run: "run-2", status: "open" });
    expect(await rowsOf(stub)).toHaveLength(1);
  });

  it("W1: answers its own run with its end, and a later run where its kind says so", async () => {
    const stub = givenDriven(() => ({}));
    const requests = [ask(), ask({ kind: "codemode" })];
    const ids: string[] = [];
    for (const request of requests) {
      const { waitId } = await open(stub, request);
      ids.push(waitId);
      await close(stub, waitId);
      expect(await open(stub, request)).toMatchObject({ end: { waitId, ...DONE } });
    }
    const [approval, codemode] = requests.map((request) => ({ ...request, run: "run-2" }));
    const later = await open(stub, approval ?? ask());
    expect(later.end).toBeUndefined();
    expect(ids).not.toContain(later.waitId);
    expect(await open(stub, codemode ?? ask())).toMatchObject({ end: { waitId: ids[1] } });
    expect(await rowsOf(stub)).toHaveLength(3);
  });
});

describe("W1: a later run that asks something else", () => {
  const titled = (title: string) => ({ title, data: null, schema: null });

  it("W1: a person is asked anew where a later run asks something else than is pending; what runs is taken over", async () => {
    const notified: string[] = [];
    const stub = givenWaits({
      onApproval: ({ title, status }) => void notified.push(`${title} ${status}`),
    });
    const request = ask({ request: titled("Pay 5") });
    const first = await open(stub, request);
    const later = { ...request, run: "run-2", request: titled("Pay 500") };
    const second = await open(stub, later);
    expect(second.waitId).not.toBe(first.waitId);
    expect(await open(stub, later)).toEqual(second);
    expect((await rowsOf(stub)).map(({ status }) => status)).toEqual(["cancelled", "open"]);
    await until(() => notified.length === 3);
    expect(notified).toEqual(["Pay 5 pending", "Pay 5 cancelled", "Pay 500 pending"]);
    expect(cameTo(request.workflow.id)).toEqual([]);
    const code = ask({ kind: "agent-tool", request: { code: "1" } });
    const running = await open(stub, code);
    expect(await open(stub, { ...code, run: "run-2", request: { code: "2" } })).toEqual(running);
  });
});

describe("O1: a wait is closed once", () => {
  it("L2: the first end stands, and the workflow is told of it once", async () => {
    const stub = givenWaits();
    const request = ask();
    const { waitId, eventType, proof } = await open(stub, request);
    expect(await close(stub, waitId)).toMatchObject({ ...DONE, isLive: false });
    expect(await close(stub, waitId, CANCELLED)).toBeUndefined();
    expect(await expire(stub, waitId)).toMatchObject(DONE);
    const { id: instance } = request.workflow;
    await until(() => cameTo(instance).length > 0);
    expect(cameTo(instance)).toMatchObject([{ eventType, proof, data: { waitId, ...DONE } }]);
  });

  it("O1: a crash before or after any write leaves it open and untold, or closed and told", async () => {
    silence();
    const seen = new Set<string>();
    for (const when of ["onWrite", "onWritten"] as const) {
      for (let write = 1; write <= 6; write++) {
        const stub = givenWaits();
        const request = ask();
        const { waitId } = await open(stub, request);
        await inside(stub, async ({ meter, waits }, ctx) => {
          await ctx.storage.sync();
          meter.reset();
          meter[when] = (now) => {
            if (now === write) ctx.abort("crash");
          };
          await waits.settle(waitId, DONE);
          await until(() => waitingIn(ctx).length === 0);
          await ctx.storage.sync();
        }).catch(() => {});
        await crash(stub);
        await start(stub);
        const [row] = await rowsOf(stub);
        const { id: instance } = request.workflow;
        const status = row?.status ?? "gone";
        seen.add(status);
        if (status === "completed") await until(() => cameTo(instance).length > 0);
        else expect(cameTo(instance), `${when} ${write}`).toEqual([]);
        // Whatever was left is brought to its end by the next call.
        await close(stub, waitId);
        await until(() => cameTo(instance).length > 0);
        expect(new Set(cameTo(instance).map(({ id }) => id)).size).toBe(1);
      }
    }
    expect(seen).toEqual(new Set(["open", "completed"]));
  });

  it("O1: a close whose event cannot be stored is no close", async () => {
    const stub = givenWaits();
    const { waitId } = await open(stub, ask());
    await inside(stub, async ({ meter, waits }) => {
      meter.reset();
      meter.onWrite = (write) => {
        if (write === 2) throw new Error("no stub in the outbox");
      };
      await expect(waits.settle(waitId, DONE)).rejects.toThrow("no stub");
      meter.onWrite = undefined;
    });
    expect(await rowsOf(stub)).toMatchObject([{ status: "open" }]);
    expect(await close(stub, waitId)).toMatchObject(DONE);
  });
});

it("O2: an end whose delivery hangs is delivered by the next life, by the alarm alone", async () => {
  silence();
  let tries = 0;
  const stub = givenWaits({
    deliver: () => (++tries === 1 ? new Promise(() => {}) : Promise.resolve()),
    kinds: () => ({ codemode: { answersLaterRuns: () => true, drive: async () => null } }),
  });
  const request = ask({ kind: "codemode" });
  const { waitId } = await open(stub, request);
  await close(stub, waitId);
  await until(() => tries === 1);
  // The wake that the outbox relies on comes while it is still busy.
  waitsTime.aheadMs = 31_000;
  await wake(stub);
  await crash(stub);
  waitsTime.aheadMs = 62_000;
  expect(await wake(stub)).toBe(true);
  await until(async () => {
    await wake(stub);
    return cameTo(request.workflow.id).length > 0;
  });
});

describe("W2: a kind of wait that the object does not have", () => {
  it("W2: an unknown kind of wait is refused with the remedy, and nothing is stored", async () => {
    const stub = givenWaits();
    const refused = open(stub, ask({ kind: "codemode" }));
    await expect(refused).rejects.toMatchObject({ name: "InvalidWaitError", field: "kind" });
    await expect(refused).rejects.toThrow("in the version of its workflows");
    expect(await rowsOf(stub)).toEqual([]);
  });

  it("W2: a wait whose kind is gone after a deploy says so when its workflow asks, goes on when the kind is back, and else expires", async () => {
    const log = vi.spyOn(console, "warn").mockImplementation(() => {});
    let drives = 0;
    const drive = async () => {
      drives++;
      return null;
    };
    const script: WaitsScript = {
      kinds: () => ({ codemode: { answersLaterRuns: () => true, drive } }),
    };
    const stub = givenWaits(script);
    const { waitId } = await open(stub, ask({ kind: "codemode" }));
    await until(() => drives === 1);
    waitsScripts.set(stub.name ?? "", {});
    await crash(stub);
    await wake(stub);
    expect(await inside(stub, ({ waits }) => waits.check({ waitId }))).toBeNull();
    const said = log.mock.calls.filter(([text]) => String(text).includes(waitId));
    expect(said).toHaveLength(1);
    expect(String(said[0])).toContain('The agent takes no step of the kind "codemode"');
    waitsScripts.set(stub.name ?? "", script);
    await crash(stub);
    await start(stub);
    await until(() => drives === 2);
    waitsScripts.set(stub.name ?? "", {});
    await crash(stub);
    expect(await expire(stub, waitId)).toMatchObject({ waitId, ...EXPIRED });
    log.mockRestore();
  });
});

describe("W2: no wait stays open for ever", () => {
  it("W2: the step's time is over: closed as it says, and no event comes", async () => {
    const stub = givenWaits();
    const request = ask();
    const { waitId } = await open(stub, request);
    expect(await expire(stub, waitId)).toMatchObject({ waitId, ...EXPIRED });
    expect(await expire(stub, waitId)).toMatchObject({ waitId, ...EXPIRED });
    expect(cameTo(request.workflow.id)).toEqual([]);
    const unknown = inside(stub, ({ waits }) => waits.close({ waitId: "nobody" }, EXPIRED));
    await expect(unknown).rejects.toMatchObject({ name: "InvalidWaitError", field: "waitId" });
  });

  it("W2: the time of one run does not end the wait of a later one that has taken the wait over meanwhile", async () => {
    const looks: (() => void)[] = [];
    const stub = givenDriven(() => ({
      lastLook: () => new Promise<undefined>((resolve) => looks.push(() => resolve(undefined))),
    }));
    const request = ask({ kind: "codemode" });
    const { waitId } = await open(stub, request);
    await inside(stub, async ({ waits }) => {
      const expired = waits.close({ waitId }, EXPIRED);
      await until(() => looks.length === 1);
      await waits.open({ ...request, run: "run-2" });
      looks[0]?.();
      expect(await expired).toBeNull();
    });
    expect(await rowsOf(stub)).toMatchObject([{ status: "open" }]);
  });

  it.each<[string, (stub: Capability, waitId: string) => Promise<unknown>]>([
    ["was closed", (stub, waitId) => close(stub, waitId)],
    ["was cancelled", (stub, waitId) => expire(stub, waitId)],
  ])(
    "O5: one that %s leaves no wake for the day on which it would have expired",
    async (_, end) => {
      const stub = givenWaits();
      const { waitId } = await open(stub, ask({ timeoutMs: 30 * DAY_MS }));
      const armedFor = () => inside(stub, (__, ctx) => jobOf(ctx));
      expect(await armedFor()).toBeGreaterThan(Date.now() + 30 * DAY_MS);
      await end(stub, waitId);
      // The one that is left may lapse, which takes half a minute.
      expect((await armedFor()) ?? 0).toBeLessThanOrEqual(Date.now() + 30_000);
      await wake(stub);
      expect(await armedFor()).toBeNull();
    },
  );

  it("O5: the wake of those that are still open comes after the one that an end has drawn near", async () => {
    const stub = givenWaits();
    const { waitId } = await open(stub, ask({ timeoutMs: 30 * DAY_MS }));
    await open(stub, ask({ timeoutMs: 60 * DAY_MS }));
    await close(stub, waitId);
    await wake(stub);
    const armedFor = await inside(stub, (_, ctx) => jobOf(ctx));
    expect(armedFor).toBe((await rowsOf(stub))[1]?.wake_at);
  });

  it("W2: nobody asks for it any more: it expires a day after its step's time, by the alarm alone", async () => {
    const stub = givenWaits();
    await open(stub, ask({ timeoutMs: 60_000 }));
    await crash(stub);
    waitsTime.aheadMs = DAY_MS + 59_000;
    await wake(stub);
    expect(await rowsOf(stub)).toMatchObject([{ status: "open" }]);
    waitsTime.aheadMs = DAY_MS + 61_000;
    expect(await wake(stub)).toBe(true);
    expect(await rowsOf(stub)).toMatchObject([{ status: "expired" }]);
    // Nothing is left to wake for (O5).
    expect(await wake(stub)).toBe(false);
  });

  it("W2: a wait that was taken over waits for the time of the run that took it", async () => {
    const stub = givenWaits();
    const request = ask({ timeoutMs: 60_000 });
    await open(stub, request);
    await open(stub, { ...request, run: "run-2", timeoutMs: 10 * DAY_MS });
    waitsTime.aheadMs = 2 * DAY_MS;
    await wake(stub);
    expect(await rowsOf(stub)).toMatchObject([{ status: "open" }]);
    waitsTime.aheadMs = 12 * DAY_MS;
    await wake(stub);
    expect(await rowsOf(stub)).toMatchObject([{ status: "expired" }]);
  });
});

describe("waits in flight are driven", () => {
  it("a wait is driven once at a time, again after a nudge meanwhile, and again at its time", async () => {
    let [running, most, drives] = [0, 0, 0];
    let isNudged = false;
    const stub = givenDriven(() => ({
      drive: async () => {
        drives++;
        most = Math.max(most, ++running);
        await until(() => isNudged);
        running--;
        return drives < 2 ? null : Date.now() + 3_600_000;
      },
    }));
    const { waitId } = await open(stub, ask({ kind: "codemode" }));
    await inside(stub, async ({ waits }) => {
      for (let n = 0; n < 5; n++) await waits.nudge(waitId);
    });
    isNudged = true;
    await until(() => drives === 2);
    await until(() => running === 0);
    await until(async () => ((await rowsOf(stub))[0]?.wake_at ?? 0) < Date.now() + DAY_MS);
    waitsTime.aheadMs = 3_700_000;
    await wake(stub);
    await until(() => drives === 3);
    expect(most).toBe(1);
  });

  it("again when it has thrown, and after a crash, until it is closed", async () => {
    silence();
    let drives = 0;
    const stub = givenDriven((object) => ({
      drive: async ({ waitId }: Wait) => {
        drives++;
        if (drives === 1) throw new Error("not today");
        if (drives === 2) return new Promise<null>(() => {});
        await object.waits.settle(waitId, DONE);
        return null;
      },
    }));
    await open(stub, ask({ kind: "codemode" }));
    await until(() => drives === 1);
    waitsTime.aheadMs = 31_000;
    await wake(stub);
    await until(() => drives === 2);
    await crash(stub);
    await start(stub);
    await until(() => drives === 3);
    await until(async () => (await rowsOf(stub))[0]?.status === "completed");
  });

  it("notes of a drive are there for the next one, and none is taken of a closed wait", async () => {
    const states: unknown[] = [];
    const stub = givenDriven((object) => ({
      drive: async ({ waitId, state }: Wait) => {
        states.push(state);
        await object.waits.note(waitId, { step: states.length });
        return null;
      },
    }));
    const { waitId } = await open(stub, ask({ kind: "codemode" }));
    await until(() => states.length === 1);
    await inside(stub, ({ waits }) => waits.nudge(waitId));
    await until(() => states.length === 2);
    expect(states).toEqual([undefined, { step: 1 }]);
    await close(stub, waitId);
    expect(await inside(stub, ({ waits }) => waits.note(waitId, 1))).toBe(false);
  });
});

describe("O5: a drive that hangs for ever", () => {
  const jobTime = (stub: Capability) => inside(stub, (_, ctx) => jobOf(ctx));

  it("O5: a hanging drive keeps its object awake for an hour, is then checked hourly, and its wait still expires", async () => {
    let [drives, stops] = [0, 0];
    const stub = givenDriven(() => ({
      drive: () => {
        drives++;
        return new Promise<null>(() => {});
      },
      stop: async () => void stops++,
    }));
    await open(stub, ask({ kind: "codemode", timeoutMs: 60_000 }));
    waitsTime.aheadMs = 31_000;
    await wake(stub);
    expect(await jobTime(stub)).toBeLessThan(Date.now() + waitsTime.aheadMs + 60_000);
    for (const hours of [1.1, 2.2, 3.3]) {
      waitsTime.aheadMs = hours * 3_600_000;
      await wake(stub);
      const next = ((await jobTime(stub)) ?? 0) - Date.now() - waitsTime.aheadMs;
      expect(next, `${hours} hours`).toBeGreaterThan(1_800_000);
      expect(next, `${hours} hours`).toBeLessThan(3_700_000);
    }
    expect(drives).toBe(1);
    waitsTime.aheadMs = DAY_MS + 61_000;
    await wake(stub);
    await until(() => stops === 1);
    expect(await rowsOf(stub)).toMatchObject([{ status: "expired" }]);
    await until(async () => (await rowsOf(stub))[0]?.done_at !== null);
    await wake(stub);
    expect(await jobTime(stub)).toBeNull();
  });

  it("O5: nor does a stop; the next life stops it", async () => {
    silence();
    let stops = 0;
    const stub = givenDriven(() => ({
      stop: () => (++stops === 1 ? new Promise<void>(() => {}) : Promise.resolve()),
    }));
    const request = ask({ kind: "codemode" });
    await open(stub, request);
    await inside(stub, ({ waits }) =>
      waits.cancelFor({ workflow: "W", instance: request.workflow.id }, "terminated"),
    );
    waitsTime.aheadMs = 1.1 * 3_600_000;
    await wake(stub);
    const next = ((await jobTime(stub)) ?? 0) - Date.now() - waitsTime.aheadMs;
    expect(next).toBeGreaterThan(1_800_000);
    await crash(stub);
    waitsTime.aheadMs = 2.2 * 3_600_000;
    await wake(stub);
    await until(() => stops === 2);
    await until(async () => (await rowsOf(stub))[0]?.done_at !== null);
  });
});

describe("W5: what runs for a wait is stopped", () => {
  it("W5: until stop has returned once, over failures and crashes", async () => {
    silence();
    let stops = 0;
    const stub = givenDriven(() => ({
      drive: async () => null,
      stop: async () => {
        stops++;
        if (stops === 1) throw new Error("cannot be reached");
        if (stops === 2) await new Promise(() => {});
      },
    }));
    const request = ask({ kind: "codemode" });
    await open(stub, request);
    await inside(stub, ({ waits }) =>
      waits.cancelFor({ workflow: "W", instance: request.workflow.id }, "terminated"),
    );
    await until(() => stops === 1);
    expect(await rowsOf(stub)).toMatchObject([{ status: "cancelled", done_at: null }]);
    waitsTime.aheadMs = 31_000;
    await wake(stub);
    await until(() => stops === 2);
    await crash(stub);
    await start(stub);
    await until(() => stops === 3);
    await until(async () => (await rowsOf(stub))[0]?.done_at !== null);
    await crash(stub);
    await start(stub);
    waitsTime.aheadMs = 90_000;
    await wake(stub);
    expect(stops).toBe(3);
    expect(cameTo(request.workflow.id)).toEqual([]);
  });

  it("W5: when the kind is back, if its wait ended while a deploy had left it out", async () => {
    silence();
    const stopped: string[] = [];
    const script: WaitsScript = {
      kinds: () => ({
        codemode: {
          answersLaterRuns: () => true,
          drive: async () => null,
          stop: async ({ waitId }) => void stopped.push(waitId),
        },
      }),
    };
    const deploy = async (next: WaitsScript) => {
      waitsScripts.set(stub.name ?? "", next);
      await crash(stub);
      await start(stub);
    };
    const stub = givenWaits(script);
    const requests = [1, 2, 3].map(() => ask({ kind: "codemode" }));
    const ids: string[] = [];
    for (const request of requests) ids.push((await open(stub, request)).waitId);
    const [cancelled = "", timedOut = "", forgotten = ""] = ids;
    await deploy({});
    const instance = requests[0]?.workflow.id ?? "";
    await inside(stub, ({ waits }) => waits.cancelFor({ workflow: "W", instance }, "terminated"));
    await expire(stub, timedOut);
    waitsTime.aheadMs = 2 * DAY_MS;
    await wake(stub);
    await wake(stub);
    await deploy(script);
    await until(() => stopped.length === 3);
    expect(stopped.sort()).toEqual([cancelled, timedOut, forgotten].sort());
    await until(async () => (await rowsOf(stub)).every((row) => row.done_at !== null));
  });

  it("W5: L9: for 30 days, if the kind does not come back", async () => {
    silence();
    const kind = { answersLaterRuns: () => true, stop: async () => {} };
    const stub = givenWaits({ kinds: () => ({ codemode: kind }) });
    const { waitId } = await open(stub, ask({ kind: "codemode" }));
    waitsScripts.set(stub.name ?? "", {});
    await crash(stub);
    await start(stub);
    await expire(stub, waitId);
    await wake(stub);
    expect(await rowsOf(stub)).toMatchObject([{ status: "expired", done_at: null }]);
    waitsTime.aheadMs = 31 * DAY_MS;
    await wake(stub);
    expect(await rowsOf(stub)).toEqual([]);
  });

  it("W5: a drive that ends after the wait was closed does not put off its stop", async () => {
    silence();
    let [stops, drives] = [0, 0];
    let [isClosed, hasDriven] = [false, false];
    const stub = givenDriven(() => ({
      drive: async () => {
        drives++;
        await until(() => isClosed);
        hasDriven = true;
        return null;
      },
      stop: async () => {
        stops++;
        await new Promise(() => {});
      },
    }));
    const { waitId } = await open(stub, ask({ kind: "codemode" }));
    await until(() => drives === 1);
    await expire(stub, waitId);
    isClosed = true;
    await until(() => hasDriven);
    await inside(stub, (_, { storage }) => storage.sync());
    const [row] = await rowsOf(stub);
    expect(row?.wake_at).toBeLessThan(Date.now() + 60_000);
    await crash(stub);
    await start(stub);
    await until(() => stops === 2);
    await crash(stub);
  });

  it("nothing is stopped that came to its end by itself", async () => {
    let stops = 0;
    const stub = givenDriven(() => ({ stop: async () => void stops++ }));
    const { waitId } = await open(stub, ask({ kind: "codemode" }));
    await close(stub, waitId);
    await wake(stub);
    expect(stops).toBe(0);
  });

  it("W5: cancelFor() closes what one instance waits for, and nothing else", async () => {
    const stub = givenWaits();
    const [mine, other] = [ask(), ask()];
    const ids = [mine, other, { ...mine, idempotencyKey: "second" }];
    for (const request of ids) await open(stub, request);
    await inside(stub, ({ waits }) =>
      waits.cancelFor({ workflow: "W", instance: mine.workflow.id }, "terminated"),
    );
    const statuses = (await rowsOf(stub)).map(({ status }) => status);
    expect(statuses).toEqual(["cancelled", "open", "cancelled"]);
  });
});

describe("a wait inside another", () => {
  /** A wait that opens another one, and ends with what that came to. */
  const givenNested = () =>
    givenDriven((object) => ({
      drive: async (wait: Wait) => {
        const request = { title: "inner", data: null, schema: null };
        const inner = { key: `${wait.waitId}:1`, kind: "approval", request } as const;
        const opened = await object.waits.openInside(wait, inner);
        if (opened && opened.status !== "open") {
          const result = { inner: opened.status };
          await object.waits.settle(wait.waitId, { status: "completed", result });
        }
        return null;
      },
    }));
  /** The id of the inner one. */
  const innerOf = async (stub: Capability, waitId: string) => {
    const opened = () => inside(stub, ({ waits }) => waits.findByKey(`${waitId}:1`));
    return (await until(opened)).waitId;
  };

  it("drives its parent when it is closed, and tells the workflow of the parent alone", async () => {
    const stub = givenNested();
    const request = ask({ kind: "codemode" });
    const { waitId } = await open(stub, request);
    await close(stub, await innerOf(stub, waitId), { status: "rejected", result: {} });
    await until(() => cameTo(request.workflow.id).length > 0);
    const data = { waitId, result: { inner: "rejected" } };
    expect(cameTo(request.workflow.id)).toMatchObject([{ data }]);
  });

  it("O1: drives its parent also when the object dies right after it was closed", async () => {
    silence();
    const stub = givenNested();
    const request = ask({ kind: "codemode" });
    const { waitId } = await open(stub, request);
    const inner = await innerOf(stub, waitId);
    await inside(stub, ({ waits }, ctx) => {
      void waits.settle(inner, DONE);
      return ctx.storage.sync().then(() => ctx.abort("crash"));
    }).catch(() => {});
    await start(stub);
    await until(() => cameTo(request.workflow.id).length > 0);
  });

  it("W5: an inner wait is cancelled with its parent in one transaction, and none is opened in a closed one", async () => {
    const stub = givenNested();
    const { waitId } = await open(stub, ask({ kind: "codemode" }));
    await innerOf(stub, waitId);
    await inside(stub, async ({ meter, waits }) => {
      const parent = await waits.find(waitId);
      meter.reset();
      meter.onWrite = (write) => {
        if (write === 2) throw new Error("no");
      };
      await expect(waits.close({ waitId }, EXPIRED)).rejects.toThrow("no");
      meter.onWrite = undefined;
      await waits.close({ waitId }, EXPIRED);
      const late = { key: "late", kind: "approval", request: null } as const;
      expect(await waits.openInside(parent as Wait, late)).toBeUndefined();
    });
    const statuses = (await rowsOf(stub)).map(({ status }) => status);
    expect(statuses).toEqual(["expired", "cancelled"]);
  });
});

describe("O4: large things", () => {
  it("O4: a result that no event holds comes as a reference, and is read in parts", async () => {
    const stub = givenWaits();
    const request = ask();
    const { waitId } = await open(stub, request);
    const result = { text: "é🙂".repeat(200_000) };
    await close(stub, waitId, { status: "completed", result });
    const { end } = await open(stub, request);
    expect(end).toMatchObject({ status: "completed", reference: { bytes: expect.any(Number) } });
    const texts: string[] = [];
    await inside(stub, async ({ waits }) => {
      for (let part = 0; ; part++) {
        const found = await waits.read({ waitId }, part);
        if (!found) break;
        expect(found.parts).toBeGreaterThan(1);
        texts.push(found.text);
      }
    });
    expect(JSON.parse(texts.join(""))).toEqual(result);
    expect(await inside(stub, ({ waits }) => waits.read({ waitId: "nobody" }, 0))).toBeNull();
  });

  it("a request or a result over 1.5 MB is refused, and nothing is stored", async () => {
    const stub = givenWaits();
    const large = "x".repeat(1_500_000);
    await inside(stub, async ({ waits }) => {
      const asked = waits.open(ask({ request: large }));
      await expect(asked).rejects.toMatchObject({ name: "InvalidWaitError", field: "request" });
      const { waitId } = await waits.open(ask());
      const closed = waits.settle(waitId, { status: "completed", result: large });
      await expect(closed).rejects.toMatchObject({ name: "InvalidWaitError", field: "result" });
    });
    expect(await rowsOf(stub)).toMatchObject([{ status: "open" }]);
  });
});

it("L9: closed waits are forgotten after 30 days, open ones never", async () => {
  const stub = givenWaits();
  const { waitId } = await open(stub, ask());
  await close(stub, waitId);
  await open(stub, ask({ timeoutMs: 300 * DAY_MS }));
  waitsTime.aheadMs = 29 * DAY_MS;
  await open(stub, ask());
  await wake(stub);
  expect(await rowsOf(stub)).toHaveLength(3);
  waitsTime.aheadMs = 31 * DAY_MS;
  await wake(stub);
  expect((await rowsOf(stub)).map(({ status }) => status)).toEqual(["open", "expired"]);
});

it("L9: closed waits are forgotten although more than 256 open ones are older", async () => {
  const stub = givenWaits();
  await inside(stub, async ({ lifecycle, waits }) => {
    await lifecycle.start();
    for (let nth = 0; nth < 300; nth++) await waits.open(ask({ timeoutMs: 300 * DAY_MS }));
    const { waitId } = await waits.open(ask());
    await waits.settle(waitId, DONE);
  });
  waitsTime.aheadMs = 31 * DAY_MS;
  for (let wakes = 0; wakes < 3; wakes++) await wake(stub);
  const states = (await rowsOf(stub)).map(({ status }) => status);
  expect(states.filter((status) => status === "open")).toHaveLength(300);
  expect(states).toHaveLength(300);
});

const countOf = (meter: Meter) => meter.statementsOf(() => true);

describe("what it costs, in rows of Perdure's tables and statements", () => {
  const cost = (stub: Capability, work: (object: WaitsObject) => Promise<unknown>) =>
    inside(stub, async (object, ctx) => {
      await object.lifecycle.start();
      object.meter.reset();
      await work(object);
      const { meter } = object;
      await until(async () => {
        const before = countOf(meter);
        await ctx.storage.sync();
        await sleep(20);
        return countOf(meter) === before;
      });
      const ours = (query: string) => query.includes("perdure_");
      return { rows: meter.rowsWrittenBy(ours), statements: meter.statementsOf(ours) };
    });

  it("an open wait 3 rows, the first of its kind 4, the first of all 6; its end 1 and 2 in the outbox", async () => {
    const stub = givenWaits();
    const request = ask();
    expect(await cost(stub, ({ waits }) => waits.open(ask()))).toMatchObject({ rows: 6 });
    expect(await cost(stub, ({ waits }) => waits.open(request))).toEqual({
      rows: 3,
      statements: 2,
    });
    const { waitId } = await open(stub, request);
    expect(await cost(stub, ({ waits }) => waits.settle(waitId, DONE))).toMatchObject({ rows: 3 });
  });

  it("an end with something to stop 3, an inner wait 4 and its end 5", async () => {
    const stub = givenDriven(() => ({ drive: async () => null, stop: async () => {} }));
    const { waitId } = await open(stub, ask({ kind: "codemode" }));
    const parent = await inside(stub, ({ waits }) => waits.find(waitId));
    await open(stub, ask());
    const { request } = ask();
    const inner = { key: "inner", kind: "approval", request } as const;
    const opened = await cost(stub, ({ waits }) => waits.openInside(parent as Wait, inner));
    expect(opened).toMatchObject({ rows: 4 });
    const { waitId: innerId = "" } =
      (await inside(stub, ({ waits }) => waits.findByKey("inner"))) ?? {};
    const closed = await cost(stub, ({ waits }) => waits.settle(innerId, DONE));
    // Its own row, its parent's and the index of that; and those again when the parent rests.
    expect(closed).toMatchObject({ rows: 5 });
    const stopped = await cost(stub, ({ waits }) => waits.close({ waitId }, EXPIRED));
    expect(stopped).toMatchObject({ rows: 3 });
  });

  it("one that expires 1, one that is taken over 2, a pending list no more than is pending", async () => {
    const stub = givenWaits();
    const request = ask();
    for (let n = 0; n < 50; n++) {
      const { waitId } = await open(stub, ask());
      await expire(stub, waitId);
    }
    const { waitId } = await open(stub, request);
    const later = { ...request, run: "run-2" };
    expect(await cost(stub, ({ waits }) => waits.open(later))).toMatchObject({ rows: 2 });
    const read = await inside(stub, async ({ approvals, meter }) => {
      meter.reset();
      expect((await approvals.list()).items).toHaveLength(1);
      return meter.read().rowsRead;
    });
    expect(read).toBeLessThan(5);
    expect(await cost(stub, ({ waits }) => waits.close({ waitId }, EXPIRED))).toMatchObject({
      rows: 1,
    });
  });
});

it("L9: what is asked and decided reads the same number of rows, however many approvals are pending", async () => {
  const stub = givenWaits();
  const request = ask();
  const [first, second] = [await open(stub, request), await open(stub, ask())];
  await inside(stub, async ({ waits }) => {
    for (let n = 0; n < 200; n++) await waits.open(ask());
  });
  await crash(stub);
  const reads = await inside(stub, async ({ lifecycle, waits, meter }) => {
    const count = async (work: () => Promise<unknown>) => {
      meter.reset();
      await work();
      return meter.read().rowsRead;
    };
    return {
      start: await count(() => lifecycle.start()),
      takeOver: await count(() => waits.open({ ...request, run: "run-2" })),
      close: await count(() => waits.settle(first.waitId, DONE)),
      expire: await count(() => waits.close({ waitId: second.waitId }, EXPIRED)),
    };
  });
  for (const [verb, rows] of Object.entries(reads)) expect(rows, verb).toBeLessThan(40);
});
