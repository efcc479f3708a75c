/**
 * L1 L4: random sequences in which the gate of `limits()` lets submissions wait, refuses them, fails, never answers, or lets a turn
 * wait in its middle, with cancellations, crashes and time in between. Every submission reaches exactly one end, and those of a
 * thread begin in the order of acceptance. The seed is fixed; a failure prints it, with the sequence.
 */

import fc from "fast-check";
import { expect, it } from "vitest";
import type { Admission } from "../../src/submissions/gate.ts";
import { installGate } from "../../src/submissions/install-gate.ts";
import { givenLedger, until } from "../support/given.ts";
import {
  crashOne,
  forever,
  type Ledger,
  sleep,
  submit,
  wakeNow,
  within,
} from "../support/ledger.ts";
import { full, limitWait, ScriptedGate } from "../support/limits/gate.ts";
import { births, type LedgerObject, resetClock, time } from "../support/objects/ledger-object.ts";
import { limitMs } from "../support/sizes.ts";

const DECISIONS = ["start", "start", "asks", "short", "long", "fails", "lost", "refuses"] as const;
const THREADS = ["main", "main", "side", "isolated"] as const;
const MINUTE = 60_000;

const commands = fc.array(
  fc.oneof(
    fc.record({
      op: fc.constant("submit" as const),
      thread: fc.constantFrom(...THREADS),
      /** What the gate says, one time after the other; then the turn starts. */
      decisions: fc.array(fc.constantFrom(...DECISIONS), { maxLength: 4 }),
      /** How often its turn has to wait after it has begun. */
      waits: fc.constantFrom(0, 0, 1, 3),
    }),
    fc.record({
      op: fc.constantFrom("cancel" as const, "crash" as const, "pass" as const),
      nth: fc.nat(5),
    }),
  ),
  { minLength: 4, maxLength: 14 },
);
type Commands = typeof commands extends fc.Arbitrary<infer All> ? All : never;
type Planned = { readonly thread: string; readonly decisions: string[]; waits: number };

class RandomRun {
  #stub: Ledger = givenLedger();
  readonly #plans = new Map<string, Planned>();
  readonly #began: string[] = [];
  readonly #cancelled = new Set<string>();

  constructor() {
    births.set(this.#stub.name ?? "", (object) => this.#prepare(object));
  }

  #prepare({ submissions, turns }: LedgerObject): void {
    installGate(submissions, new ScriptedGate(({ submissionId }) => this.#decide(submissionId)));
    const run = turns.run.bind(turns);
    turns.run = async (turn) => {
      const plan = this.#plans.get(turn.submissionId);
      if (!plan?.waits)
        return run({ ...turn, begin: () => this.#begin(turn.submissionId, turn.begin) });
      plan.waits--;
      this.#begin(turn.submissionId, turn.begin);
      throw limitWait(MINUTE);
    };
  }

  #begin<Ref>(id: string, begin: () => Ref): Ref {
    const ref = begin();
    if (!this.#began.includes(id)) this.#began.push(id);
    return ref;
  }

  #decide(id: string): Promise<Admission> | Admission {
    switch (this.#plans.get(id)?.decisions.shift()) {
      case "asks":
        return sleep(2) as Promise<undefined>;
      case "short":
        return full(3_000);
      case "long":
        return full(10 * MINUTE);
      case "fails":
        return Promise.reject(new Error("no keeper"));
      case "lost":
        return forever();
      case "refuses":
        return { status: "error", failure: { name: "LimitReachedError", message: "no" } };
      default:
        return undefined;
    }
  }

  async perform(all: Commands): Promise<void> {
    await this.#stub.list();
    await within(this.#stub, (_, { storage }) =>
      storage.sql.exec(`CREATE TABLE ends (id TEXT);
        CREATE TRIGGER ends_of AFTER UPDATE OF settled_at ON perdure_submissions WHEN NEW.settled_at IS NOT NULL
        BEGIN INSERT INTO ends VALUES (NEW.submission_id); END`),
    );
    for (const command of all) {
      const ids = [...this.#plans.keys()];
      if (command.op === "submit") {
        const { thread, decisions, waits } = command;
        const id = `${ids.length}`.padStart(2, "0");
        this.#plans.set(id, { thread, decisions: [...decisions], waits });
        await submit(this.#stub, "x", { submissionId: id, thread });
      } else if (command.op === "crash") this.#stub = await crashOne(this.#stub);
      else if (command.op === "pass")
        await this.#pass([3_100, 31_000, 11 * MINUTE][command.nth % 3]);
      else {
        const id = ids[command.nth % Math.max(1, ids.length)];
        if (id === undefined) continue;
        this.#cancelled.add(id);
        await this.#stub.cancel(id);
      }
      await sleep(3);
    }
  }

  async #pass(ms = 0): Promise<void> {
    time.aheadMs += ms;
    await wakeNow(this.#stub);
  }

  async finish(): Promise<void> {
    for (let round = 0; round < 60; round++) {
      const open = await within(this.#stub, ({ submissions }) =>
        submissions.list({ status: ["pending", "running"] }),
      );
      if (open.length === 0) break;
      await this.#pass(11 * MINUTE);
      await sleep(10);
    }
    await until(async () => {
      const found = await within(this.#stub, ({ submissions }) => submissions.stats());
      return found.pending + found.running === 0;
    });
    const ends = await within(this.#stub, (_, { storage }) =>
      storage.sql.exec<{ id: string }>("SELECT id FROM ends ORDER BY id").toArray(),
    );
    expect(
      ends.map(({ id }) => id),
      "L1 ends",
    ).toEqual([...this.#plans.keys()]);
    for (const id of this.#plans.keys()) {
      const found = await this.#stub.inspect(id);
      const isRefused = found?.errorName === "LimitReachedError";
      const wanted = isRefused ? "error" : this.#cancelled.has(id) ? found?.status : "completed";
      expect(found, `L1 ${id}`).toMatchObject({ status: wanted });
      expect(found, `L8 ${id}`).not.toHaveProperty("failedAttempts");
    }
    for (const thread of ["main", "side"]) {
      const began = this.#began.filter((id) => this.#plans.get(id)?.thread === thread);
      expect(began, `L4 ${thread}`).toEqual(began.toSorted());
    }
  }

  end(): void {
    births.delete(this.#stub.name ?? "");
  }
}

it(
  "L1 L4: submissions that wait, are refused or lose their decision reach exactly one end, in their order",
  async () => {
    const log = console.error;
    console.error = () => {};
    await fc.assert(
      fc.asyncProperty(commands, async (all) => {
        const run = new RandomRun();
        try {
          await run.perform(all);
          await run.finish();
        } finally {
          run.end();
          resetClock();
        }
      }),
      { numRuns: 25, seed: 20261126, endOnFailure: true },
    );
    console.error = log;
  },
  limitMs(120_000),
);
