/**
 * Tests a durable object against a model of it. fast-check makes random sequences of commands, crashes and time. Each is
 * performed on the object and on the model, and the two are compared after every step. A failure prints the seed, the
 * path and the shortest sequence that fails. A module adds three things: its model, its commands and what is compared.
 */

import fc from "fast-check";
import { expect } from "vitest";
import type { Meter } from "../../src/testing/index.ts";
import { envText, HANG_MS, sizeOf } from "./sizes.ts";

/** The object crashes at this write, counted from when the command starts. */
type CrashPoint = { readonly write: number; readonly when: "before" | "after" };

/** One step of a sequence: a command of the module, or what happens to every object. */
export type Step<Command> = Command | Pass | CrashIn<Command> | { readonly op: "crash" };
type Pass = { readonly op: "pass"; readonly ms: number };
/** The object crashes within the command, if that makes so many writes. */
type CrashIn<Command> = {
  readonly op: "crash in";
  readonly command: Command;
  readonly point: CrashPoint;
};

/** A command with its random numbers resolved, e.g. "the third open submission" to an id. */
export type Action = {
  /** Performs it on the model. Returns the reply that the caller of the object must get; undefined is not compared. */
  readonly expect: () => unknown;
  /** Performs it on the object. */
  readonly act: () => Promise<unknown>;
};

/** An object under test beside its model, made anew for each sequence. */
export interface Subject<Command, Snapshot> {
  setUp?(): Promise<void>;
  actionOf(command: Command): Action;
  /** Time passes for both. */
  pass?(ms: number): void;
  /**
   * Both lose their memory, and the object starts again when it is next used.
   *
   * @param hasCrashed the object has crashed already, within a command
   */
  crash(hasCrashed: boolean): Promise<void>;
  /** Runs `work` in the object without starting its modules. */
  inside(work: (object: { meter: Meter }, ctx: DurableObjectState) => void): Promise<void>;
  /** Everything of the object that can be seen from outside. */
  look(): Promise<Snapshot>;
  /** What must be equal, as the object shows it and as the model says. */
  compare(seen: Snapshot): Compared;
  /** What must hold without a model. */
  check?(seen: Snapshot): void | Promise<void>;
  /** Whether the command may crash the object by itself, at a moment that the model does not know. */
  mayCrash?(command: Command): boolean;
  /** Whether a crash of its own has come, for `mayCrash()`. */
  hasCrashed?(): boolean;
  /**
   * The object has crashed within a command. Checks that nothing stored or promised before is lost, and gives the model
   * what the object has stored. Left out where `act()` repeats the call until it succeeds.
   *
   * @returns whether the caller, who got no reply, performs the command again
   */
  recover?(command: Command, before: Snapshot, reply: unknown): Promise<boolean>;
  /** Lets all open work end and checks the result. `run` performs a command and compares. */
  finish?(run: (command: Command) => Promise<void>): Promise<void>;
  end?(): Promise<void>;
}

export type Compared = { readonly seen: object; readonly expected: object };

export type ModelTest<Command, Start, Snapshot> = {
  /** Prefix of its environment variables: `<name>_RUNS`, `<name>_SEED` and `<name>_PATH`. */
  readonly name: string;
  /** Sequences per run of the tests, unless `<name>_RUNS` is set. */
  readonly runs: number;
  readonly steps: fc.Arbitrary<Step<Command>>;
  /** What varies between sequences from the start, e.g. options. */
  readonly start: fc.Arbitrary<Start>;
  /** How long the object may take to agree with the model while fast-check shrinks, in milliseconds. */
  readonly shrinkMs: number;
  readonly subject: (start: Start) => Subject<Command, Snapshot>;
};

/** How long a crash that the model cannot foresee may take to come. */
const OWN_CRASH_MS = 30;
const LOOK_MS = 1;

const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

/** @throws with the seed, the path and the shortest sequence that fails */
export async function testAgainstModel<Command, Start, Snapshot>({
  name,
  runs,
  steps,
  start,
  shrinkMs,
  subject,
}: ModelTest<Command, Start, Snapshot>): Promise<void> {
  const numRuns = sizeOf(`${name}_RUNS`, runs);
  const seed = sizeOf(`${name}_SEED`, 20_261_121);
  const path = envText(`${name}_PATH`);
  const tally = { steps: 0, crashes: 0, ms: Date.now() };
  let patienceMs = HANG_MS;
  const sequences = fc.array(steps, { minLength: 6, maxLength: 30, size: "max" });
  const property = fc.asyncProperty(sequences, start, async (sequence, from) => {
    const run = new SequenceRun(subject(from), patienceMs);
    try {
      await run.play(sequence);
    } catch (error) {
      // The first failure is certain. Shorter sequences are tried faster.
      if (patienceMs > shrinkMs) console.error("first", JSON.stringify(sequence), error);
      patienceMs = shrinkMs;
      throw error;
    }
    tally.steps += sequence.length;
    tally.crashes += run.crashes;
  });
  await fc.assert(property, { numRuns, seed, ...(path && { path }) });
  tally.ms = Date.now() - tally.ms;
  console.log(`seed ${seed}: ${numRuns} sequences`, tally);
  expect(tally.crashes).toBeGreaterThan(0);
}

/** The steps that every module has, beside its commands. */
export function stepsOf<Command>(
  commands: fc.Arbitrary<Command>,
  kinds: {
    readonly weights: { command: number; crash: number; pass: number; crashIn: number };
    /** How much time may pass. */
    readonly times: readonly number[];
    /** A crash within a command comes at one of so many writes. */
    readonly maxWrite: number;
  },
): fc.Arbitrary<Step<Command>> {
  const { weights, times, maxWrite } = kinds;
  return fc.oneof(
    { weight: weights.command, arbitrary: commands },
    { weight: weights.crash, arbitrary: fc.constant({ op: "crash" as const }) },
    {
      weight: weights.pass,
      arbitrary: fc.record({
        op: fc.constant("pass" as const),
        ms: fc.constantFrom(...times),
      }),
    },
    {
      weight: weights.crashIn,
      arbitrary: fc.record({
        op: fc.constant("crash in" as const),
        command: commands,
        point: fc.record({
          write: fc.integer({ min: 1, max: maxWrite }),
          when: fc.constantFrom("before" as const, "after" as const),
        }),
      }),
    },
  );
}

class SequenceRun<Command, Snapshot> {
  /** How many crashes came within a command. */
  crashes = 0;
  #hasCrashed = false;

  constructor(
    private readonly subject: Subject<Command, Snapshot>,
    private readonly patienceMs: number,
  ) {}

  async play(sequence: readonly Step<Command>[]): Promise<void> {
    const { subject } = this;
    await subject.setUp?.();
    try {
      for (const [index, step] of sequence.entries()) {
        await named(`step ${index + 1}, ${JSON.stringify(step)}`, () => this.#step(step));
      }
      await named("the last step", async () => {
        await subject.finish?.((command) => this.#perform(command));
      });
    } finally {
      await subject.end?.();
    }
  }

  async #step(step: Step<Command>): Promise<void> {
    const { op } = step as { op: string };
    if (op === "crash in") {
      const { command, point } = step as CrashIn<Command>;
      return this.#crashIn(command, point);
    }
    if (op === "crash") await this.subject.crash(false);
    else if (op === "pass") this.subject.pass?.((step as Pass).ms);
    else return this.#perform(step as Command);
    await this.#agree();
  }

  async #perform(command: Command): Promise<void> {
    const { subject } = this;
    if (subject.mayCrash?.(command)) return this.#crashIn(command, undefined);
    const { expect: expected, act } = subject.actionOf(command);
    checkReply(expected(), await act());
    await this.#agree();
  }

  /** @param point undefined where the command may crash the object by itself */
  async #crashIn(command: Command, point: CrashPoint | undefined): Promise<void> {
    const { subject } = this;
    const isExact = !subject.mayCrash?.(command);
    const before = await subject.look();
    const { expect: expected, act } = subject.actionOf(command);
    this.#hasCrashed = false;
    if (point) await this.#arm(point);
    const wanted = expected();
    const reply = await act().catch((error: unknown) => new Failed(error));
    // The crash may come in what the command has started.
    if (isExact) await this.#agree(() => this.#isOver);
    else await this.#ownCrash();
    if (!this.#isOver) await this.#disarm();
    if (!this.#isOver && isExact) {
      if (reply instanceof Failed) throw reply.error;
      checkReply(wanted, reply);
      return this.#agree();
    }
    const hasCrashed = this.#isOver;
    if (hasCrashed) this.crashes++;
    await subject.crash(hasCrashed);
    const isAgain = await subject.recover?.(command, before, reply);
    if (isAgain && point) await this.#perform(command);
    else await this.#agree();
  }

  get #isOver(): boolean {
    return this.#hasCrashed || (this.subject.hasCrashed?.() ?? false);
  }

  #arm({ write, when }: CrashPoint): Promise<void> {
    return this.subject.inside(({ meter }, ctx) => {
      meter.reset();
      meter[when === "before" ? "onWrite" : "onWritten"] = (count) => {
        if (count !== write) return;
        this.#hasCrashed = true;
        ctx.abort("crash");
      };
    });
  }

  /** The crash may come before this arrives. */
  async #disarm(): Promise<void> {
    const disarmed = this.subject.inside(({ meter }) => {
      meter.onWrite = undefined;
      meter.onWritten = undefined;
    });
    await disarmed.catch((error: unknown) => {
      if (!this.#isOver) throw error;
    });
  }

  async #ownCrash(): Promise<void> {
    const deadline = performance.now() + OWN_CRASH_MS;
    while (!this.#isOver && performance.now() < deadline) await sleep(LOOK_MS);
  }

  /** Waits until the object is as the model says, or until it has crashed where it may. */
  async #agree(isOver: () => boolean = () => false): Promise<void> {
    const { subject } = this;
    const deadline = performance.now() + this.patienceMs;
    for (;;) {
      if (isOver()) return;
      const snapshot = await subject.look().catch((error: unknown) => {
        if (isOver()) return undefined;
        throw error;
      });
      if (snapshot === undefined || isOver()) return;
      const { seen, expected } = subject.compare(snapshot);
      const isSame = JSON.stringify(seen) === JSON.stringify(expected);
      if (isSame || performance.now() > deadline) {
        await subject.check?.(snapshot);
        if (isSame) return;
        throw new Error(`the object and the model differ in ${differences(seen, expected)}`);
      }
      await sleep(LOOK_MS);
    }
  }
}

/** What a call was refused with, where a crash was to be expected. */
class Failed {
  constructor(readonly error: unknown) {}
}

function checkReply(expected: unknown, reply: unknown): void {
  const assertion = expect(reply, "the reply to the caller");
  if (typeof expected === "object" && expected !== null) assertion.toMatchObject(expected);
  else if (expected !== undefined) assertion.toBe(expected);
}

function differences(seen: object, expected: object): string {
  const all = Object.entries(expected).flatMap(([name, wanted]) => {
    const [is, should] = [Reflect.get(seen, name), wanted].map((value) => JSON.stringify(value));
    return is === should ? [] : [`${name}\n  is       ${is}\n  expected ${should}`];
  });
  return all.join("\nand ");
}

async function named(what: string, work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    throw new Error(`After ${what}: ${error instanceof Error ? error.message : error}`);
  }
}
