/** Open waits of runs that have ended, or were restarted: nobody has to decide or to send what no run waits for. */

import type { Clock } from "../../core/clock.ts";
import { keyPrefix } from "../../core/steps.ts";
import { type InstanceOf, workflowEvent } from "../../outbox/destinations/workflow-event.ts";
import type { Outbox } from "../../outbox/outbox.ts";
import { RESTARTED, RESTARTED_MS, RUN_ENDED } from "./closings.ts";
import type { Driver } from "./driver.ts";
import type { Wait } from "./protocol.ts";
import type { Settlement } from "./settlement.ts";
import type { WaitStore } from "./store.ts";

/** How long a decision waits for a restarted run to ask for it again. */
const TAKE_OVER_MS = 5_000;
const POLL_MS = 50;

export class Runs {
  /** Kinds that may have open waits: most runs end without a statement. */
  readonly #kinds = new Set<string>();

  /** @param store opened at its first use */
  constructor(
    private readonly clock: Clock,
    private readonly outbox: Pick<Outbox, "endOf">,
    private readonly driver: Driver,
    private readonly settlement: Settlement,
    private readonly store: () => WaitStore,
  ) {}

  /** A wait of this kind is open, or is opened. */
  note(kind: string): void {
    this.#kinds.add(kind);
  }

  /** Cancels what the run has left open. */
  end(of: InstanceOf): void {
    for (const { waitId } of this.#openOf(of))
      this.settlement.settle(waitId, RUN_ENDED, { isForced: true });
  }

  /** Marks what the earlier run has left open. @returns when it is cancelled unless the new run asks for it */
  async restart(of: InstanceOf, restart: () => Promise<void>): Promise<number | undefined> {
    const left = this.#openOf(of);
    await restart();
    const until = this.clock.now() + RESTARTED_MS;
    // The new run may have asked for some meanwhile.
    for (const { waitId, run } of left) this.store().leave(waitId, run, until);
    return left.length > 0 ? until : undefined;
  }

  /** How the workflow of an open wait has ended; `left` where it was restarted, and does not ask for the wait again. Null: it runs. */
  async endOf({ workflow, waitId, run }: Wait): Promise<"ended" | "gone" | "left" | null> {
    if (run === RESTARTED && !(await this.#isAskedAgain(waitId))) return "left";
    const { name, id: instance } = workflow;
    const to = workflowEvent({ workflow: name, instance, eventType: "none" });
    return this.outbox.endOf(to).catch((error: unknown) => {
      // The decision counts: the workflow may well exist.
      console.error(
        `[perdure] the status of workflow ${name} ${instance} could not be read:`,
        error,
      );
      return null;
    });
  }

  async #isAskedAgain(waitId: string): Promise<boolean> {
    const until = performance.now() + TAKE_OVER_MS;
    for (;;) {
      const found = this.store().find(waitId);
      if (found?.run !== RESTARTED || found.status !== "open") return true;
      if (performance.now() >= until) return false;
      await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    }
  }

  #openOf({ workflow: workflowName, instance: workflowId }: InstanceOf): Wait[] {
    const kinds = this.driver.kindsOfRuns.filter((kind) => this.#kinds.has(kind));
    const prefixes = kinds.map((kind) => keyPrefix(kind, { workflowName, workflowId }));
    return this.store().withPrefixes(prefixes);
  }
}
