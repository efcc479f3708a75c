/** What the platform has recorded of a run, from the events of its instance. */

import { TimeoutError, withTimeout } from "../../../core/clock.ts";
import type { Failure } from "../../../core/failures.ts";
import type { Json } from "../../../core/json.ts";
import { toTypedJson } from "../../../core/typed-json.ts";
import type { PlatformStep } from "../types.ts";
import { type Budget, MOST_STEPS } from "./budget.ts";

/** How long the platform may take in all. */
const PLATFORM_MS = 5_000;
/** The events that there are come one after the other. After this time without one, the next has not happened yet. */
const IDLE_MS = 250;

const KINDS = { step: "do", attempt: "do", sleep: "sleep", wait: "event" } as const;
const ENDS = { completed: "completed", timed_out: "expired", errored: "failed" } as const;

type Step = { -readonly [Key in keyof PlatformStep]: PlatformStep[Key] };

export type PlatformHistory = {
  readonly steps: ReadonlyMap<string, PlatformStep>;
  readonly params?: Json | undefined;
  /** As the last event says it. */
  readonly status?: string;
};

type StepEvent = { readonly stepName: string; readonly error?: Failure; readonly output?: unknown };

type Run = { steps: Map<string, Step>; params?: Json | undefined; status?: string };

/** Never throws: what the platform has not told is a cut of the history. */
export async function platformHistory(
  find: () => Promise<WorkflowInstance>,
  budget: Budget,
): Promise<PlatformHistory> {
  const run: Run = { steps: new Map() };
  const until = performance.now() + PLATFORM_MS;
  let ms = PLATFORM_MS;
  // Not by `using`, which bundlers replace by more code than all of this.
  let events: WorkflowInstanceSubscription | undefined;
  try {
    const instance = await withTimeout(find(), ms);
    events = await withTimeout(instance.subscribe(), ms);
    for (ms = IDLE_MS; ; ) {
      const { value } = await withTimeout(events.next(), ms);
      if (!value) break;
      note(run, value, budget);
      if (run.steps.size > MOST_STEPS || performance.now() > until) {
        budget.cut();
        break;
      }
    }
  } catch (error) {
    // The next event has not happened yet.
    const isIdle = ms === IDLE_MS && error instanceof TimeoutError;
    if (!isIdle) budget.cut(error);
  }
  events?.[Symbol.dispose]();
  return run;
}

function note(run: Run, event: WorkflowInstanceEvent, budget: Budget): void {
  const { type } = event;
  const [group, what = ""] = type.split(/_(.*)/);
  // Another run of the instance begins.
  if (type === "workflow_queued") run.steps.clear();
  if (type === "workflow_started") run.params ??= budget.taken(recorded(event.params));
  if (group === "workflow") run.status = what === "completed" ? "complete" : what;
  const kind = KINDS[group as keyof typeof KINDS];
  if (!kind) return;
  const { stepName, error, output } = event as StepEvent;
  const startedAt = Number(new Date(event.timestamp));
  const id = `${kind} ${stepName}`;
  let step = run.steps.get(id);
  // A restart may repeat a step that has ended.
  if (!step || (what === "started" && step.endedAt)) {
    // The platform adds to each name which of the steps of this name it is.
    const [name = "", count = 1] = stepName.split(/-(\d{1,9})$/);
    step = { name, count: Number(count), kind, status: "open", startedAt };
    run.steps.set(id, step);
  }
  if (error) step.error = error;
  const status = ENDS[what as keyof typeof ENDS];
  if (!status || group === "attempt") return;
  step.status = status;
  step.endedAt = startedAt;
  const taken = budget.taken(recorded(output));
  if (taken !== undefined) step.output = taken;
}

const recorded = (value: unknown) => (value === undefined ? undefined : toTypedJson(value).json);
