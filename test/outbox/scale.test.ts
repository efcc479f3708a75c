/**
 * O2 O3 O5 thousands of entries to a hundred destinations: what each of them
 * costs, and that those which are slow or refuse hold up no other one. Counts
 * have limits that hold on every machine. The whole load, with its times, is `npm run bench:outbox`.
 *
 * `VITE_PERDURE_OUTBOX_LOAD` sets another number of entries.
 */

import { expect, it } from "vitest";
import type { WorkflowDestination } from "../../src/outbox/index.ts";
import { givenLedger, until } from "../support/given.ts";
import { jobOf, waitingIn, within } from "../support/ledger.ts";
import { Recorder, type Statement } from "../support/ledger-scale.ts";
import { couriers } from "../support/objects/ledger-object.ts";
import { HANG_MS, sizeOf } from "../support/sizes.ts";
import { type Crowd, Load, type LoadEvent, STATEMENTS, tally } from "./outbox-load.ts";

const LOAD = sizeOf("OUTBOX_LOAD", 2_000);
/** Entries that are put in one transaction. */
const TOGETHER = 100;

type Drained = { load: Load; statements: Statement[]; setAlarms: number };

/**
 * Puts a load into a fresh outbox, and waits until it has arrived and nothing is left.
 *
 * @param heldFor deliveries to healthy destinations before which no slow one answers
 */
function drain(entries: number, crowd: Crowd, heldFor = 0): Promise<Drained> {
  const load = new Load(entries, crowd, heldFor);
  // A courier is known by its instance, all over the tests.
  const run = crypto.randomUUID();
  const toOf = (index: number): WorkflowDestination => {
    const name = load.nameOf(index);
    couriers.set(`${run} ${name}`, async ({ attempt, ...sent }) => {
      if (!("event" in sent)) throw new Error("The event came as a reference");
      await load.receive(name, attempt, sent.event as LoadEvent);
    });
    const policy = { backoff: { base: 50, cap: 200 }, timeout: 2 * HANG_MS };
    const instance = `${run} ${name}`;
    return { kind: "workflow", workflow: "PROMPT_WORKFLOW", instance, eventType: "load", policy };
  };
  return within(givenLedger(), async ({ lifecycle, outbox, meter }, ctx) => {
    await lifecycle.start();
    meter.reset();
    const statements = await new Recorder(meter).during(async () => {
      for (let first = 0; first < entries; first += TOGETHER) {
        ctx.storage.transactionSync(() => {
          for (let index = first; index < Math.min(entries, first + TOGETHER); index++) {
            outbox.put(toOf(index), { index, putAt: Date.now() } satisfies LoadEvent);
          }
        });
        await ctx.storage.sync();
      }
      await until(() => load.isDone);
      await until(() => jobOf(ctx) === null);
    });
    expect(waitingIn(ctx)).toEqual([]);
    expect(await ctx.storage.getAlarm()).toBeNull();
    return { load, statements, setAlarms: meter.read().setAlarms };
  });
}

it(`O5: each of ${LOAD} entries to 100 destinations costs one row to put, one to delete, and few reads`, async () => {
  const { load, statements, setAlarms } = await drain(LOAD, { healthy: 100, slow: 0, failing: 0 });
  expect(load.problems()).toEqual([]);
  const once = { times: LOAD, rowsWritten: LOAD };
  expect(tally(statements, STATEMENTS.put)).toMatchObject(once);
  expect(tally(statements, STATEMENTS.forget)).toMatchObject(once);
  const all = tally(statements);
  const wake = tally(statements, STATEMENTS.wake);
  const look = tally(statements, STATEMENTS.look);
  console.log(
    `${LOAD} entries: ${all.times / LOAD} statements, ${all.rowsRead / LOAD} rows read and ${all.rowsWritten / LOAD} ` +
      `written for each; ${look.times} looks, which read ${look.rowsRead} of these rows; ${setAlarms} alarms`,
  );
  // One wake is pushed with the first entry and removed after the last, and an alarm may have moved it in between.
  expect(wake.rowsWritten).toBeLessThanOrEqual(12);
  expect(setAlarms).toBeLessThanOrEqual(6);
  expect(all.rowsWritten).toBe(2 * LOAD + wake.rowsWritten);
  // To put, to claim and to forget, to see whether it was the last one, and what is shared by many.
  expect(all.times / LOAD).toBeLessThanOrEqual(4.1);
  expect((all.rowsRead - look.rowsRead) / LOAD).toBeLessThanOrEqual(5.2);
  // A look is paid by 64 deliveries at least. It brings up to 512 into memory, so that few are needed while all wait,
  // and reads the row of each that waits up to ten times, as SQLite counts the sorting.
  expect(look.times).toBeLessThanOrEqual(Math.ceil(LOAD / 64));
  expect(look.rowsRead / LOAD).toBeLessThanOrEqual(10 * Math.ceil(LOAD / 512));
});

it("O2: healthy destinations do not wait for slow or failing ones", async () => {
  const each = 4;
  const crowd = { healthy: 85, slow: 10, failing: 5 };
  // No slow one answers before all healthy ones have received theirs.
  const { load } = await drain(each * 100, crowd, each * crowd.healthy);
  expect(load.problems()).toEqual([]);
});
