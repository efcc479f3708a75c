/** A model of the waits, and its commands. */

import fc from "fast-check";
import { stepsOf } from "../../support/model-test.ts";

const DAY_MS = 86_400_000;
/** Two steps of one instance, and one of another. */
export const STEPS = [
  { instance: "a", step: "one" },
  { instance: "a", step: "two" },
  { instance: "b", step: "one" },
] as const;
export type StepNumber = 0 | 1 | 2;

export type WaitsCommand =
  | {
      readonly op: "open";
      readonly at: StepNumber;
      readonly run: 1 | 2;
      readonly timeoutMs: number;
    }
  | { readonly op: "close" | "expire"; readonly at: StepNumber }
  | { readonly op: "cancel"; readonly instance: "a" | "b" }
  | { readonly op: "wake" };

export type ExpectedWait = {
  readonly status: "open" | "completed" | "expired" | "cancelled";
  readonly at: StepNumber;
  readonly run: number;
  readonly expiresAt: number;
  /** Its workflow must get an event. */
  readonly isNotified: boolean;
};

const at = fc.constantFrom<StepNumber[]>(0, 1, 2);

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

  /** Performs it. Returns the place of the wait that it is about. */
  apply(command: WaitsCommand): number | undefined {
    if (command.op === "open") return this.#open(command);
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
    if (known !== undefined && wait?.run === run) return known;
    return this.waits.push({ status: "open", at, run, expiresAt, isNotified: false }) - 1;
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
