/** The real waits beside their model: how a command is performed on both, and what must be equal after it. */

import { expect } from "vitest";
import type { WaitedDelivery } from "../../../src/waits/kinds/webhook/types.ts";
import type { WaitReceipt } from "../../../src/waits/protocol.ts";
import { until } from "../../support/given.ts";
import type { Action, Compared, Subject } from "../../support/model-test.ts";
import { arrivals, type WaitsObject, waitsTime } from "../../support/objects/waits-object.ts";
import { ask, crash, givenWaits, inside, open, rowsOf, wake } from "../../support/waits.ts";
import { LOOKBACK_MS, STEPS, type WaitsCommand, WaitsModel } from "./waits-model.ts";

const START = Date.now() + 86_400_000;
/** A caller that got no reply calls again. */
const MAX_CALLS = 3;

type Row = { wait_id: string; status: string; expires_at: number };

export class WaitsComparison implements Subject<WaitsCommand, readonly Row[]> {
  readonly #object = givenWaits();
  /** Keeps the instances of this sequence apart from those of others. */
  readonly #mark = crypto.randomUUID();
  readonly #model = new WaitsModel();
  /** By the place in the model. */
  readonly #ids: string[] = [];
  readonly #proofs = new Map<string, string>();

  constructor() {
    waitsTime.stoppedAt = START;
  }

  pass(ms: number): void {
    this.#model.now += ms;
    waitsTime.stoppedAt = START + this.#model.now;
  }

  async crash(hasCrashed: boolean): Promise<void> {
    if (!hasCrashed) await crash(this.#object);
  }

  inside(work: (object: WaitsObject, ctx: DurableObjectState) => void): Promise<void> {
    return inside(this.#object, work);
  }

  actionOf(command: WaitsCommand): Action {
    let place: number | undefined;
    return {
      expect: () => {
        place = this.#model.apply(command);
      },
      act: () => repeated(() => this.#perform(command, place)),
    };
  }

  async #perform(command: WaitsCommand, place: number | undefined): Promise<void> {
    const id = this.#ids[place ?? -1];
    if (command.op === "open") {
      this.#checkReceipt(await open(this.#object, this.#requestOf(command)), place);
    } else if (command.op === "cancel") {
      const of = { workflow: "W", instance: this.#instance(command.instance) };
      await inside(this.#object, ({ waits }) => waits.cancelFor(of, "gone"));
    } else if (command.op === "deliver") {
      await inside(this.#object, (object) => object.accept(this.#delivery(command.id)));
    } else if (command.op === "wake") await wake(this.#object);
    else if (id !== undefined && command.op === "close") {
      await inside(this.#object, ({ waits }) =>
        waits.settle(id, { status: "completed", result: null }),
      );
    } else if (id !== undefined) {
      await inside(this.#object, ({ waits }) =>
        waits.close({ waitId: id }, { status: "expired", result: null }),
      );
    }
  }

  /** The same wait and proof where the model has the same wait, and new ones where it has another. */
  #checkReceipt({ waitId, proof = "" }: WaitReceipt, place: number | undefined): void {
    if (place !== undefined) this.#ids[place] ??= waitId;
    expect(waitId).toBe(this.#ids[place ?? -1]);
    expect(this.#proofs.get(waitId) ?? proof).toBe(proof);
    this.#proofs.set(waitId, proof);
  }

  #requestOf({ at, run, timeoutMs }: Extract<WaitsCommand, { op: "open" }>) {
    const { instance, step, isHook } = STEPS[at];
    const request = { from: "stripe", match: { order: 1 }, lookbackMs: LOOKBACK_MS };
    return ask({
      ...(isHook && { kind: "webhook", request }),
      instance: this.#instance(instance),
      idempotencyKey: `${this.#mark}:${instance}:${step}`,
      run: `run-${run}`,
      timeoutMs,
    });
  }

  #delivery(id: string): WaitedDelivery {
    const body = { order: id === "other" ? 2 : 1 };
    return { source: "stripe", id, type: "paid", body, receivedAt: START + this.#model.now };
  }

  #instance(name: "a" | "b"): string {
    return `${this.#mark}-${name}`;
  }

  look(): Promise<readonly Row[]> {
    return rowsOf(this.#object);
  }

  compare(rows: readonly Row[]): Compared {
    const { waits } = this.#model;
    return {
      seen: {
        waits: rows.map(({ wait_id, status, expires_at }) => [wait_id, status, expires_at]),
      },
      expected: {
        waits: waits.map(({ status, expiresAt }, place) => [
          this.#ids[place],
          status,
          START + expiresAt,
        ]),
      },
    };
  }

  /** Every completed wait has notified its workflow, and no other one has. */
  async finish(): Promise<void> {
    expect(new Set(this.#ids).size).toBe(this.#ids.length);
    const notified = this.#ids.filter((_, place) => this.#model.waits[place]?.isNotified);
    // An event that was in flight at a crash is delivered after the next start.
    await crash(this.#object);
    await wake(this.#object);
    const arrived = () => [...new Set(this.#events().map(({ waitId }) => waitId))];
    await until(() => arrived().length >= notified.length, 5_000).catch(() => {});
    expect(arrived().sort()).toEqual(notified.toSorted());
    for (const { waitId, proof } of this.#events()) expect(proof).toBe(this.#proofs.get(waitId));
    expect(new Set(this.#proofs.values()).size).toBe(this.#proofs.size);
  }

  #events() {
    const all = (["a", "b"] as const).flatMap((name) => arrivals.get(this.#instance(name)) ?? []);
    return all.map(({ data, proof }) => ({ ...(data as { waitId: string }), proof }));
  }

  async end(): Promise<void> {
    waitsTime.stoppedAt = undefined;
  }
}

async function repeated(call: () => Promise<void>): Promise<void> {
  for (let calls = 1; ; calls++) {
    try {
      return await call();
    } catch (error) {
      if (calls >= MAX_CALLS) throw error;
    }
  }
}
