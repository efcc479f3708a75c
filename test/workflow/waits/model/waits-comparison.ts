/** The real waits beside their model: how a command is performed on both, and what must be equal after it. */

import { expect } from "vitest";
import type { Json } from "../../../../src/core/json.ts";
import type { WaitReceipt } from "../../../../src/workflow/waits/protocol.ts";
import { until } from "../../../support/given.ts";
import type { Action, Compared, Subject } from "../../../support/model-test.ts";
import { endEvents, type WaitsObject, waitsTime } from "../../../support/objects/waits-object.ts";
import { ask, crash, givenWaits, inside, open, rowsOf, wake } from "../../../support/waits.ts";
import { ARRIVALS, STEPS, type WaitsCommand, WaitsModel } from "./waits-model.ts";

const START = Date.now() + 86_400_000;
/** A caller that got no reply calls again. */
const MAX_CALLS = 3;

type Row = { wait_id: string; status: string; expires_at: number; result: string | null };
type Snapshot = {
  readonly rows: readonly Row[];
  /** The waits that each arrival has ended, by its id. */
  readonly log: Readonly<Record<string, readonly string[]>>;
};
const SCHEMA = { type: "object", properties: { amount: { type: "number", maximum: 100 } } };

export class WaitsComparison implements Subject<WaitsCommand, Snapshot> {
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
    let refused: number | undefined;
    return {
      expect: () => {
        if (command.op === "open") refused = this.#model.refusedBy(command);
        place = this.#model.apply(command);
      },
      act: () => repeated(() => this.#perform(command, place, refused)),
    };
  }

  async #perform(
    command: WaitsCommand,
    place: number | undefined,
    refused: number | undefined,
  ): Promise<void> {
    const id = this.#ids[place ?? -1];
    if (command.op === "open") {
      const refuses = this.#ids[refused ?? -1];
      const request = { ...this.#requestOf(command), ...(refuses !== undefined && { refuses }) };
      this.#checkReceipt(await open(this.#object, request), place);
    } else if (command.op === "deliver") {
      const { sent } = ARRIVALS[command.arrival] as (typeof ARRIVALS)[number];
      const receivedAt = START + this.#model.now;
      const arrival = { ...sent, id: idOf(command.arrival), receivedAt };
      await inside(this.#object, (object) => object.accept(arrival));
    } else if (command.op === "cancel") {
      const of = { workflow: "W", instance: this.#instance(command.instance) };
      await inside(this.#object, ({ waits }) => waits.cancelFor(of, "gone"));
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

  #requestOf({ at, run, timeoutMs, lookbackMs }: Extract<WaitsCommand, { op: "open" }>) {
    const { instance, step, order } = STEPS[at];
    const webhook = { from: "stripe", types: ["paid"], match: { order }, schema: SCHEMA };
    return ask({
      ...(order !== undefined && {
        kind: "webhook",
        request: { ...webhook, lookbackMs } as unknown as Json,
      }),
      instance: this.#instance(instance),
      idempotencyKey: `${this.#mark}:${instance}:${step}`,
      run: `run-${run}`,
      timeoutMs,
    });
  }

  #instance(name: "a" | "b"): string {
    return `${this.#mark}-${name}`;
  }

  async look(): Promise<Snapshot> {
    const rows = (await rowsOf(this.#object)) as unknown as Row[];
    return { rows, log: await inside(this.#object, ({ arrivals }) => arrivals.waits()) };
  }

  compare({ rows, log }: Snapshot): Compared {
    const { waits, log: expected } = this.#model;
    const endedBy = (arrival: number) =>
      this.#ids.filter((_, place) => waits[place]?.arrival === arrival);
    return {
      seen: {
        waits: rows
          .map(({ wait_id, status, expires_at, result }) => [
            ...[wait_id, status, expires_at],
            (JSON.parse(result ?? "null") as { id?: string } | null)?.id,
          ])
          .sort(byId),
        log: Object.entries(log).map(([id, ids]) => [id, ids.toSorted()]),
      },
      expected: {
        waits: waits
          .map(({ status, expiresAt, arrival }, place) => [
            ...[this.#ids[place], status, START + expiresAt],
            arrival === undefined ? undefined : idOf(arrival),
          ])
          .sort(byId),
        log: [...expected.keys()].map((one) => [idOf(one), endedBy(one).toSorted()]),
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
    await until(() => arrived().length >= notified.length).catch(() => {});
    expect(arrived().sort()).toEqual(notified.toSorted());
    for (const { waitId, proof, result } of this.#events()) {
      expect(proof).toBe(this.#proofs.get(waitId));
      const { arrival } = this.#model.waits[this.#ids.indexOf(waitId)] ?? {};
      expect(result?.id).toBe(arrival === undefined ? undefined : idOf(arrival));
    }
    expect(new Set(this.#proofs.values()).size).toBe(this.#proofs.size);
  }

  #events() {
    const all = (["a", "b"] as const).flatMap((name) => endEvents.get(this.#instance(name)) ?? []);
    type Data = { waitId: string; result: { id?: string } | null };
    return all.map(({ data, proof }) => ({ ...(data as Data), proof }));
  }

  async end(): Promise<void> {
    waitsTime.stoppedAt = undefined;
  }
}

const idOf = (arrival: number) => `d${arrival}`;

async function repeated(call: () => Promise<void>): Promise<void> {
  for (let calls = 1; ; calls++) {
    try {
      return await call();
    } catch (error) {
      if (calls >= MAX_CALLS) throw error;
    }
  }
}

/** Rows of different kinds have no order among themselves. */
function byId([one]: readonly unknown[], [other]: readonly unknown[]): number {
  return String(one) < String(other) ? -1 : 1;
}
