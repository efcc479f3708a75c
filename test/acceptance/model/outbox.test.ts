/** The outbox against a model: failing and hanging receivers, dead letters, redrives and crashes. */

import { runInDurableObject } from "cloudflare:test";
import fc from "fast-check";
import { capabilitiesOf } from "perdure/agent";
import { method } from "perdure/outbox";
import { expect, it } from "vitest";
import { afterRestart, type GivenAgent, givenAgent } from "../app/given.ts";
import { Hold } from "../app/hold.ts";
import { HOSTS, type Host } from "../app/hosts.ts";
import { deliveries, refusals } from "../app/receivers.ts";
import { playSequences, type Subject } from "./sequences.ts";

type Command =
  | {
      readonly op: "put";
      readonly refusals: number;
      readonly attempts: number;
      readonly hangs: boolean;
    }
  | { readonly op: "put again" | "redrive" | "delete"; readonly nth: number }
  | { readonly op: "redrive all" | "crash" | "release" };

const nth = fc.nat({ max: 20 });
const commands: fc.Arbitrary<Command> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({
      op: fc.constant("put" as const),
      refusals: fc.nat({ max: 4 }),
      attempts: fc.integer({ min: 1, max: 3 }),
      hangs: fc.boolean(),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({ op: fc.constantFrom("put again", "redrive", "delete"), nth }),
  },
  { weight: 4, arbitrary: fc.record({ op: fc.constantFrom("redrive all", "crash", "release") }) },
);

/** An event of the model. Its key, which is its delivery id, is the id of a hold. */
type Entry = {
  readonly key: string;
  readonly attempts: number;
  refusals: number;
  isHeld: boolean;
  state: "waiting" | "delivered" | "dead" | "deleted";
};

type Outbox = { put(destination: unknown, event: unknown, options: { id: string }): string };

class OutboxSubject implements Subject<Command> {
  readonly #entries: Entry[] = [];
  readonly #holds = new Map<string, Hold>();
  readonly #agent: GivenAgent;

  constructor(host: Host) {
    this.#agent = givenAgent(host);
  }

  async perform(command: Command): Promise<void> {
    const { outbox } = capabilitiesOf(await this.#agent.verbs());
    switch (command.op) {
      case "put": {
        const hold = new Hold();
        const { refusals: times, hangs: isHeld } = command;
        // A crash interrupts an attempt that hangs, and that counts.
        const attempts = isHeld ? 50 : command.attempts;
        const entry: Entry = { key: hold.id, attempts, refusals: times, isHeld, state: "waiting" };
        if (isHeld) this.#holds.set(hold.id, hold);
        else hold.release();
        refusals.set(hold.id, times);
        await this.#put(entry);
        this.#entries.push(entry);
        return this.#attempt(entry);
      }
      case "put again": {
        const entry = this.#entries[command.nth % Math.max(1, this.#entries.length)];
        // Only a stored id is known.
        if (entry?.state !== "waiting" && entry?.state !== "dead") return;
        return this.#put(entry);
      }
      case "redrive": {
        const entry = this.#entries[command.nth % Math.max(1, this.#entries.length)];
        // A redrive of one that waits may begin another attempt beside the one that hangs.
        if (entry?.state === "waiting") return;
        const isSent = await outbox.redrive(entry?.key ?? "unknown");
        expect(isSent).toBe(entry?.state === "dead");
        return entry && this.#redrive(entry);
      }
      case "redrive all": {
        const dead = this.#entries.filter(({ state }) => state === "dead");
        expect(await outbox.redriveAll()).toBe(dead.length);
        for (const entry of dead) this.#redrive(entry);
        return;
      }
      case "delete": {
        const entry = this.#entries[command.nth % Math.max(1, this.#entries.length)];
        const isDeleted = await outbox.deleteDeadLetter(entry?.key ?? "unknown");
        expect(isDeleted).toBe(entry?.state === "dead");
        if (entry?.state === "dead") entry.state = "deleted";
        return;
      }
      case "crash": {
        await this.#agent.crash();
        const isWaiting = this.#entries.some(({ state }) => state === "waiting");
        const hasAlarm = await this.#agent.ring();
        if (isWaiting) expect(hasAlarm, "the object has an alarm").toBe(true);
        return;
      }
      case "release": {
        const [first] = this.#holds;
        if (first) this.#release(first[0], first[1]);
      }
    }
  }

  /** Puts the event in the code of the object. */
  async #put({ key, attempts }: Entry): Promise<void> {
    await (await this.#agent.verbs()).submissionStats();
    await runInDurableObject(this.#agent.root, (object) => {
      const { outbox, durable } = object as unknown as {
        outbox?: Outbox;
        durable?: { outbox: Outbox };
      };
      const policy = { maxAttempts: attempts, backoff: { base: 1, cap: 1 } };
      (outbox ?? durable?.outbox)?.put(
        method("receive", { policy }),
        { data: { key } },
        { id: key },
      );
    });
  }

  #redrive(entry: Entry): void {
    if (entry.state !== "dead") return;
    entry.state = "waiting";
    this.#attempt(entry);
  }

  /** The attempts of an entry until it is delivered, a dead letter, or hangs. */
  #attempt(entry: Entry): void {
    const failed = Math.min(entry.refusals, entry.attempts);
    entry.refusals -= failed;
    if (failed === entry.attempts) entry.state = "dead";
    else if (!entry.isHeld) entry.state = "delivered";
  }

  #release(key: string, hold: Hold): void {
    this.#holds.delete(key);
    hold.release();
    for (const entry of this.#entries.filter((one) => one.key === key)) {
      entry.isHeld = false;
      if (entry.state === "waiting") entry.state = "delivered";
    }
  }

  look = (): Promise<object> =>
    afterRestart(async () => {
      const { outbox } = capabilitiesOf(await this.#agent.verbs());
      const read = async (state: "waiting" | "dead") =>
        (await outbox.listDeliveries({ state })).items.map(({ id }) => id).toSorted();
      return {
        waiting: await read("waiting"),
        dead: await read("dead"),
        delivered: this.#entries
          .filter(({ key }) => deliveries.count(key) > 0)
          .map(({ key }) => [key, new Set(deliveries.get(key).map(({ id }) => id)).size]),
      };
    });

  expected = (): object => {
    const find = (state: Entry["state"]) =>
      this.#entries.filter((entry) => entry.state === state).map(({ key }) => key);
    return {
      waiting: find("waiting").toSorted(),
      dead: find("dead").toSorted(),
      delivered: find("delivered").map((key) => [key, 1]),
    };
  };

  async finish(): Promise<void> {
    for (const [key, hold] of this.#holds) this.#release(key, hold);
  }

  end(): void {
    for (const hold of this.#holds.values()) hold.release();
  }
}

for (const host of HOSTS.filter(({ entry, depth }) => entry === "perdure/object" && depth === 0)) {
  it(
    `O1 O2 O3: the outbox of ${host.title} does what its model does`,
    () => playSequences(commands, () => new OutboxSubject(host), 4, 4),
    3_600_000,
  );
}
