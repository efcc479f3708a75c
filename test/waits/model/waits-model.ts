/**
 * What waits are to be, as a model of a few lines: what a sequence of
 * commands leaves of them, whatever crashes come in between.
 */

import fc from "fast-check";

const DAY_MS = 86_400_000;
/** Two steps of one instance, and one of another. */
export const STEPS = [
  { instance: "a", step: "one" },
  { instance: "a", step: "two" },
  { instance: "b", step: "one" },
] as const;
export type StepNumber = 0 | 1 | 2;

export type Command =
  | {
      readonly do: "open";
      readonly at: StepNumber;
      readonly run: 1 | 2;
      readonly timeoutMs: number;
    }
  | { readonly do: "close" | "expire"; readonly at: StepNumber }
  | { readonly do: "cancel"; readonly instance: "a" | "b" }
  | { readonly do: "pass"; readonly ms: number }
  | { readonly do: "crash" }
  | { readonly do: "wake" };

export type Expected = {
  readonly status: "open" | "completed" | "expired" | "cancelled";
  readonly at: StepNumber;
  readonly run: number;
  readonly expiresAt: number;
  readonly isTold: boolean;
};

const at = fc.constantFrom<StepNumber[]>(0, 1, 2);

export const commands: fc.Arbitrary<Command[]> = fc.array(
  fc.oneof(
    {
      weight: 4,
      arbitrary: fc.record({
        do: fc.constant("open" as const),
        at,
        run: fc.constantFrom<(1 | 2)[]>(1, 2),
        timeoutMs: fc.constantFrom(1_000, DAY_MS),
      }),
    },
    {
      weight: 3,
      arbitrary: fc.record({ do: fc.constantFrom("close" as const, "expire" as const), at }),
    },
    {
      weight: 1,
      arbitrary: fc.record({
        do: fc.constant("cancel" as const),
        instance: fc.constantFrom("a" as const, "b" as const),
      }),
    },
    {
      weight: 1,
      arbitrary: fc.record({
        do: fc.constant("pass" as const),
        ms: fc.constantFrom(1, DAY_MS, 2 * DAY_MS),
      }),
    },
    { weight: 2, arbitrary: fc.record({ do: fc.constant("crash" as const) }) },
    { weight: 2, arbitrary: fc.record({ do: fc.constant("wake" as const) }) },
  ),
  { minLength: 3, maxLength: 14 },
);

/** The waits that the commands so far have left, oldest first. */
export class WaitsModel {
  readonly waits: Expected[] = [];
  now = 0;

  /** Does it, and returns which wait it was about, by its place. */
  apply(command: Command): number | undefined {
    if (command.do === "open") return this.#open(command);
    if (command.do === "pass") this.now += command.ms;
    if (command.do === "wake")
      this.#closeWhere(({ expiresAt }) => expiresAt <= this.now, "expired");
    if (command.do === "cancel") {
      this.#closeWhere((wait) => STEPS[wait.at].instance === command.instance, "cancelled");
    }
    if (command.do !== "close" && command.do !== "expire") return undefined;
    const place = this.latest(command.at);
    const isClose = command.do === "close";
    if (place !== undefined) {
      this.#change(place, { status: isClose ? "completed" : "expired", isTold: isClose });
    }
    return place;
  }

  latest(at: StepNumber): number | undefined {
    const place = this.waits.findLastIndex((wait) => wait.at === at);
    return place === -1 ? undefined : place;
  }

  #open({ at, run, timeoutMs }: Extract<Command, { do: "open" }>): number {
    const expiresAt = this.now + timeoutMs + DAY_MS;
    const known = this.latest(at);
    const wait = known === undefined ? undefined : this.waits[known];
    if (known !== undefined && wait?.status === "open") {
      this.waits[known] = { ...wait, run, expiresAt };
      return known;
    }
    if (known !== undefined && wait?.run === run) return known;
    return this.waits.push({ status: "open", at, run, expiresAt, isTold: false }) - 1;
  }

  #closeWhere(isMeant: (wait: Expected) => boolean, status: "expired" | "cancelled"): void {
    this.waits.forEach((wait, place) => {
      if (isMeant(wait)) this.#change(place, { status, isTold: false });
    });
  }

  /** Once only. */
  #change(place: number, change: Pick<Expected, "status" | "isTold">): void {
    const wait = this.waits[place];
    if (wait?.status === "open") this.waits[place] = { ...wait, ...change };
  }
}
