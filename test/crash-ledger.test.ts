/**
 * One submission with a destination, and a crash at every single write and
 * delivery of it: of its acceptance, its turn, its end, its delivery, and of
 * the recovery from an earlier crash. Whatever was committed when, the outcome
 * is the same.
 */

import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { ask, type CrashRun, crashAtEveryWrite } from "../src/testing/index.ts";
import { givenLedger, message, until } from "./support/given.ts";
import {
  again,
  arrived,
  crashOne,
  forever,
  type Ledger,
  sleep,
  somewhere,
  submit,
  waitingIn,
  within,
} from "./support/ledger.ts";
import { births, couriers, delivered, type LedgerObject } from "./support/ledger-object.ts";

const KINDS = { "a turn": submitTurn, "a prompt that is answered": submitPrompt };

/** A caller that tries again with the same key until it has been told that its work was accepted. */
function submitTurn(stub: Ledger, { id }: CrashRun<LedgerObject>) {
  const to = { ...somewhere(), instance: id };
  return within(stub, ({ submissions }) =>
    submissions.submit([message({ delayMs: 5 }, "said")], {
      idempotencyKey: "k",
      notify: () => [to],
    }),
  );
}

function submitPrompt(stub: Ledger, { id }: CrashRun<LedgerObject>) {
  const text = ask({ answer: { ok: true }, delayMs: 5 });
  return within(stub, (object) =>
    object.prompt({
      idempotencyKey: "k",
      run: "1",
      workflow: { name: "PROMPT_WORKFLOW", id, stepName: "step" },
      messages: [{ role: "user" as const, parts: [{ type: "text" as const, text }] }],
      answer: { schema: {} },
    }),
  );
}

/** Lets every phase of a life have a commit of its own: the light host is too fast otherwise. */
function slowDown({ turns }: LedgerObject): void {
  const run = turns.run.bind(turns);
  turns.run = async (turn) => {
    await sleep(5);
    return run(turn);
  };
}

async function prepare(stub: Ledger, { id }: CrashRun<LedgerObject>): Promise<void> {
  births.set(id, slowDown);
  couriers.set(id, () => sleep(5));
  await stub.list();
  await within(stub, slowDown);
}

/** What is wrong beside what the kit finds in the rows. */
async function check(stub: Ledger, { id }: CrashRun<LedgerObject>): Promise<string[]> {
  const problems: string[] = [];
  const expectThat = (isRight: boolean, problem: string) => isRight || problems.push(problem);
  const submissions = await stub.list();
  expectThat(submissions.length === 1, `${submissions.length} submissions instead of one`);
  expectThat(submissions[0]?.status === "completed", `it is ${submissions[0]?.status}`);
  const conversation = await stub.conversation();
  expectThat(conversation.length === 2, `the conversation is ${conversation}`);
  const told = delivered.get(id) ?? [];
  const ids = new Set(told.map((delivery) => delivery.id));
  expectThat(ids.size === 1, `delivery ids: ${[...ids]}`);
  const payloads = new Set(told.map(({ payload }) => JSON.stringify(payload)));
  expectThat(payloads.size === 1, `payloads: ${[...payloads]}`);
  for (const payload of payloads) {
    expectThat(payload.includes('"completed"'), `it was told ${payload}`);
  }
  return problems;
}

const messages = async (object: object) =>
  (object as LedgerObject).turns.conversation().map((id) => ({ id }));

describe("L1 L4 O1 O2 one end, one set of messages, told at least once with one id", () => {
  const names = Object.keys(KINDS) as (keyof typeof KINDS)[];
  const scenario = (name: keyof typeof KINDS) => ({
    name,
    objects: env.LedgerObject,
    prepare,
    steps: [KINDS[name]],
    check,
    expect: { messages },
  });

  it.each(names)(
    "whenever the object crashes in %s",
    async (name) => {
      const report = await crashAtEveryWrite(scenario(name));
      console.log(String(report));
      expect(report.wrong, String(report)).toEqual([]);
      // Each point was reached.
      expect(report.crashed).toBe(report.points);
      for (const phase of [
        /INTO perdure_submissions/,
        /'running'/,
        /INTO conversation/,
        /status = \?/,
        /INTO perdure_outbox/,
        /FROM perdure_outbox/,
      ]) {
        const isThere = report.writes.some((what) => phase.test(what));
        expect(isThere, `a write like ${phase}`).toBe(true);
      }
    },
    60_000,
  );

  it.each(names)(
    "whenever it crashes again in the recovery of %s",
    async (name) => {
      const report = await crashAtEveryWrite({ ...scenario(name), again: /INTO conversation/ });
      console.log(String(report));
      expect(report.wrong, String(report)).toEqual([]);
      expect(report.writes.length).toBeGreaterThan(3);
      expect(report.crashed).toBeGreaterThan(report.points / 2);
    },
    60_000,
  );
});

/** What storage holds at the birth of an object's next life: its submission's status, and how many entries. */
function atNextBirth(stub: Ledger): Promise<{ status: unknown; entries: number }> {
  return new Promise((resolve) => {
    births.set(stub.name ?? "", (_, ctx) => {
      const { sql } = ctx.storage;
      const row = sql.exec("SELECT status FROM perdure_submissions").toArray()[0];
      resolve({ status: row?.status, entries: waitingIn(ctx).length });
    });
  });
}

/** The writes that end a submission with two destinations. */
const SETTLE = ["SET status = ?", "INSERT INTO perdure_outbox"];

describe("O1 a terminal state and its entries commit together", () => {
  it.each(["completed", "error", "aborted", "skipped"] as const)("%s", async (status) => {
    const stub = givenLedger();
    const to = [somewhere(), somewhere()];
    for (const { instance } of to) couriers.set(instance, forever);
    const seen: unknown[] = [];
    await stub.list();
    await within(stub, ({ meter, turns }, ctx) => {
      // What is cancelled or skipped has to wait for something.
      if (status === "aborted" || status === "skipped") turns.run = forever;
      meter.onWritten = (_, what) => {
        if (!what.includes("INSERT INTO perdure_outbox")) return;
        seen.push(ctx.storage.sql.exec("SELECT status FROM perdure_submissions").one().status);
      };
    });
    await submit(stub, status === "error" ? { fail: "no" } : {}, {
      submissionId: "s",
      notify: () => to,
    });
    if (status === "aborted") await stub.cancel("s");
    if (status === "skipped") await stub.skipPending();
    await until(async () => (await stub.inspect("s"))?.status === status, 5_000);
    expect(seen).toEqual([status, status]);
    await within(stub, (_, ctx) => expect(waitingIn(ctx)).toHaveLength(2));
  });

  it.each(SETTLE.flatMap((write) => ["before", "after"].map((when) => ({ write, when }))))(
    "also when the object crashes $when $write",
    async ({ write, when }) => {
      const stub = givenLedger();
      const to = [somewhere(), somewhere()];
      for (const { instance } of to) couriers.set(instance, forever);
      await stub.list();
      await within(stub, ({ meter }, ctx) => {
        meter[when === "before" ? "onWrite" : "onWritten"] = (_, what) => {
          if (what.includes(write)) ctx.abort("crash");
        };
      });
      const found = atNextBirth(stub);
      await submit(stub, { delayMs: 20 }, { submissionId: "s", notify: () => to });
      await sleep(100);
      await again(stub).list();
      expect(await found).toEqual({ status: "running", entries: 0 });
      await until(async () => (await again(stub).inspect("s"))?.status === "completed");
      await within(again(stub), (_, ctx) => expect(waitingIn(ctx)).toHaveLength(2));
    },
  );

  it("also when an entry cannot be written", async () => {
    const stub = givenLedger();
    const to = [somewhere(), somewhere()];
    for (const { instance } of to) couriers.set(instance, forever);
    await stub.list();
    await within(stub, ({ meter }) => {
      meter.onWrite = (_, what) => {
        if (!what.includes("INSERT INTO perdure_outbox")) return;
        meter.onWrite = undefined;
        throw new Error("disk full");
      };
    });
    await submit(stub, { delayMs: 20 }, { submissionId: "s", notify: () => to });
    await sleep(100);
    await within(stub, (_, ctx) => {
      const { status } = ctx.storage.sql.exec("SELECT status FROM perdure_submissions").one();
      expect([status, waitingIn(ctx).length]).not.toEqual(["completed", 0]);
    });
    for (const { instance } of to) couriers.delete(instance);
    await (await crashOne(stub)).list();
    await arrived(to[0] ?? somewhere());
  });
});
