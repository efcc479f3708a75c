/** A model of the waits, and its commands. */

import fc from "fast-check";
import { stepsOf } from "../../support/model-test.ts";

const DAY_MS = 86_400_000;
export const LOOKBACK_MS = DAY_MS;
/** Steps of two instances. The last three wait for a delivery that matches. */
export const STEPS = [
  { instance: "a", step: "one", isHook: false },
  { instance: "a", step: "two", isHook: false },
  { instance: "b", step: "one", isHook: false },
  { instance: "a", step: "hook", isHook: true },
  { instance: "a", step: "hook two", isHook: true },
  { instance: "b", step: "hook", isHook: true },
] as const;
export type StepNumber = 0 | 1 | 2 | 3 | 4 | 5;
/** Ids of deliveries. The last one matches no step. */
const DELIVERIES = ["d1", "d2", "d3", "other"] as const;

export type WaitsCommand =
  | {
      readonly op: "open";
      readonly at: StepNumber;
      readonly run: 1 | 2;
      readonly timeoutMs: number;
    }
  | { readonly op: "close" | "expire"; readonly at: StepNumber }
  | { readonly op: "cancel"; readonly instance: "a" | "b" }
  | { readonly op: "deliver"; readonly id: (typeof DELIVERIES)[number] }
  | { readonly op: "wake" };

export type ExpectedWait = {
  readonly status: "open" | "completed" | "expired" | "cancelled";
  readonly at: StepNumber;
  readonly run: number;
  readonly expiresAt: number;
  /** Its workflow must get an event. */
  readonly isNotified: boolean;
};

const at = fc.constantFrom<StepNumber[]>(0, 1, 2, 3, 4, 5);

const commands: fc.Arbitrary<WaitsCommand> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      op: fc.constant("open" as const),
      at,
      run: fc.constantFrom<(1 | 2)[]>(1, 2),
      timeoutMs: fc.constantFrom(1_000, DAY_MS),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({ op: fc.constantFrom("close" as const, "expire" as const), at }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      op: fc.constant("deliver" as const),
      id: fc.constantFrom(...DELIVERIES),
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
  weights: { command: 8, crash: 2, pass: 1, crashIn: 2 },
  times: [1, DAY_MS, 2 * DAY_MS],
  maxWrite: 4,
});

export class WaitsModel {
  /** The waits, oldest first. */
  readonly waits: ExpectedWait[] = [];
  now = 0;
  /** When each delivery came, in their order, and the instances that it has answered. */
  readonly #came = new Map<string, { readonly at: number; readonly answered: Set<string> }>();

  /** Performs it. Returns the place of the wait that it is about. */
  apply(command: WaitsCommand): number | undefined {
    if (command.op === "open") return this.#open(command);
    if (command.op === "deliver") this.#deliver(command.id);
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

  #open({ at, run, timeoutMs }: Extract<WaitsCommand, { op: "open" }>): number {
    const expiresAt = this.now + timeoutMs + DAY_MS;
    const known = this.latest(at);
    const wait = known === undefined ? undefined : this.waits[known];
    if (known !== undefined && wait?.status === "open") {
      this.waits[known] = { ...wait, run, expiresAt };
      return known;
    }
    const { isHook, instance } = STEPS[at];
    const isAnswered = isHook && wait?.status === "completed";
    if (known !== undefined && (isAnswered || wait?.run === run)) return known;
    const earlier = [...this.#came.values()].find(
      (one) => one.at >= this.now - LOOKBACK_MS && !one.answered.has(instance),
    );
    const answer = isHook ? earlier : undefined;
    answer?.answered.add(instance);
    const status = answer ? "completed" : "open";
    return this.waits.push({ status, at, run, expiresAt, isNotified: false }) - 1;
  }

  /** A duplicate changes nothing. */
  #deliver(id: string): void {
    if (id === "other" || this.#came.has(id)) return;
    const answered = new Set<string>();
    this.#came.set(id, { at: this.now, answered });
    this.waits.forEach(({ at, status }, place) => {
      if (!STEPS[at].isHook || status !== "open") return;
      answered.add(STEPS[at].instance);
      this.#change(place, { status: "completed", isNotified: true });
    });
  }

  #closeWhere(isMeant: (wait: ExpectedWait) => boolean, status: "expired" | "cancelled"): void {
    this.waits.forEach((wait, place) => {
      if (isMeant(wait)) this.#change(place, { status, isNotified: false });
    });
  }

  /** A wait ends once. */
  #change(place: number, change: Pick<ExpectedWait, "status" | "isNotified">): void {
    const wait = this.waits[place];
    if (wait?.status === "open") this.waits[place] = { ...wait, ...change };
  }
}
