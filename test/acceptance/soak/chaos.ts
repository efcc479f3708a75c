/** Kills the machine at random times, and restarts it. */

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
  /** Workflows that have ended on the platform. */
  readonly #ended = new Set<string>();
  kills = 0;
  /** The total duration of all restarts. */
  downMs = 0;

  /** @param workflows all that were started; each restart resumes the open ones */
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

  /** One kill, and the restart after it. */
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
   * Resumes workflows as the platform does after a machine failure. Their agents wake by their alarms. Returns the number
   * of open ones.
   */
  async wake(): Promise<number> {
    const open = this.#workflows().filter((id) => !this.#ended.has(id));
    const statuses = await this.#client.onWorkflows("wake", open);
    const ended = Object.entries(statuses).filter(([, status]) => ENDED.test(status));
    for (const [id] of ended) this.#ended.add(id);
    return open.length - ended.length;
  }
}
