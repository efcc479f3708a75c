/** A model of the waits, and its commands. */

import fc from "fast-check";
import type { WaitedArrival } from "../../../../src/features/inbound/protocol.ts";
import { stepsOf } from "../../../support/model-test.ts";

const DAY_MS = 86_400_000;
/** Steps of two instances. Those with `order` wait for an arrival of an order, the others for an approval. */
export const STEPS = [
  { instance: "a", step: "one", order: undefined },
  { instance: "a", step: "two", order: undefined },
  { instance: "b", step: "one", order: undefined },
  { instance: "a", step: "paid", order: 1 },
  { instance: "a", step: "paid again", order: 1 },
  { instance: "b", step: "paid", order: 1 },
  { instance: "b", step: "other", order: 2 },
] as const;
export type StepNumber = 0 | 1 | 2 | 3 | 4 | 5 | 6;

type Sent = Pick<WaitedArrival, "source" | "type" | "body">;
const paid = (order: number, rest: Partial<Sent> = {}) => ({
  sent: { source: "stripe", type: "paid", body: { order, amount: 1 }, ...rest } as Sent,
});
/** What is sent, and the order whose steps it is for. Their places are their ids. */
export const ARRIVALS: readonly { readonly sent: Sent; readonly order?: 1 | 2 }[] = [
  { ...paid(1), order: 1 },
  { ...paid(1), order: 1 },
  { ...paid(1), order: 1 },
  { ...paid(2), order: 2 },
  { ...paid(2), order: 2 },
  paid(1, { source: "github" }),
  paid(1, { type: "created" }),
  // The JSON Schema of the steps refuses it.
  paid(1, { body: { order: 1, amount: 101 } }),
];

export type WaitsCommand =
  | {
      readonly op: "open";
      readonly at: StepNumber;
      readonly run: 1 | 2;
      readonly timeoutMs: number;
      /** For arrivals. */
      readonly lookbackMs: number;
      /** The step refuses the arrival that it has got, if it has got one. */
      readonly refuses: boolean;
    }
  | { readonly op: "close" | "expire"; readonly at: StepNumber }
  /** A second time, it is a duplicate. */
  | { readonly op: "deliver"; readonly arrival: number }
  | { readonly op: "cancel"; readonly instance: "a" | "b" }
  | { readonly op: "wake" };
type Open = Extract<WaitsCommand, { op: "open" }>;

export type ExpectedWait = {
  readonly status: "open" | "completed" | "failed" | "expired" | "cancelled";
  readonly at: StepNumber;
  readonly run: number;
  readonly expiresAt: number;
  /** Its workflow must get an event. */
  readonly isNotified: boolean;
  readonly lookbackMs: number;
  /** From when on an arrival may be the one that it waits for. */
  readonly since: number;
  /** The arrival that has ended it. */
  readonly arrival: number | undefined;
};

const APPROVALS: StepNumber[] = [0, 1, 2];
const WEBHOOKS: StepNumber[] = [3, 4, 5, 6];

/** @param lookbacks how long before the step an arrival may have come */
const opens = (steps: StepNumber[], lookbacks: number[], refuses: fc.Arbitrary<boolean>) =>
  fc.record({
    op: fc.constant("open" as const),
    at: fc.constantFrom(...steps),
    run: fc.constantFrom<(1 | 2)[]>(1, 2),
    timeoutMs: fc.constantFrom(1_000, DAY_MS),
    lookbackMs: fc.constantFrom(...lookbacks),
    refuses,
  });

const commands: fc.Arbitrary<WaitsCommand> = fc.oneof(
  { weight: 3, arbitrary: opens(APPROVALS, [0], fc.constant(false)) },
  {
    weight: 8,
    arbitrary: opens(WEBHOOKS, [0, DAY_MS], fc.constantFrom(true, true, false)),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      op: fc.constant("deliver" as const),
      // Most are for the steps of the first order.
      arrival: fc.constantFrom(...ARRIVALS.keys(), 0, 1, 1, 2, 2),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ op: fc.constant("close" as const), at: fc.constantFrom(...APPROVALS) }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      op: fc.constant("expire" as const),
      at: fc.constantFrom(...APPROVALS, ...WEBHOOKS),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      op: fc.constant("cancel" as const),
      instance: fc.constantFrom("a" as const, "b" as const),
    }),
  },
  { weight: 2, arbitrary: fc.record({ op: fc.constant("wake" as const) }) },
);

export const waitsSteps = stepsOf(commands, {
  weights: { command: 10, crash: 2, pass: 4, crashIn: 2 },
  times: [1, DAY_MS, 2 * DAY_MS],
  maxWrite: 6,
});

export class WaitsModel {
  /** The waits, oldest first. */
  readonly waits: ExpectedWait[] = [];
  /** When each arrival came, oldest first. */
  readonly log = new Map<number, number>();
  now = 0;

  /** Performs it. Returns the place of the wait that it is about. */
  apply(command: WaitsCommand): number | undefined {
    if (command.op === "open") return this.#open(command);
    if (command.op === "deliver") this.#deliver(command.arrival);
    if (command.op === "wake") {
      this.#closeWhere(({ expiresAt }) => expiresAt <= this.now, "expired");
    }
    if (command.op === "cancel") {
      this.#closeWhere((wait) => STEPS[wait.at].instance === command.instance, "cancelled");
    }
    if (command.op !== "close" && command.op !== "expire") return undefined;
    const place = this.latest(command.at);
    const isClose = command.op === "close";
    if (place !== undefined) {
      this.#change(place, { status: isClose ? "completed" : "expired", isNotified: isClose });
    }
    return place;
  }

  latest(at: StepNumber): number | undefined {
    const place = this.waits.findLastIndex((wait) => wait.at === at);
    return place === -1 ? undefined : place;
  }

  /** The place of the wait whose arrival the step refuses. */
  refusedBy({ at, refuses }: Open): number | undefined {
    const place = this.latest(at);
    return refuses && this.waits[place ?? -1]?.arrival !== undefined ? place : undefined;
  }

  #open(command: Open): number {
    const { at, run, timeoutMs, lookbackMs } = command;
    const expiresAt = this.now + timeoutMs + DAY_MS;
    const known = this.latest(at) ?? -1;
    const wait = this.waits[known];
    const isRefused = this.refusedBy(command) !== undefined;
    if (wait && !isRefused) {
      const isSame = wait.run === run || wait.lookbackMs === lookbackMs;
      if (wait.status === "open" && isSame) {
        this.waits[known] = { ...wait, run, expiresAt };
        return known;
      }
      const isForAll = wait.status === "completed" && STEPS[at].order !== undefined;
      if (wait.status !== "open" && (wait.run === run || isForAll)) return known;
    }
    if (wait?.status === "open") this.#change(known, { status: "cancelled", isNotified: false });
    if (wait?.status === "completed" && isRefused)
      this.waits[known] = { ...wait, status: "failed" };
    const since = wait && isRefused ? wait.since : this.now - lookbackMs;
    const arrival = lookbackMs > 0 || isRefused ? this.#firstFor(at, since) : undefined;
    const status = arrival === undefined ? "open" : "completed";
    return (
      this.waits.push({
        ...{ status, at, run, expiresAt, isNotified: false, lookbackMs, since, arrival },
      } as const) - 1
    );
  }

  /** The oldest arrival since then that a step is for. */
  #firstFor(at: StepNumber, since: number): number | undefined {
    return [...this.log].find(([arrival, time]) => time >= since && this.#isFor(at, arrival))?.[0];
  }

  /** Whether an arrival is one that the step waits for, and has ended no wait of the instance before. */
  #isFor(at: StepNumber, arrival: number): boolean {
    const { order, instance } = STEPS[at];
    const isOfInstance = (wait: ExpectedWait) => STEPS[wait.at].instance === instance;
    return (
      order !== undefined &&
      ARRIVALS[arrival]?.order === order &&
      !this.waits.some((wait) => wait.arrival === arrival && isOfInstance(wait))
    );
  }

  #deliver(arrival: number): void {
    if (this.log.has(arrival)) return;
    this.log.set(arrival, this.now);
    const places = [...this.waits.keys()].filter((place) => {
      const wait = this.waits[place];
      return wait?.status === "open" && this.#isFor(wait.at, arrival);
    });
    for (const place of places) {
      this.#change(place, { status: "completed", isNotified: true, arrival });
    }
  }

  #closeWhere(isMeant: (wait: ExpectedWait) => boolean, status: "expired" | "cancelled"): void {
    this.waits.forEach((wait, place) => {
      if (isMeant(wait)) this.#change(place, { status, isNotified: false });
    });
  }

  /** A wait ends once. */
  #change(
    place: number,
    change: Pick<ExpectedWait, "status" | "isNotified"> & Partial<Pick<ExpectedWait, "arrival">>,
  ): void {
    const wait = this.waits[place];
    if (wait?.status === "open") this.waits[place] = { ...wait, ...change };
  }
}
