/** What the parts of the outbox share: settings, stores, the wake, and the reports to the app. */

import type { Clock } from "../core/clock.ts";
import { type Problem, reportProblem } from "../core/problems.ts";
import { emit } from "../engine/events.ts";
import type { Wake } from "../engine/wake.ts";
import type { WorkLoop } from "../engine/work-loop.ts";
import type { Destinations } from "./destinations/index.ts";
import { hostOf } from "./destinations/webhook.ts";
import type { KeepLimits, OutboxLimits, OutboxSettings } from "./options.ts";
import { EndedStore } from "./store/ended.ts";
import { EndpointStore } from "./store/endpoints.ts";
import type { OutboxEntry } from "./store/entries.ts";
import { EntryStore } from "./store/entries.ts";
import type { DeadLetter, Destination, Endpoint } from "./types.ts";

/** A failing endpoint without waiting entries is deleted after this time. */
const MAX_ENDPOINT_AGE_MS = 30 * 86_400_000;

type Stores = {
  readonly entries: EntryStore;
  readonly ended: EndedStore;
  readonly endpoints: EndpointStore;
};

export class OutboxContext {
  readonly clock: Clock;
  readonly wake: Wake;
  #stores: Stores | undefined;
  hasStarted = false;
  #hasReportedDropped = false;

  constructor(
    readonly loop: WorkLoop,
    readonly limits: OutboxLimits,
    readonly destinations: Destinations,
    private readonly hooks: Pick<OutboxSettings, "onDeadLetter" | "onProblem">,
  ) {
    this.clock = loop.clock;
    this.wake = loop.wake;
  }

  get entries(): EntryStore {
    return this.#open().entries;
  }

  get ended(): EndedStore {
    return this.#open().ended;
  }

  get endpoints(): EndpointStore {
    return this.#open().endpoints;
  }

  keepDelivered(kept: KeepLimits): void {
    if (!this.limits.kept.all) this.limits.kept = { ...kept, all: true };
  }

  start(): void {
    this.#open();
    this.hasStarted = true;
  }

  #open(): Stores {
    const { storage } = this.loop.lifecycle;
    this.#stores ??= {
      entries: new EntryStore(storage, () => this.destinations.installed),
      ended: new EndedStore(storage, this.limits.deadLetters),
      endpoints: new EndpointStore(storage.sql),
    };
    // Before the start, a rolled-back transaction may have removed the tables again.
    if (!this.hasStarted) this.#stores.entries.migrate();
    return this.#stores;
  }

  /**
   * Deletes what is no longer kept. A failure is logged, and the next call tries again.
   *
   * @param isStart dead letters are deleted by their age alone then
   */
  prune(isStart = false): void {
    try {
      const now = this.clock.now();
      if (!this.ended.isEmpty()) {
        this.ended.pruneKept(this.limits.kept, now);
        if (isStart) this.ended.pruneOld(now);
        else this.ended.prune(now);
      }
      this.endpoints.prune(now - MAX_ENDPOINT_AGE_MS);
    } catch (error) {
      console.error("[perdure] old rows of the outbox could not be deleted:", error);
    }
  }

  reportAttempt(type: "outbox:attempt" | "outbox:delivered", entry: OutboxEntry): void {
    const { id, attempt, destination } = entry;
    emit(this.loop.lifecycle, type, { id, attempt, kind: destination.kind });
  }

  /** Reports telemetry that is dropped, once after each start of the object. */
  reportDropped(destination: Destination, reason: string): void {
    if (this.#hasReportedDropped) return;
    this.#hasReportedDropped = true;
    const message = `Traces and metrics are dropped: ${reason}`;
    const ids = { to: this.destinations.labelOf(destination) };
    this.reportProblem({ type: "outbox:telemetry", level: "warn", message, ids });
  }

  /** Deliveries of an earlier version of the class stay as they are. */
  reportUninstalled(kind: string, waiting: number): void {
    const message = `${waiting} deliveries wait for ${kind}, which is not installed. ${this.destinations.remedyOf(kind)}`;
    this.reportProblem({
      type: "outbox:uninstalled",
      level: "error",
      message,
      ids: { kind, waiting },
    });
  }

  reportDiscarded({ id, attempt, destination }: OutboxEntry, reason: string): void {
    const { kind } = destination;
    emit(this.loop.lifecycle, "outbox:discarded", { id, attempt, kind, reason });
  }

  /** Emits the event, reports the problem, and calls `onDeadLetter`. */
  async reportDead(letter: DeadLetter): Promise<void> {
    const { id, destination, attempts, lastError: error } = letter;
    const { kind } = destination;
    emit(this.loop.lifecycle, "outbox:dead", { id, kind, attempts, error });
    const ids = { id, kind, to: this.destinations.labelOf(destination), attempts };
    this.reportProblem({ type: "outbox:dead", level: "error", message: error, ids });
    await this.loop.inHostContext(async () => this.hooks.onDeadLetter?.(letter));
  }

  /** @param reason why it is not healthy */
  reportEndpoint(url: string, state: Endpoint["state"], reason?: string): void {
    emit(this.loop.lifecycle, "outbox:endpoint", { url, state });
    this.reportProblem({
      type: "outbox:endpoint",
      level: state === "disabled" ? "error" : "warn",
      message: reason ?? "The endpoint has recovered",
      ids: { endpoint: hostOf(url), state },
    });
  }

  reportProblem(problem: Problem): void {
    reportProblem(this.hooks.onProblem, problem, this.loop.inHostContext);
  }
}
