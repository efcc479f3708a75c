/** Runs the code of a workflow once against a history, until it ends, or until all of its branches wait. */

import { withEnv } from "cloudflare:workers";
import { fromTypedJson } from "../../core/typed-json.ts";
import { ReplayedAgent } from "./agent.ts";
import { replayedEnv, withoutFetch } from "./bindings.ts";
import { type WorkflowClass, workflowOf } from "./entrypoint.ts";
import type { Recorded } from "./record.ts";
import { type Answers, type Ask, ReplayedStep } from "./step.ts";

export type Play = {
  readonly asks: readonly Ask[];
  readonly end:
    | { readonly at: "waits" | "returned" }
    | { readonly at: "threw"; readonly error: unknown }
    /** It could not go on. */
    | { readonly at: "stopped"; readonly step: string; readonly why: string };
  /** What the code has used that the history does not have. */
  readonly unknown: readonly string[];
  readonly hasSamples: boolean;
  /** The classes that have run: that of `versions()`, and the one that it has chosen. */
  readonly code: string;
};

export type PlayOptions = {
  readonly Class: WorkflowClass;
  readonly record: Recorded;
  readonly env: object;
  readonly answers: Answers;
  /** Of `performance.now()`. */
  readonly deadline: number;
};

/** Turns of the event loop without progress, before the replay takes it that all branches wait. */
const QUIET_TURNS = 3;
/** The same where the code has not asked for all steps of the history; then where a schema may still wait for something. */
const PATIENT_TURNS = 25;
const CHECKING_TURNS = 150;
const PATIENT_MS = 10;

export async function play({ Class, record, env, answers, deadline }: PlayOptions): Promise<Play> {
  const { history } = record;
  let note: (what: string) => unknown = () => undefined;
  const agent = new ReplayedAgent(record, (what) => note(what));
  const step = new ReplayedStep(record, agent, answers);
  note = step.note;
  using _ = withoutFetch(step.note);
  const bindings = replayedEnv(env, agent.stub, step.note);
  const classes = new Set<unknown>();
  const workflow = workflowOf(Class, bindings, classes);
  const event = {
    payload: fromTypedJson(history.params, (type) => step.note(`the params (${type})`)),
    timestamp: new Date(history.startedAt),
    instanceId: history.workflowId,
    workflowName: history.deployedAs ?? history.workflow,
  };
  let end: Play["end"] | undefined;
  // Also for code that imports `env`.
  const run = async () => withEnv(bindings, () => workflow.run(event, step));
  run().then(
    () => {
      end ??= { at: "returned" };
    },
    (error: unknown) => {
      end ??= { at: "threw", error };
    },
  );
  const seen = await quiet(step, () => end !== undefined, deadline);
  const { asks, unknown, hasSamples } = step;
  const result = end ?? stopOf(step, seen);
  // What the code does from now on is no part of the replay.
  end = result;
  const code = [...classes].map(String).join("\n");
  return { asks, end: result, unknown: [...unknown], hasSamples, code };
}

function stopOf({ stopped, waiting }: ReplayedStep, seen: "quiet" | "late"): Play["end"] {
  if (stopped) return { at: "stopped", ...stopped };
  if (seen === "quiet") return { at: "waits" };
  const why =
    waiting > 0
      ? "it has not come to rest in time"
      : "run() waits for something that is no step, or takes too long";
  return { at: "stopped", step: "run()", why };
}

/** Answers the steps, one at a time, until nothing happens any more. */
async function quiet(
  step: ReplayedStep,
  hasEnded: () => boolean,
  deadline: number,
): Promise<"quiet" | "late"> {
  let turns = 0;
  let progress = -1;
  while (performance.now() < deadline) {
    const isPatient = turns >= QUIET_TURNS;
    await new Promise((resolve) => setTimeout(resolve, isPatient ? PATIENT_MS : 0));
    if (hasEnded()) return "quiet";
    if (step.busy > 0 || step.answerNext() || step.progress !== progress) {
      progress = step.progress;
      turns = 0;
      continue;
    }
    turns++;
    const missing = step.isChecking ? CHECKING_TURNS : PATIENT_TURNS;
    const most = step.hasAskedAll || step.stopped ? QUIET_TURNS : missing;
    // Without an open step the code waits for something else, which may still come.
    if (turns >= most && step.waiting > 0) return "quiet";
  }
  return "late";
}
