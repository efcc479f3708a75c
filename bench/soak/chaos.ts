/** Kills the machine at random, and brings it up again. */

import { setTimeout as delay } from "node:timers/promises";
import type { Client } from "./client.ts";
import type { Machine } from "./machine.ts";
import { between, type Random } from "./random.ts";

const ENDED = /^(complete|errored|terminated)/;
const LIFE_MS = [3_000, 8_000] as const;

export class Chaos {
  readonly #machine: Machine;
  readonly #client: Client;
  readonly #random: Random;
  readonly #workflows: () => readonly string[];
  /** Those that the platform has seen the end of. */
  readonly #ended = new Set<string>();
  kills = 0;
  /** How long the machine took to come up, in all. */
  downMs = 0;

  /** @param workflows all that were begun, of which a new life has to resume the open ones */
  constructor(
    machine: Machine,
    client: Client,
    random: Random,
    workflows: () => readonly string[],
  ) {
    this.#machine = machine;
    this.#client = client;
    this.#random = random;
    this.#workflows = workflows;
  }

  async reign(until: number, signal: AbortSignal): Promise<void> {
    for (;;) {
      const life = between(this.#random, ...LIFE_MS);
      if (Date.now() + life > until) return;
      await delay(life, undefined, { signal });
      await this.strike(signal);
    }
  }

  /** One kill, and the life after it. */
  async strike(signal: AbortSignal): Promise<void> {
    this.kills++;
    const killedAt = Date.now();
    await this.#machine.kill();
    this.#client.isHeld = true;
    await this.#machine.start(signal);
    this.#client.isHeld = false;
    const downMs = Date.now() - killedAt;
    this.downMs += downMs;
    const open = await this.wake();
    const seconds = (downMs / 1_000).toFixed(1);
    console.log(`  kill ${this.kills}, up again after ${seconds} s, ${open} workflows open`);
  }

  /**
   * Does what the platform does for the workflows of a machine that died; their agents wake by themselves. Returns how
   * many were open.
   */
  async wake(): Promise<number> {
    const open = this.#workflows().filter((id) => !this.#ended.has(id));
    const statuses = await this.#client.insist<Record<string, string>>("-", "wake", open);
    const ended = Object.entries(statuses ?? {}).filter(([, status]) => ENDED.test(status));
    for (const [id] of ended) this.#ended.add(id);
    return open.length - ended.length;
  }
}
