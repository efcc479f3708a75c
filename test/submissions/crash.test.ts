/**
 * A crash at every write and delivery of a submission: its acceptance, its turn, its end, what is done with it later, and
 * the recovery from an earlier crash. The scenarios are in crash/. And O1: an end and its entries are one commit.
 */

import { describe, expect, it } from "vitest";
import { Submissions } from "../../src/submissions/submissions.ts";
import { TurnEngine } from "../../src/submissions/turns/turn-engine.ts";
import { BatchKind } from "../../src/workflow/waits/kinds/batch.ts";
import { PromptKind } from "../../src/workflow/waits/kinds/prompt.ts";
import { playMatrix } from "../support/crash/matrix.ts";
import { givenLedger, until } from "../support/given.ts";
import {
  again,
  arrived,
  crashOne,
  forever,
  type Ledger,
  release,
  somewhere,
  submit,
  waitingIn,
  within,
} from "../support/ledger.ts";
import { births, couriers } from "../support/objects/ledger-object.ts";
import { ANSWERS } from "./crash/answers.ts";
import { PROMPT_PLANS } from "./crash/prompts.ts";
import { LEDGER } from "./crash/submissions.ts";

const READS = "reads only";

playMatrix(
  "L1 L2 L4 L5 L6 O1 O2",
  { ...LEDGER, ...PROMPT_PLANS, ...ANSWERS },
  {
    owners: {
      Submissions,
      TurnEngine,
      PromptKind,
      BatchKind,
    },
    harmless: {
      "Submissions.drive": "the alarm, which wakes every scenario",
      "Submissions.onStart": "each start of the object begins with it",
      "Submissions.inspect": READS,
      "Submissions.checkOwner": READS,
      "Submissions.list": READS,
      "Submissions.stats": READS,
      "Submissions.store": "the rows",
      "Submissions.turns": "is made at its first use, and writes nothing",
      "Submissions.wait": "waits in memory, and writes nothing",
      "Submissions.accept": "is played by submitMany(), PromptKind.open() and BatchKind.open()",
      "Submissions.submitAll": "is played by submit() and submitMany()",
      "TurnEngine.start": "each start of the object calls it",
      "TurnEngine.endSeen": "each turn ends by it",
      "TurnEngine.cancelFor": "is played by Submissions.cancelFor()",
      "TurnEngine.flush": "starts to deliver what is stored, as the alarm does",
      "TurnEngine.onAccepted": "is played by submit() and submitMany()",
      "TurnEngine.cancel": "is played by Submissions.cancel()",
      "TurnEngine.clear": "is played by clearThread() and clearMain()",
      "TurnEngine.stopTurn": "aborts a turn in memory; its end is played by cancel()",
      "TurnEngine.busy": "remembers a time in memory, and writes nothing",
      "TurnEngine.mayContinue": READS,
      "TurnEngine.progressAt": READS,
      "TurnEngine.drive": "the alarm, which wakes every scenario",
      "TurnEngine.watch": "ends stalled turns, as the alarm does",
      "PromptKind.check": READS,
      "PromptKind.read": READS,
      "PromptKind.cancelFor": "calls Submissions.cancelFor()",
      "BatchKind.read": READS,
      "BatchKind.refuse": "does what PromptKind.refuse() does",
    },
  },
);

/** What storage holds at the next start of an object: its submission's status, and how many entries. */
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

describe("O1: a terminal state and its entries commit together", () => {
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
    if (status === "skipped") await stub.reset();
    await until(async () => (await stub.inspect("s"))?.status === status);
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
      let hasCrashed = false;
      await within(stub, ({ meter }, ctx) => {
        meter[when === "before" ? "onWrite" : "onWritten"] = (_, what) => {
          if (!what.includes(write)) return;
          hasCrashed = true;
          ctx.abort("crash");
        };
      });
      const found = atNextBirth(stub);
      await submit(stub, { isHeld: true }, { submissionId: "s", notify: () => to });
      // The crash may come before this returns.
      await release(stub, "s").catch(() => {});
      await until(() => hasCrashed);
      await again(stub).list();
      expect(await found).toEqual({ status: "running", entries: 0 });
      await until(async () => (await again(stub).inspect("s"))?.attempts === 2);
      await release(again(stub), "s");
      await until(async () => (await again(stub).inspect("s"))?.status === "completed");
      await within(again(stub), (_, ctx) => expect(waitingIn(ctx)).toHaveLength(2));
    },
  );

  it("also when an entry cannot be written", async () => {
    const stub = givenLedger();
    const to = [somewhere(), somewhere()];
    for (const { instance } of to) couriers.set(instance, forever);
    await stub.list();
    let hasFailed = false;
    await within(stub, ({ meter }) => {
      meter.onWrite = (_, what) => {
        if (!what.includes("INSERT INTO perdure_outbox")) return;
        meter.onWrite = undefined;
        hasFailed = true;
        throw new Error("disk full");
      };
    });
    await submit(stub, { delayMs: 20 }, { submissionId: "s", notify: () => to });
    await until(() => hasFailed);
    await within(stub, (_, ctx) => {
      const { status } = ctx.storage.sql.exec("SELECT status FROM perdure_submissions").one();
      expect([status, waitingIn(ctx).length]).not.toEqual(["completed", 0]);
    });
    for (const { instance } of to) couriers.delete(instance);
    await (await crashOne(stub)).list();
    await arrived(to[0] ?? somewhere());
  });
});
