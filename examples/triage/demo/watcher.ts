/**
 * Follows the workflows of the feed until all are settled: shows progress, approves pending deliveries, and kills and restarts
 * the runtime if the scenario requires it.
 */

import type { AgentReport } from "../src/triage.ts";
import { agentsOf, delay } from "./feed.ts";
import { Operator } from "./operator.ts";
import { hasFailed, isSettled, totalsOf } from "./report.ts";
import type { Scenario } from "./scenario.ts";

const POLL_MS = 250;
const CRASH_POLL_MS = 20;
/** How often to ask the platform too, to find a workflow that failed without a report. */
const PLATFORM_EVERY = 20;
/** A kill waits for a turn younger than this, so that it still runs when the signal arrives. Turns take 320 ms or more. */
const YOUNG_TURN_MS = 150;
/** The shares of answered turns at which the runtime is killed. */
export const KILL_AT = [0.2, 0.55];
const PERSON = "demo";
/** If the first workflows all fail, the rest will too: a wrong key, or no network. */
const HOPELESS_FAILURES = 3;
/** The most unfinished deliveries to list after the deadline. */
const LISTED = 10;

export class Watcher {
  readonly operator: Operator;
  posted = 0;
  kills = 0;
  /** Kills that interrupted at least one turn. Only these count. */
  hits = 0;
  readonly #scenario: Scenario;
  readonly #agents: string[];
  #polls = 0;
  #last: AgentReport[] = [];

  constructor(scenario: Scenario) {
    this.#scenario = scenario;
    this.#agents = agentsOf(scenario.feed);
    this.operator = new Operator(() => scenario.runtime.url, scenario.adminToken, scenario.signal);
  }

  /** The agents' reports when every workflow of the feed is settled, in the agents and on the platform. */
  async untilSettled(): Promise<AgentReport[]> {
    try {
      return await this.#follow();
    } catch (error) {
      if (!this.#scenario.signal.aborted) throw error;
      const open = this.#last
        .flatMap((report) => report.deliveries)
        .filter((row) => !isSettled(row));
      const list = open
        .slice(0, LISTED)
        .map((row) => `\n  - ${row.delivery} (${row.event}.${row.action}) is ${row.status}`);
      const more = open.length > LISTED ? `\n  - and ${open.length - LISTED} more` : "";
      throw new Error(`${error instanceof Error ? error.message : error}${list.join("")}${more}`, {
        cause: error,
      });
    }
  }

  async #follow(): Promise<AgentReport[]> {
    const { feed, signal } = this.#scenario;
    for (;;) {
      const reports = await this.#poll(false);
      if (reports) {
        this.#last = reports;
        this.#show(reports);
        this.#stopIfHopeless(reports);
        if (this.#killIsDue(reports)) {
          await this.#killAndRestart(reports);
          continue;
        }
        await this.#approve(reports);
        if (this.#allSettled(reports, feed.length)) {
          const confirmed = await this.#poll(true);
          if (confirmed && this.#allSettled(confirmed, feed.length)) return confirmed;
        }
      }
      await delay(this.#killsLeft() > 0 ? CRASH_POLL_MS : POLL_MS, signal);
    }
  }

  async #poll(platform: boolean): Promise<AgentReport[] | undefined> {
    const { runtime, signal } = this.#scenario;
    this.#polls++;
    try {
      return await this.operator.reports(
        this.#agents,
        platform || this.#polls % PLATFORM_EVERY === 0,
      );
    } catch (error) {
      signal.throwIfAborted();
      if (!runtime.running) throw new Error("The runtime ended unexpectedly.", { cause: error });
      // A single failed poll is ignored. The deadline ends a series of them.
      return undefined;
    }
  }

  #allSettled(reports: AgentReport[], expected: number): boolean {
    const rows = reports.flatMap((report) => report.deliveries);
    return rows.length === expected && rows.every(isSettled);
  }

  #show(reports: AgentReport[]): void {
    const { progress, feed } = this.#scenario;
    const totals = totalsOf(reports);
    const parts = [
      `posted ${this.posted}/${feed.length}`,
      `complete ${totals.complete}/${feed.length}`,
      `turns running ${totals.turnsRunning}`,
      totals.waiting > 0 && `waiting for approval ${totals.waiting}`,
      totals.failed > 0 && `failed ${totals.failed}`,
    ];
    progress.update(parts.filter(Boolean).join("  "));
  }

  #stopIfHopeless(reports: AgentReport[]): void {
    const rows = reports.flatMap((report) => report.deliveries);
    const failed = rows.filter(hasFailed);
    if (failed.length < HOPELESS_FAILURES || rows.some((row) => row.status === "complete")) return;
    throw new Error(
      `The first ${failed.length} workflows failed, the first one with: ${failed[0]?.error ?? "no reason"}`,
    );
  }

  async #approve(reports: AgentReport[]): Promise<void> {
    const { progress } = this.#scenario;
    for (const { agent, deliveries } of reports) {
      for (const { delivery, event, action, status, triage } of deliveries) {
        if (status !== "waiting") continue;
        const approved = await this.operator.approve(agent, delivery, PERSON);
        if (approved)
          progress.note(
            `Critical: ${event}.${action} "${triage?.title}" waits for a person. The demo plays that person and approves.`,
          );
      }
    }
  }

  #killsLeft(): number {
    return this.#scenario.crash ? KILL_AT.length - this.hits : 0;
  }

  #killIsDue(reports: AgentReport[]): boolean {
    const share = KILL_AT[this.hits];
    if (this.#killsLeft() === 0 || share === undefined) return false;
    const enough = totalsOf(reports).modelAnswers >= share * this.#scenario.feed.length;
    const young = reports.some((report) =>
      report.turnsRunning.some((turn) => turn.ageMs < YOUNG_TURN_MS),
    );
    return enough && young;
  }

  async #killAndRestart(before: AgentReport[]): Promise<void> {
    const { runtime, progress, signal, feed } = this.#scenario;
    const killing = runtime.kill();
    this.kills++;
    const { turnsRunning, modelAnswers, complete } = totalsOf(before);
    progress.note(
      `SIGKILL to the runtime: ${turnsRunning} turns in mid-answer, ${modelAnswers}/${feed.length} answered, ${complete}/${feed.length} workflows complete.`,
    );
    await killing;
    progress.note("It is dead. Starting it again on the same state and port.");
    await runtime.start(signal);
    const woken = await Promise.all(this.#agents.map((agent) => this.operator.wake(agent)));
    const cut = cutOff(await this.operator.reports(this.#agents, false)) - cutOff(before);
    if (cut > 0) this.hits++;
    const unfinished = woken.reduce((sum, count) => sum + count, 0);
    progress.note(
      cut > 0
        ? `It is back: ${cut} answers were cut off, ${unfinished} workflows are unfinished. The work goes on.`
        : "It is back, but every turn had ended by then. The next running turn gets another kill.",
    );
  }
}

/** Model calls that have no answer and do not run. */
function cutOff(reports: AgentReport[]): number {
  const { modelCalls, modelAnswers, turnsRunning } = totalsOf(reports);
  return modelCalls - modelAnswers - turnsRunning;
}
