/** Acts on a task of each agent: pauses, resumes, triggers, backfills and skips it, across restarts of the machine. */

import { setTimeout as delay } from "node:timers/promises";
import type { Client } from "./client.ts";
import { oneOf, type Random } from "./random.ts";
import { isNested } from "./words.ts";

/** How often one of the tasks is acted on. */
const ACT_MS = 500;
/** As far back as a backfill goes: the history of 100 runs has them, also with triggers. */
const BACKFILL_MS = 120_000;

/** What was asked of the task of one agent. */
export type Beat = {
  readonly agent: string;
  /** Whether its occurrences are backfilled, or skipped. */
  readonly isBackfilled: boolean;
  /** Keys of triggers, each with the keys of the runs in the answers. */
  readonly triggers: Map<string, Set<string>>;
  /** Occurrences that `skipNext()` has returned. */
  readonly skipped: Set<number>;
  /** The range of the last backfill, after which its task fires no more. */
  last?: { readonly from: number; readonly to: number };
};

export class Beats {
  readonly #client: Client;
  readonly #random: Random;
  readonly #count: (verb: string) => void;
  readonly all: readonly Beat[];
  readonly #startedAt = Date.now();

  constructor(
    client: Client,
    random: Random,
    { agents, count }: { agents: readonly string[]; count: (verb: string) => void },
  ) {
    this.#client = client;
    this.#random = random;
    this.#count = count;
    this.all = agents
      .filter((agent) => !isNested(agent))
      .map((agent, index) => {
        return { agent, isBackfilled: index % 2 === 0, triggers: new Map(), skipped: new Set() };
      });
  }

  async act(signal: AbortSignal): Promise<void> {
    for (let index = 0; !signal.aborted; index++) {
      await delay(ACT_MS);
      if (this.#client.isHeld || this.all.length === 0) continue;
      const beat = oneOf(this.#random, this.all);
      const verbs = ["pause", "resume", "resume", "trigger", "trigger", "change"] as const;
      await this.#actOn(beat, oneOf(this.#random, verbs), `trigger-${index}`);
    }
  }

  /** Pauses all tasks, and backfills the last occurrences of those that are backfilled. */
  async end(): Promise<void> {
    await Promise.all(
      this.all.map(async (beat) => {
        await this.#client.insistOn(beat.agent, "pauseTasks");
        if (beat.isBackfilled) beat.last = await this.#backfill(beat);
      }),
    );
  }

  async #actOn(beat: Beat, verb: string, key: string): Promise<void> {
    const { agent } = beat;
    if (verb === "pause" || verb === "resume") {
      this.#count(`schedules.${verb}`);
      await this.#client.insistOn(agent, `${verb}Beat`);
    } else if (verb === "trigger") {
      this.#count("schedules.trigger");
      const runs = new Set<string>();
      beat.triggers.set(key, runs);
      for (let time = 0; time < 2; time++) {
        const run = await this.#client.insistOn<string>(agent, "triggerBeat", key);
        if (run !== undefined) runs.add(run);
      }
    } else if (beat.isBackfilled) await this.#backfill(beat);
    else {
      // A repetition would skip another occurrence.
      const time = await this.#client.call<number | null>(agent, "skipBeat").catch(() => null);
      if (time === null) return;
      this.#count("schedules.skipNext");
      beat.skipped.add(time);
    }
  }

  async #backfill({ agent }: Beat): Promise<{ from: number; to: number }> {
    this.#count("schedules.backfill");
    const to = Date.now();
    const range = { from: Math.max(this.#startedAt, to - BACKFILL_MS), to };
    await this.#client.insistOn(agent, "backfillBeat", range);
    return range;
  }
}
