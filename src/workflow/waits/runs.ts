/** Open waits of runs that have ended, or were restarted: nobody has to decide or to send what no run waits for. */

import type { Clock } from "../../core/clock.ts";
import { keyPrefix } from "../../core/steps.ts";
import type { Engine } from "../../engine/engine.ts";
import type { Job } from "../../engine/job.ts";
import { type InstanceOf, workflowEvent } from "../../outbox/destinations/workflow-event.ts";
import type { Outbox } from "../../outbox/outbox.ts";
import { RESTARTED, RESTARTED_MS, RUN_ENDED } from "./closings.ts";
import type { Wait } from "./protocol.ts";
import { toEnd, type WaitData } from "./wait-job.ts";

/** How long a decision waits for a restarted run to ask for it again. */
const TAKE_OVER_MS = 5_000;
const POLL_MS = 50;

export class Runs {
  /** Kinds that may have open waits: most runs end without a statement. */
  readonly #kinds = new Set<string>();

  /** @param kindsOfRuns kinds whose open waits are cancelled when their run ends */
  constructor(
    private readonly clock: Clock,
    private readonly outbox: Pick<Outbox, "endOf">,
    private readonly engine: Engine,
    private readonly kindsOfRuns: () => readonly string[],
  ) {}

  /** A wait of this kind is open, or is opened. */
  note(kind: string): void {
    this.#kinds.add(kind);
  }

  /** Cancels what the run has left open. */
  end(of: InstanceOf): void {
    for (const { id } of this.#openOf(of))
      this.engine.settle(id, toEnd(RUN_ENDED), { isForced: true });
  }

  /** Marks what the earlier run has left open. @returns when it is cancelled unless the new run asks for it */
  async restart(of: InstanceOf, restart: () => Promise<void>): Promise<number | undefined> {
    const left = this.#openOf(of);
    await restart();
    const until = this.clock.now() + RESTARTED_MS;
    const { store } = this.engine;
    for (const { id, data } of left) {
      const job = store.find(id);
      const now = job?.data as WaitData | undefined;
      // The new run may have asked for it meanwhile.
      if (!job || now?.run !== (data as WaitData).run) continue;
      const changes = { data: JSON.stringify({ ...now, run: RESTARTED }) };
      store.change(id, { ...changes, due_at: Math.min(job.dueAt ?? until, until) });
    }
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
      const job = this.engine.store.find(waitId);
      const isLeft = job?.endedAt === undefined && (job?.data as WaitData)?.run === RESTARTED;
      if (!isLeft) return true;
      if (performance.now() >= until) return false;
      await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    }
  }

  #openOf({ workflow: workflowName, instance: workflowId }: InstanceOf): Job[] {
    const kinds = this.kindsOfRuns().filter((kind) => this.#kinds.has(kind));
    const prefixes = kinds.map((kind) => keyPrefix(kind, { workflowName, workflowId }));
    return prefixes.length === 0 ? [] : this.engine.store.openWithPrefixes(prefixes);
  }
}
