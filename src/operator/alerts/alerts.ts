/**
 * Sends a message when a finding of the health report lasts, and another when it is over. The message is an entry of the
 * outbox, which commits with the row that says that it was announced.
 *
 * The agent looks for findings some time after a failure, and after any event while an announced finding is open.
 */

import { type Clock, systemClock, withTimeout } from "../../core/clock.ts";
import { listeners, type ModuleEvent } from "../../engine/events.ts";
import { Capability } from "../../engine/work-loop.ts";
import type { Destination } from "../../outbox/destinations/index.ts";
import { ALERT_PREFIX } from "../../outbox/event.ts";
import type { OperatedAgent } from "../operated.ts";
import type { AlertEvent } from "../protocol.ts";
import { healthReport } from "../report/report.ts";
import { type Alert, decide, isOpen } from "./decide.ts";
import { alertFor, problemOfKind } from "./message.ts";
import type { AlertSettings } from "./options.ts";
import { alertProblems } from "./problem.ts";
import { readAlerts, writeAlerts } from "./store.ts";

/** An app's getScheduledTasks() that hangs must not hold the alarm. */
const CHECK_TIMEOUT_MS = 20_000;
const FAILED =
  /^(submission:(error|retry)|outbox:dead|scheduler:(failed|invalid)|inbound:(refused|held)|workflow:errored)$/;

export class Alerts extends Capability {
  /** Whether a finding was announced and is not over. */
  #hasOpen = false;
  /** Since when each wake found work in flight. */
  #busySince: number | undefined;
  private readonly settings: AlertSettings | undefined;

  /**
   * A destination that the outbox refuses stops no agent: it is logged and reported, and once its secret is set, alerts that
   * wait are sent.
   */
  constructor(
    private readonly agent: OperatedAgent,
    declared: AlertSettings,
    clock: Clock = systemClock,
  ) {
    super("perdure.alerts", clock);
    const { to } = declared;
    const { outbox } = agent.capabilities;
    const form = outbox.problemOf(to, "alerts.to", true) ?? problemOfKind(to);
    const problem = form ?? outbox.problemOf(to, "alerts.to");
    if (problem) {
      alertProblems.set(agent.storage, problem);
      console.error(`[perdure] alerts are not sent: ${problem}`);
    }
    // Nothing can be stored for a destination of another form.
    if (form) return;
    this.settings = declared;
    listeners.set(agent.storage, (event) => this.#heard(event));
  }

  override async onStart(): Promise<void> {
    if (!this.settings) return;
    await super.onStart();
    this.#hasOpen = readAlerts(this.lifecycle.storage).some(isOpen);
    // A deploy may have ended it.
    if (this.#hasOpen) this.#checkBy(this.loop.clock.now() + this.settings.after);
  }

  /** What happens to the delivery of an alert causes no check. */
  #heard({ type, id, attempt, state, isBusy }: ModuleEvent): void {
    if (!this.settings || id?.startsWith(ALERT_PREFIX)) return;
    const { after } = this.settings;
    const now = this.loop.clock.now();
    const isFailure =
      FAILED.test(type) ||
      (type === "outbox:attempt" && attempt !== 1) ||
      (type === "outbox:endpoint" && state !== "healthy");
    // A check is a wake itself.
    if (type !== "wake") {
      if (isFailure || this.#hasOpen) this.#checkBy(now + after);
      return;
    }
    const since = isBusy ? (this.#busySince ?? now) : undefined;
    const isLong = since !== undefined && now >= since + after;
    if (isLong) this.#checkBy(now);
    this.#busySince = isLong ? now : since;
  }

  #checkBy(time: number): void {
    this.wake.noLaterThan(time).catch((error) => {
      const remedy = "In a sub-agent, the root agent's class needs operations() too";
      console.error(`[perdure] the check for alerts could not be armed. ${remedy}:`, error);
    });
  }

  protected override async drive(): Promise<number | null> {
    if (!this.settings) return null;
    try {
      return await withTimeout(this.#check(this.settings), CHECK_TIMEOUT_MS);
    } catch (error) {
      console.error("[perdure] the check for alerts has failed and is repeated:", error);
      return this.loop.clock.now() + this.settings.after;
    }
  }

  async #check(settings: AlertSettings): Promise<number | null> {
    const operated = this.agent;
    const { findings } = await healthReport(operated);
    const { storage } = this.lifecycle;
    const now = this.loop.clock.now();
    const { alerts, due } = storage.transactionSync(() => {
      const before = readAlerts(storage);
      const decision = decide(findings, before, settings, now);
      writeAlerts(storage, before, decision.alerts);
      for (const alert of decision.alerts) if (!before.includes(alert)) this.#put(alert, operated);
      return decision;
    });
    this.#hasOpen = alerts.some(isOpen);
    operated.capabilities.outbox.flush();
    return due;
  }

  /** The message of an alert that has changed. One that waits has none. */
  #put(alert: Alert, { host, capabilities: { outbox } }: OperatedAgent): void {
    const { to } = this.settings as AlertSettings;
    const { announcedAt, overAt, finding } = alert;
    const at = overAt ?? announcedAt;
    if (at === null) return;
    const { className: agent = "", name = "" } = host.selfPath.at(-1) ?? {};
    const state = overAt === null ? "open" : "over";
    const event: AlertEvent = { type: "perdure.alert", state, finding, agent, name, at };
    const payload = JSON.stringify(alertFor(to, event));
    // A message that comes twice is better than none, and than a dead letter that a person has to judge.
    const repeated = { ...to, policy: { mayRepeat: true, ...to.policy } } as Destination;
    // Also when the outbox is full.
    outbox.enqueue(`${ALERT_PREFIX}${crypto.randomUUID()}`, repeated, payload);
  }
}
