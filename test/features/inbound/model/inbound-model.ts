/** What the arrival log must do, in memory. */

import fc from "fast-check";
import type { StoredVerdict } from "../../../../src/features/inbound/states.ts";
import { stepsOf } from "../../../support/model-test.ts";

const IDS = ["a", "b", "c", "d"] as const;
type Id = (typeof IDS)[number];

/** Whether each call of a handler succeeds. The handler ends at the first that does not, or is cut after the last. */
export type Calls = readonly boolean[];

export type InboundCommand =
  | { readonly op: "deliver"; readonly id: Id; readonly calls: Calls; readonly isCut: boolean }
  | { readonly op: "fail"; readonly id: Id }
  | { readonly op: "replay"; readonly id: Id }
  | { readonly op: "replay all" }
  | { readonly op: "wait" };

type Entry = {
  readonly id: Id;
  verdict: StoredVerdict;
  readonly ordinals: Set<number>;
  waits: number;
  error: { ordinal?: number } | undefined;
};

/** The handler of a replay makes so many calls. */
export const REPLAYED: Calls = [true, true];

export class InboundModel {
  /** Oldest first. */
  readonly entries: Entry[] = [];
  readonly notes: string[] = [];
  isWaiting = false;

  apply(command: InboundCommand): void {
    const { op } = command;
    if (op === "deliver") this.#deliver(command.id, command.calls, command.isCut);
    else if (op === "fail") this.#refuse(command.id, {}, true);
    else if (op === "wait") this.isWaiting = true;
    else {
      const all = this.entries.filter(({ id, error, verdict }) => {
        if (op === "replay all") return error !== undefined;
        return id === command.id && (error !== undefined || verdict !== "accepted");
      });
      for (const entry of all) {
        this.#deliver(entry.id, REPLAYED, false);
      }
    }
  }

  #deliver(id: Id, calls: Calls, isCut: boolean): void {
    if (calls.length === 0) this.#filter(id);
    for (const [ordinal, isGood] of calls.entries()) {
      if (this.#find(id)?.ordinals.has(ordinal)) continue;
      if (!isGood) {
        this.#refuse(id, { ordinal }, ordinal === 0);
        return;
      }
      const entry = this.#open(id, ordinal === 0);
      entry.ordinals.add(ordinal);
      entry.verdict = "accepted";
      const other = entry.error?.ordinal === ordinal ? undefined : entry.error;
      if (ordinal > 0 || other?.ordinal !== undefined) entry.error = other ?? {};
      else entry.error = undefined;
      this.notes.push(`${id}:${ordinal}`);
    }
    const entry = this.#find(id);
    if (entry && !isCut) entry.error = undefined;
  }

  #filter(id: Id): void {
    if (this.#find(id)?.verdict === "accepted") return;
    const entry = this.#open(id, true);
    entry.verdict = entry.waits > 0 ? "accepted" : "filtered";
    entry.error = undefined;
  }

  #refuse(id: Id, error: { ordinal?: number }, hasBody: boolean): void {
    const entry = this.#open(id, hasBody);
    entry.verdict = entry.waits + entry.ordinals.size > 0 ? "accepted" : "refused";
    entry.error = error;
  }

  /** The entry, with the wait that this request closes. */
  #open(id: Id, hasBody: boolean): Entry {
    const known = this.#find(id);
    const entry = known ?? {
      id,
      verdict: "filtered",
      ordinals: new Set(),
      waits: 0,
      error: undefined,
    };
    if (!known) this.entries.push(entry);
    if (this.isWaiting && hasBody && known?.verdict !== "accepted") {
      this.isWaiting = false;
      entry.waits++;
    }
    return entry;
  }

  #find(id: Id): Entry | undefined {
    return this.entries.find((entry) => entry.id === id);
  }
}

const id = fc.constantFrom(...IDS);
const command: fc.Arbitrary<InboundCommand> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      op: fc.constant("deliver" as const),
      id,
      calls: fc.array(
        fc.oneof(
          { weight: 3, arbitrary: fc.constant(true) },
          { weight: 1, arbitrary: fc.constant(false) },
        ),
        { maxLength: 3 },
      ),
      isCut: fc.boolean(),
    }),
  },
  { weight: 1, arbitrary: fc.record({ op: fc.constant("fail" as const), id }) },
  { weight: 1, arbitrary: fc.record({ op: fc.constant("replay" as const), id }) },
  { weight: 1, arbitrary: fc.constant({ op: "replay all" as const }) },
  { weight: 1, arbitrary: fc.constant({ op: "wait" as const }) },
);

export const inboundSteps = stepsOf(command, {
  weights: { command: 6, crash: 1, pass: 0, crashIn: 4 },
  times: [0],
  maxWrite: 6,
});
