/** Reports of deliveries to the app and to the diagnostics channels. */

import { type Problem, reportProblem } from "../../core/problems.ts";
import { emit } from "../../engine/events.ts";
import type { WorkLoop } from "../../engine/work-loop.ts";
import type { Destinations } from "../destinations/index.ts";
import { hostOf } from "../destinations/webhook.ts";
import type { OutboxSettings } from "../options.ts";
import type { OutboxEntry } from "../store/entries.ts";
import type { DeadLetter, Destination, Endpoint } from "../types.ts";

export class Reports {
  #hasReportedDropped = false;

  constructor(
    private readonly loop: WorkLoop,
    private readonly destinations: Destinations,
    private readonly hooks: Pick<OutboxSettings, "onDeadLetter" | "onProblem">,
  ) {}

  attempt(type: "outbox:attempt" | "outbox:delivered", entry: OutboxEntry): void {
    const { id, attempt, destination } = entry;
    emit(this.loop.lifecycle, type, { id, attempt, kind: destination.kind });
  }

  /** Reports telemetry that is dropped, once after each start of the object. */
  dropped(destination: Destination, reason: string): void {
    if (this.#hasReportedDropped) return;
    this.#hasReportedDropped = true;
    const message = `Traces and metrics are dropped: ${reason}`;
    const ids = { to: this.destinations.labelOf(destination) };
    this.problem({ type: "outbox:telemetry", level: "warn", message, ids });
  }

  /** Deliveries of an earlier version of the class stay as they are. */
  uninstalled(kind: string, waiting: number): void {
    const message = `${waiting} deliveries wait for ${kind}, which is not installed. ${this.destinations.remedyOf(kind)}`;
    this.problem({
      type: "outbox:uninstalled",
      level: "error",
      message,
      ids: { kind, waiting },
    });
  }

  discarded({ id, attempt, destination }: OutboxEntry, reason: string): void {
    const { kind } = destination;
    emit(this.loop.lifecycle, "outbox:discarded", { id, attempt, kind, reason });
  }

  /** Emits the event, reports the problem, and calls `onDeadLetter`. */
  async dead(letter: DeadLetter): Promise<void> {
    const { id, destination, attempts, lastError: error } = letter;
    const { kind } = destination;
    emit(this.loop.lifecycle, "outbox:dead", { id, kind, attempts, error });
    const ids = { id, kind, to: this.destinations.labelOf(destination), attempts };
    this.problem({ type: "outbox:dead", level: "error", message: error, ids });
    await this.loop.inHostContext(async () => this.hooks.onDeadLetter?.(letter));
  }

  /** @param reason why it is not healthy */
  endpoint(url: string, state: Endpoint["state"], reason?: string): void {
    emit(this.loop.lifecycle, "outbox:endpoint", { url, state });
    this.problem({
      type: "outbox:endpoint",
      level: state === "disabled" ? "error" : "warn",
      message: reason ?? "The endpoint has recovered",
      ids: { endpoint: hostOf(url), state },
    });
  }

  problem(problem: Problem): void {
    reportProblem(this.hooks.onProblem, problem, this.loop.inHostContext);
  }
}
