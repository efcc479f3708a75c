/**
 * Follows runs in this life: tells what their children report, and has a wait
 * looked at when its child's stream has ended. Keeps nothing over a restart,
 * and decides nothing.
 */

import type { Clock } from "../../../core/clock.ts";
import type { Wait } from "../../protocol.ts";
import { requestOf } from "./ends.ts";
import { type Report, reportsOf } from "./reports.ts";
import type { AgentToolPort } from "./types.ts";

/** A stream that ends sooner than this, with its run under way, is not followed again at once. */
const SHORT_MS = 5_000;

/** A stream may never end, where its child was deleted: its run is looked at so often all the same. */
const LOOK_MS = 300_000;

type Followed = {
  /** The milestones that this life has told, by their numbers. */
  readonly told: Set<number>;
  isLive: boolean;
  /** When it was followed last, epoch milliseconds. */
  since: number;
  timer: ReturnType<typeof setInterval> | undefined;
  reader: ReadableStreamDefaultReader<unknown> | undefined;
  /** Nobody wants to hear of it any more. */
  isForgotten: boolean;
};

export class Following {
  readonly #runs = new Map<string, Followed>();

  constructor(
    private readonly port: AgentToolPort,
    /** Has a wait looked at. */
    private readonly nudge: (waitId: string) => Promise<void>,
    private readonly clock: Clock,
  ) {}

  /** Follows a run, once at a time. Returns whether it is followed; if not, nothing will be heard of it. */
  begin(wait: Wait, runId: string): boolean {
    const run = this.#of(runId);
    if (run.isLive) return true;
    const now = this.clock.now();
    if (now - run.since < SHORT_MS) return false;
    Object.assign(run, { isLive: true, since: now });
    run.timer = setInterval(() => this.#look(wait), LOOK_MS);
    this.#follow(wait, runId, run).finally(() => {
      clearInterval(run.timer);
      this.#look(wait);
    });
    return true;
  }

  /** Tells the milestones that this life has not told yet. */
  tellMissed(
    wait: Wait,
    runId: string,
    { milestones = [] }: { milestones?: readonly { name: string; sequence: number }[] },
  ): void {
    for (const { name, sequence, ...rest } of milestones) {
      const { data } = rest as Pick<Report, "data">;
      const report = { milestone: name, sequence, ...(data !== undefined && { data }) };
      this.#tell(wait, runId, report);
    }
  }

  /** The run has ended, or nobody wants its end: a timer or a stream would keep the object in memory. */
  forget(runId: string): void {
    const run = this.#runs.get(runId);
    if (!run) return;
    run.isForgotten = true;
    clearInterval(run.timer);
    this.#runs.delete(runId);
    // A child that went down cannot be told.
    run.reader?.cancel().catch(() => undefined);
  }

  #look({ waitId }: Wait): void {
    this.nudge(waitId).catch((error) =>
      console.error("[perdure] an agent tool could not be looked at:", error),
    );
  }

  async #follow(wait: Wait, runId: string, run: Followed): Promise<void> {
    try {
      const stream = await this.port.tail(requestOf(wait).className, runId);
      if (run.isForgotten) return await stream.cancel();
      run.reader = stream.getReader();
      for await (const report of reportsOf(chunksOf(run.reader))) this.#tell(wait, runId, report);
    } catch {
      // The child went down, or has no stream: the look at its record that follows says what became of it.
    } finally {
      run.isLive = false;
      run.reader = undefined;
    }
  }

  #tell({ workflow }: Wait, runId: string, { sequence, ...report }: Report): void {
    if (sequence !== undefined) {
      const { told } = this.#of(runId);
      if (told.has(sequence)) return;
      told.add(sequence);
    }
    const progress = { step: workflow.stepName, status: "running", runId, ...report } as const;
    this.port
      .tell(workflow, progress)
      .catch((error) => console.error("[perdure] progress could not be told:", error));
  }

  #of(runId: string): Followed {
    let run = this.#runs.get(runId);
    if (!run) {
      const since = Number.NEGATIVE_INFINITY;
      const none = { timer: undefined, reader: undefined };
      run = { told: new Set(), isLive: false, isForgotten: false, since, ...none };
      this.#runs.set(runId, run);
    }
    return run;
  }
}

/** Until the stream ends, or its reader is cancelled. */
async function* chunksOf(reader: ReadableStreamDefaultReader<unknown>): AsyncGenerator<unknown> {
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    yield value;
  }
}
