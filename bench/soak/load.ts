/** Keeps a number of workflows and submissions open, across restarts of the machine. Each end starts a new one. */

import { setTimeout as delay } from "node:timers/promises";
import type { Client } from "./client.ts";
import { type Entry, isOver } from "./ledger.ts";
import { askOf, outcomeOf, plannedEffects, planOf } from "./plans.ts";
import { between, oneOf, type Random } from "./random.ts";
import type { Records } from "./records.ts";
import { CLEARS, isDisturbed } from "./words.ts";

const TICK_MS = 100;
/** The most that start in one tick. */
const MOST_NEW = 5;
const WORKFLOWS = 0.6;
const TWICE = 0.15;
const CANCELLED = 0.1;
const TERMINATED = 0.08;
/** The share of calls with unpaired surrogates. */
const MALFORMED = 0.03;
/** How often a disturbed agent is cleared or reset, soon after a kill, while it recovers. */
const DISTURB_MS = 400;
/** How often approvals are granted. */
const PERSON_MS = 1_000;

export class Load {
  readonly #client: Client;
  readonly #records: Records;
  readonly #random: Random;
  readonly #agents: readonly string[];
  readonly entries: Entry[] = [];
  /** Counts of repeated and cancelled submissions, terminated workflows, and so on. */
  readonly asked = { twice: 0, cancelled: 0, terminated: 0, cleared: 0, reset: 0, malformed: 0 };
  /** Options that took half of a surrogate pair. */
  readonly acceptedMalformed = new Set<string>();
  #open: Entry[] = [];
  #isOver = false;

  constructor(client: Client, records: Records, random: Random, agents: readonly string[]) {
    this.#client = client;
    this.#records = records;
    this.#random = random;
    this.#agents = agents;
  }

  /** Runs until {@link stop}. */
  async keep(count: number): Promise<void> {
    while (!this.#isOver) {
      this.#open = this.#open.filter((entry) => !isOver(entry, this.#records));
      const missing = Math.min(MOST_NEW, count - this.#open.length);
      for (let index = 0; index < missing; index++) this.#begin();
      await delay(TICK_MS);
    }
  }

  /** Starts no new work. */
  stop(): void {
    this.#isOver = true;
  }

  /** Work whose end the receiver has not received. */
  open(): Entry[] {
    this.#open = this.#open.filter((entry) => !isOver(entry, this.#records));
    return this.#open;
  }

  /** Grants approvals until the signal. */
  async grant(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      if (this.#client.isHeld) {
        await delay(PERSON_MS);
        continue;
      }
      const waiting = this.#open.filter(({ needsApproval }) => needsApproval);
      const agents = new Set(waiting.map(({ agent }) => agent));
      // After a kill, the agent is called again in a second.
      await Promise.allSettled([...agents].map((agent) => this.#client.call(agent, "grantAll")));
      await delay(PERSON_MS);
    }
  }

  /** Clears and resets the disturbed agents, until the signal. */
  async disturb(signal: AbortSignal): Promise<void> {
    const agents = this.#agents.filter(isDisturbed);
    while (!signal.aborted && !this.#isOver) {
      await delay(DISTURB_MS);
      if (this.#client.isHeld || agents.length === 0) continue;
      const agent = oneOf(this.#random, agents);
      if (this.#random() < 0.3) {
        this.asked.reset++;
        await this.#client.insist(agent, "reset");
      } else await this.#clear(agent, oneOf(this.#random, ["main", "side"] as const));
    }
  }

  /** Messages accepted before the call must not be in the conversation after it. */
  async #clear(agent: string, thread: keyof typeof CLEARS): Promise<void> {
    const accepted = this.entries.filter(
      (entry) => entry.agent === agent && entry.thread === thread && entry.acceptedAt !== undefined,
    );
    const answer = await this.#client.insist<string>(agent, CLEARS[thread]);
    if (answer === undefined) return;
    this.asked.cleared++;
    for (const entry of accepted) entry.isCleared = true;
  }

  async #submitMalformed(agent: string): Promise<void> {
    this.asked.malformed++;
    const accepted = await this.#client.insist<string[]>(agent, "submitMalformed");
    for (const option of accepted ?? []) this.acceptedMalformed.add(option);
  }

  #begin(): void {
    const agent = oneOf(this.#random, this.#agents);
    const id = `${agent}-${this.entries.length}`;
    if (this.#random() < MALFORMED) void this.#submitMalformed(agent);
    const isWorkflow = this.#random() < WORKFLOWS && !isDisturbed(agent);
    if (isWorkflow) this.#beginWorkflow(agent, `w-${id}`);
    else this.#beginSubmission(agent, `s-${id}`);
  }

  #add(entry: Entry): Entry {
    this.entries.push(entry);
    this.#open.push(entry);
    return entry;
  }

  #beginWorkflow(agent: string, id: string): void {
    const plan = planOf(this.#random, id, Date.now());
    const entry = this.#add({
      kind: "workflow",
      agent,
      id,
      askedAt: Date.now(),
      submissionIds: new Set(),
      expected: outcomeOf(plan),
      needsApproval: plan.steps.some(({ kind }) => kind === "approval"),
      planned: plannedEffects(
        plan.steps.flatMap((step) => (step.kind === "prompt" ? step.effects : [])),
      ),
    });
    const isCutShort = this.#random() < TERMINATED;
    const terminatesAfter = isCutShort ? between(this.#random, 0, 3_000) : undefined;
    void this.#client.insist<string>(agent, "begin", plan).then(async (answer) => {
      if (answer === undefined) return;
      entry.acceptedAt = Date.now();
      if (terminatesAfter === undefined) return;
      await delay(terminatesAfter);
      // By its binding, as from the dashboard: its agent gets no call.
      await this.#client.insist("-", "terminate", [id]);
      this.asked.terminated++;
      entry.isTerminated = true;
    });
  }

  #beginSubmission(agent: string, id: string): void {
    const ask = askOf(this.#random, id, isDisturbed(agent), Date.now());
    const entry = this.#add({
      kind: "submission",
      agent,
      id,
      askedAt: Date.now(),
      submissionIds: new Set(),
      thread: ask.thread,
      planned: plannedEffects(ask.effects),
    });
    const times = this.#random() < TWICE ? 2 : 1;
    const cancelsAfter = this.#random() < CANCELLED ? between(this.#random, 0, 1_500) : undefined;
    if (times === 2) this.asked.twice++;
    if (cancelsAfter !== undefined) this.asked.cancelled++;
    for (let time = 0; time < times; time++) {
      void this.#client.insist<string>(agent, "submit", ask).then(async (submissionId) => {
        if (submissionId === undefined) return;
        entry.acceptedAt ??= Date.now();
        entry.submissionIds.add(submissionId);
        if (cancelsAfter === undefined) return;
        await delay(cancelsAfter);
        await this.#client.insist(agent, "cancel", submissionId);
      });
    }
  }
}
