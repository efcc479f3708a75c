/**
 * Follows the streams of running children: reports their progress, and triggers a look at the wait when a stream has ended. In
 * memory only; it decides nothing.
 */

import type { Clock } from "../../core/clock.ts";
import { type Json, parsedJson } from "../../core/json.ts";
import type { AgentToolProgress } from "../../workflow/agent-tool.ts";
import type { Wait } from "../../workflow/waits/protocol.ts";
import type { Children } from "./children.ts";
import { requestOf } from "./ends.ts";

/** The parts of a child's stream that are reports, as agents document them. */
const PROGRESS_PART = "data-agent-progress";
const MILESTONE_PART = "data-agent-milestone";

/** A report, as a workflow's progress has it; a milestone has its number within the run. */
export type Report = Pick<
  AgentToolProgress,
  "message" | "percent" | "phase" | "milestone" | "data"
> & { sequence?: number };

/** A stream that ends sooner than this, while its run goes on, is not followed again at once. */
const SHORT_MS = 5_000;

/** The stream of a deleted child may never end, so each followed run is also looked at on a timer. */
const LOOK_MS = 300_000;

type Followed = {
  /** Milestones that this object instance has reported, by their numbers. */
  readonly reported: Set<number>;
  isLive: boolean;
  /** When it was last followed, epoch milliseconds. */
  since: number;
  timer?: ReturnType<typeof setInterval>;
  reader?: ReadableStreamDefaultReader<unknown> | undefined;
  /** Its wait was closed: nothing more is reported. */
  isForgotten: boolean;
};

export class Following {
  readonly #runs = new Map<string, Followed>();

  constructor(
    private readonly children: Pick<Children, "report" | "tail">,
    /** Triggers a look at a wait. */
    private readonly nudge: (waitId: string) => Promise<void>,
    private readonly clock: Clock,
  ) {}

  /** Follows a run, once at a time. Returns false where its stream has just ended: the run must be looked at later. */
  start(wait: Wait, runId: string): boolean {
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

  /** Reports the milestones that were not reported since the last start. */
  reportMissed(
    wait: Wait,
    runId: string,
    { milestones = [] }: { milestones?: readonly { name: string; sequence: number }[] },
  ): void {
    for (const { name, sequence, ...rest } of milestones) {
      const { data } = rest as Pick<Report, "data">;
      const report = { milestone: name, sequence, ...(data !== undefined && { data }) };
      this.#report(wait, runId, report);
    }
  }

  /** Stops following a run: a timer or a stream would keep the object in memory. */
  forget(runId: string): void {
    const run = this.#runs.get(runId);
    if (!run) return;
    run.isForgotten = true;
    clearInterval(run.timer);
    this.#runs.delete(runId);
    // A child that went down cannot be reached.
    run.reader?.cancel().catch(() => undefined);
  }

  #look({ waitId }: Wait): void {
    this.nudge(waitId).catch((error) =>
      console.error("[perdure] an agent tool could not be looked at:", error),
    );
  }

  async #follow(wait: Wait, runId: string, run: Followed): Promise<void> {
    try {
      const stream = await this.children.tail(requestOf(wait).className, runId);
      if (run.isForgotten) return await stream.cancel();
      run.reader = stream.getReader();
      for await (const report of reportsOf(chunksOf(run.reader))) this.#report(wait, runId, report);
    } catch {
      // The child went down, or has no stream: the look at its record that follows says what became of it.
    } finally {
      run.isLive = false;
      run.reader = undefined;
    }
  }

  #report({ workflow }: Wait, runId: string, { sequence, ...report }: Report): void {
    if (sequence !== undefined) {
      const { reported } = this.#of(runId);
      if (reported.has(sequence)) return;
      reported.add(sequence);
    }
    const progress = { step: workflow.stepName, status: "running", runId, ...report } as const;
    this.children
      .report(workflow, progress)
      .catch((error) => console.error("[perdure] progress could not be reported:", error));
  }

  #of(runId: string): Followed {
    const known = this.#runs.get(runId);
    if (known) return known;
    const since = Number.NEGATIVE_INFINITY;
    const run: Followed = { reported: new Set(), isLive: false, isForgotten: false, since };
    this.#runs.set(runId, run);
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

/**
 * The reports among the child's chunks, until those end. Any other chunk is passed over.
 * @internal
 */
export async function* reportsOf(chunks: AsyncIterable<unknown>): AsyncGenerator<Report> {
  const decoder = new TextDecoder();
  let text = "";
  for await (const chunk of chunks) {
    if (!(chunk instanceof Uint8Array)) {
      // A child in the same isolate may hand its chunks over as they are.
      yield* reportIn((chunk as { body?: unknown } | null)?.body);
      continue;
    }
    text += decoder.decode(chunk, { stream: true });
    const lines = text.split("\n");
    text = lines.pop() ?? "";
    for (const line of lines)
      yield* reportIn((parsedJson(line) as { body?: unknown } | null | undefined)?.body);
  }
}

function* reportIn(body: unknown): Generator<Report> {
  // A line that this version of the child's class does not write may be no JSON.
  const part = (typeof body === "string" ? parsedJson(body) : undefined) as
    | { type?: unknown; data?: Record<string, Json> }
    | null
    | undefined;
  const { type, data = {} } = part ?? {};
  const isMilestone = type === MILESTONE_PART;
  if (!isMilestone && type !== PROGRESS_PART) return;
  const { fraction, message, phase, name, sequence } = data;
  yield {
    ...(typeof message === "string" && { message }),
    ...(typeof fraction === "number" && { percent: fraction }),
    ...(typeof phase === "string" && { phase }),
    ...(isMilestone && typeof name === "string" && { milestone: name }),
    ...(isMilestone && typeof sequence === "number" && { sequence }),
    ...(data.data !== undefined && { data: data.data }),
  };
}
