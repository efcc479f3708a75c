/** The ledger's part of `step.promptAll()` on a light host: what a batch writes, who is told, how it ends. */

import fc from "fast-check";
import { beforeEach, describe, expect, it } from "vitest";
import type { PromptEnd } from "../../../src/submissions/types.ts";
import { givenLedger, refusal, until } from "../../support/given.ts";
import {
  again,
  crashOne,
  expectState,
  type Ledger,
  release,
  submit,
  waitingIn,
  wakeNow,
  within,
} from "../../support/ledger.ts";
import {
  chance,
  delivered,
  ledgerOptions,
  resetClock,
  type TurnScript,
} from "../../support/objects/ledger-object.ts";
import { limitMs, sizeOf } from "../../support/sizes.ts";

beforeEach(resetClock);

/** A batch of these turns, as a workflow's run would ask for it. */
function givenBatch(
  scripts: readonly TurnScript[],
  {
    batch = crypto.randomUUID().replaceAll("-", "").slice(0, 22),
    instance = `instance-${crypto.randomUUID()}`,
    run = "run-1",
    concurrency = 4,
    thread = "isolated",
    keyOf = (index: number): string => `${batch}:${index}`,
  } = {},
) {
  const workflow = { name: "PROMPT_WORKFLOW", id: instance, stepName: "all" };
  const items = scripts.map((script, index) => ({
    idempotencyKey: keyOf(index),
    key: String(index),
    messages: [
      { role: "user" as const, parts: [{ type: "text" as const, text: JSON.stringify(script) }] },
    ],
  }));
  const ids: string[] = [];
  const common = { batch, run, workflow, answer: { schema: {} }, concurrency, thread };
  return {
    batch,
    instance,
    ids,
    accept: async (stub: Ledger, from = 0, to = items.length) => {
      const request = { ...common, items: items.slice(from, to) };
      const { submissionIds } = await within(stub, (object) => object.acceptPrompts(request));
      ids.push(...submissionIds);
      return submissionIds;
    },
    wait: (stub: Ledger, failsFast = false) =>
      within(stub, (object) =>
        object.awaitPrompts({ batch, workflow, submissionIds: ids, eventType: run, failsFast }),
      ),
    close: (stub: Ledger) =>
      within(stub, (object) => object.expirePrompts({ batch, submissionIds: ids })),
    /** All its ends, page by page. */
    read: async (stub: Ledger) => {
      const ends: PromptEnd[] = [];
      for (let first = 0; first < ids.length; ) {
        const page = await within(stub, (object) => object.readPrompts(ids.slice(first)));
        expect(page.count).toBeGreaterThan(0);
        ends.push(...page.ends);
        first += page.count;
      }
      return ends;
    },
    events: () => delivered.get(instance) ?? [],
    notified: () => until(() => delivered.get(instance)?.length),
  };
}

const answering = (count: number, script: TurnScript = {}) =>
  Array.from({ length: count }, (_, index) => ({ answer: index, ...script }));
const outputsOf = (ends: readonly PromptEnd[]) =>
  ends.map((end) => ("reference" in end ? end.reference : (end.output ?? end.errorName)));
const failing = { fail: "no model today" };
const hold = { delayMs: 60_000 };

function rowsIn(stub: Ledger, table: string): Promise<number> {
  return within(stub, (_, { storage }) => {
    const query = `SELECT COUNT(*) AS rows FROM ${table}`;
    return storage.sql.exec<{ rows: number }>(query).one().rows;
  });
}

function statuses(stub: Ledger, ids: readonly string[]) {
  return within(stub, async (object) => {
    const found = await Promise.all(ids.map((id) => object.inspect(id)));
    return found.map((submission) => submission?.status);
  });
}

describe("what a batch costs", () => {
  it("an item is 1 row more than a submission with a key, and a batch 5", async () => {
    const stub = givenLedger();
    await stub.list();
    const counted = async (count: number) => {
      const batch = givenBatch(answering(count));
      await within(stub, ({ meter }) => meter.reset());
      await batch.accept(stub);
      await batch.wait(stub);
      await batch.notified();
      await until(() => within(stub, (_, ctx) => waitingIn(ctx).length === 0));
      return within(stub, ({ meter }) => ({
        rows: meter.rowsWrittenBy((query) => query.includes(" perdure_")),
        statements: meter.statementsOf((query) => query.includes(" perdure_")),
      }));
    };
    const [one, fifty] = [await counted(1), await counted(50)];
    const rows = (fifty.rows - one.rows) / 49;
    console.log(`an item: ${rows} rows, ${(fifty.statements - one.statements) / 49} statements`);
    // Accept 2 + key 1 + batch 1, claim 1, end 1 with the answer.
    expect(rows).toBe(6);
    expect(one.rows).toBe(6 + 5);
  });

  it("O1: it is told by one event, and nothing is left of it", async () => {
    const stub = givenLedger();
    const batch = givenBatch(answering(150, { delayMs: 1 }));
    await batch.accept(stub, 0, 100);
    await batch.accept(stub, 100);
    expect(await batch.wait(stub)).toEqual({ isOver: false });
    await batch.notified();
    expect(outputsOf(await batch.read(stub))).toEqual(batch.ids.map((_, index) => index));
    expect(batch.events()).toMatchObject([{ payload: { type: "prompts.ended" } }]);
    expect(await rowsIn(stub, "perdure_batches")).toBe(0);
  });
});

describe("L4: a batch is a pool of its own", () => {
  it("L9: a list of the isolated thread finds the prompts of batches, too", async () => {
    const stub = givenLedger();
    const batch = givenBatch(answering(2));
    const [first, second] = await batch.accept(stub);
    await submit(stub, "x", { submissionId: "alone", thread: "isolated" });
    await submit(stub, "x", { submissionId: "named", thread: "isolated-not" });
    const found = await stub.list({ thread: "isolated" });
    expect(found.map(({ submissionId }) => submissionId)).toEqual(["alone", second, first]);
    expect(found.map(({ thread }) => thread)).toEqual(["isolated", "isolated", "isolated"]);
    expect(await stub.list({ thread: "isolated", limit: 1, before: second ?? "" })).toMatchObject([
      { submissionId: first },
    ]);
  });

  it("L4: a batch runs no more turns than its concurrency, also after a crash", async () => {
    const stub = givenLedger();
    ledgerOptions.set(stub.name ?? "", { maxConcurrentTurns: 10 });
    const batch = givenBatch(answering(8, hold), { concurrency: 3 });
    await batch.accept(stub);
    const running = async (of: Ledger) =>
      (await statuses(of, batch.ids)).filter((status) => status === "running").length;
    expect(await running(stub)).toBe(3);
    const next = await crashOne(stub);
    await next.list();
    await wakeNow(next);
    expect(await running(next)).toBe(3);
  });

  it("L4: other turns are not behind it, and two batches share the places", async () => {
    const stub = givenLedger();
    const long = givenBatch(answering(60, { isHeld: true }));
    const short = givenBatch(answering(10, { isHeld: true }));
    await long.accept(stub);
    await short.accept(stub);
    await submit(stub, {}, { submissionId: "alone", thread: "isolated" });
    await submit(stub, {}, { submissionId: "main" });
    await short.wait(stub);
    const completed = async () =>
      (await statuses(stub, long.ids)).filter((status) => status === "completed").length;
    // Whatever runs ends, and the next ones take the places.
    await until(async () => {
      await within(stub, ({ turns }) => {
        for (const goOn of turns.held.values()) goOn();
        turns.held.clear();
      });
      const others = await statuses(stub, ["alone", "main"]);
      return short.events().length > 0 && others.every((status) => status === "completed");
    });
    expect(await completed()).toBeGreaterThan(4);
    expect(await completed()).toBeLessThan(30);
  });

  it("L4: no other thread can have the name of a pool", async () => {
    const stub = givenLedger();
    await expect(submit(stub, "x", { thread: "isolated/4/x" })).rejects.toThrow(
      'Invalid thread "isolated/4/x": names that begin with "isolated/"',
    );
  });
});

describe("W1: a batch is asked again", () => {
  it("W1: what was answered is found, what failed is tried afresh, in another run only", async () => {
    const stub = givenLedger();
    const scripts = [{ answer: 0 }, { ...failing, failTimes: 1, answer: 1 }, { answer: 2 }];
    const shared = { batch: "b", instance: "i", keyOf: (index: number) => `k${index}` };
    const first = givenBatch(scripts, shared);
    await first.accept(stub);
    await until(async () =>
      (await statuses(stub, first.ids)).every((s) => s !== "running" && s !== "pending"),
    );
    const same = givenBatch(scripts, shared);
    expect(await same.accept(stub)).toEqual(first.ids);
    expect(await same.wait(stub)).toEqual({ isOver: true });
    expect(await rowsIn(stub, "perdure_batches")).toBe(0);
    const other = givenBatch(scripts, { ...shared, run: "run-2" });
    const ids = await other.accept(stub);
    expect([ids[0], ids[2]]).toEqual([first.ids[0], first.ids[2]]);
    expect(ids[1]).not.toBe(first.ids[1]);
  });

  it("W1: a batch of other items takes over what is open, and whoever waited for it does not hang", async () => {
    const stub = givenLedger();
    const keyOf = (index: number) => `shared-${index}`;
    const first = givenBatch([{ answer: 0, isHeld: true }], { keyOf, batch: "first" });
    await first.accept(stub);
    expect(await first.wait(stub)).toEqual({ isOver: false });
    const second = givenBatch([{ answer: 0, isHeld: true }, { answer: 1 }], {
      keyOf,
      batch: "second",
    });
    expect((await second.accept(stub))[0]).toBe(first.ids[0]);
    await first.notified();
    await second.wait(stub);
    await release(stub, first.ids[0] ?? "");
    await second.notified();
    expect(outputsOf(await second.read(stub))).toEqual([0, 1]);
    expect(await rowsIn(stub, "perdure_batches")).toBe(0);
  });
});

describe("a failure", () => {
  it("with failsFast, the first failure is reported at once, and pending items are cancelled", async () => {
    const stub = givenLedger();
    const batch = givenBatch([hold, { ...failing, isHeld: true }, ...answering(150, hold)]);
    await batch.accept(stub);
    await batch.wait(stub, true);
    await release(stub, batch.ids[1] ?? "");
    await batch.notified();
    const state = await batch.wait(stub, true);
    expect(state).toMatchObject({
      isOver: true,
      failure: { index: 1, end: { error: "no model today" } },
    });
    const all = await within(stub, (object) => object.list({ status: "aborted", limit: 200 }));
    expect(all).toHaveLength(151);
    expect(all.filter(({ attempts }) => attempts > 0).length).toBeLessThanOrEqual(4);
    expect(await rowsIn(stub, "perdure_batches")).toBe(0);
    expect(batch.events()).toHaveLength(1);
    // Asked once more in the same run, it is the same failure.
    expect(await batch.wait(stub, true)).toMatchObject({ isOver: true, failure: { index: 1 } });
  });

  it("that came before the wait is found by it", async () => {
    const stub = givenLedger();
    const batch = givenBatch([hold, failing, hold]);
    await batch.accept(stub);
    await expectState(stub, batch.ids[1] ?? "", "error");
    expect(await batch.wait(stub, true)).toMatchObject({ isOver: true, failure: { index: 1 } });
    expect(await statuses(stub, batch.ids)).toEqual(["aborted", "error", "aborted"]);
    expect(batch.events()).toEqual([]);
  });
});

describe("W2: a wait that is over", () => {
  it("W2: closing a batch keeps what has ended and cancels the rest, also after a crash in between", async () => {
    const stub = givenLedger();
    const batch = givenBatch([{ answer: 0 }, ...answering(250, hold)]);
    await batch.accept(stub);
    await batch.wait(stub);
    await expectState(stub, batch.ids[0] ?? "", "completed");
    await within(stub, ({ meter }, ctx) => {
      let aborts = 0;
      meter.onWrite = (_, query) => {
        if (query.includes("'aborted'") && ++aborts === 2) ctx.abort("crash");
      };
    });
    await refusal(batch.close(stub));
    const next = again(stub);
    expect(await batch.close(next)).toMatchObject({ failure: { index: 1 } });
    const ends = await batch.read(next);
    expect(ends.map(({ status }) => status)).toEqual(
      batch.ids.map((_, n) => (n ? "aborted" : "completed")),
    );
    expect(batch.events()).toEqual([]);
    expect(await rowsIn(next, "perdure_batches")).toBe(0);
  });
});

it("W5: cancelFor() ends the batches of an instance, awaited or not, and no others", async () => {
  const stub = givenLedger();
  const instance = `instance-${crypto.randomUUID()}`;
  const [awaited, begun, other] = [
    givenBatch(answering(5, hold), { instance }),
    givenBatch(answering(5, hold), { instance, thread: "side" }),
    givenBatch(answering(2, hold)),
  ];
  for (const batch of [awaited, begun, other]) await batch.accept(stub);
  await awaited.wait(stub);
  await within(stub, ({ submissions }) =>
    submissions.cancelFor({ workflow: "PROMPT_WORKFLOW", instance }, "terminated"),
  );
  expect(new Set(await statuses(stub, [...awaited.ids, ...begun.ids]))).toEqual(
    new Set(["aborted"]),
  );
  await until(async () => (await statuses(stub, other.ids)).includes("running"));
  expect(awaited.events()).toEqual([]);
  expect(await rowsIn(stub, "perdure_batches")).toBe(1);
});

it("O4: a page holds no more than a step's result, and large answers come as references", async () => {
  const stub = givenLedger();
  const sizes = [100_000, 100_000, 100_000, 400_000, 10];
  const batch = givenBatch(sizes.map((size) => ({ answer: "x".repeat(size) })));
  await batch.accept(stub);
  await batch.wait(stub);
  await batch.notified();
  const counts: number[] = [];
  for (let first = 0; first < sizes.length; ) {
    const { ends, count } = await within(stub, (object) =>
      object.readPrompts(batch.ids.slice(first)),
    );
    expect(JSON.stringify(ends).length).toBeLessThan(512 * 1024);
    counts.push(count);
    first += count;
  }
  expect(counts).toEqual([2, 3]);
  expect(outputsOf(await batch.read(stub))[3]).toEqual({ bytes: 400_002 });
});

/** What becomes of one item. */
const fate = fc.constantFrom<{ script: TurnScript; isAnswered: boolean }>(
  { script: {}, isAnswered: true },
  { script: { delayMs: 5 }, isAnswered: true },
  { script: { delayMs: 25 }, isAnswered: true },
  // Tried again, out of the line for a moment.
  { script: { fail: "overloaded", status: 503, failTimes: 1 }, isAnswered: true },
  { script: failing, isAnswered: false },
  { script: { ...failing, delayMs: 15 }, isAnswered: false },
);

it("W1 W2: batches of any size, in any chunks, with any ends and a crash at any time, lose nothing and keep their order", {
  timeout: limitMs(120_000),
}, async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.record({
        fates: fc.array(fate, { minLength: 1, maxLength: 25 }),
        chunk: fc.integer({ min: 1, max: 25 }),
        concurrency: fc.integer({ min: 1, max: 6 }),
        thread: fc.constantFrom("isolated", "isolated", "main", "side"),
        crashAfterMs: fc.option(fc.integer({ min: 0, max: 60 }), { nil: undefined }),
      }),
      async ({ fates, chunk, concurrency, thread, crashAfterMs }) => {
        chance.random = () => 0;
        let stub: Ledger = givenLedger();
        const scripts = fates.map(({ script }, index) => ({ answer: index, ...script }));
        const batch = givenBatch(scripts, { concurrency, thread });
        for (let first = 0; first < scripts.length; first += chunk) {
          await batch.accept(stub, first, first + chunk);
        }
        const { isOver } = await batch.wait(stub);
        if (crashAfterMs !== undefined) {
          await new Promise((resolve) => setTimeout(resolve, crashAfterMs));
          stub = await crashOne(stub);
          await stub.list();
          await wakeNow(stub);
        }
        if (!isOver) await batch.notified();
        const ends = await batch.read(stub);
        expect(ends.map(({ submissionId }) => submissionId)).toEqual(batch.ids);
        expect(ends.map(({ status }) => status)).toEqual(
          fates.map(({ isAnswered }) => (isAnswered ? "completed" : "error")),
        );
        expect(outputsOf(ends)).toEqual(
          fates.map(({ isAnswered }, index) => (isAnswered ? index : "Error")),
        );
        expect(await rowsIn(stub, "perdure_batches")).toBe(0);
      },
    ),
    { numRuns: sizeOf("BATCH_RUNS", 15) },
  );
});
