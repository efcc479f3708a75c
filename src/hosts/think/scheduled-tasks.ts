/**
 * Think's scheduled tasks on Perdure's scheduler: the app declares them as it
 * did, Think is shown none of them, and a prompt becomes a submission.
 */

import type { Think, ThinkScheduledTasks } from "@cloudflare/think";
import type {
  AnyTasks,
  ArmedOccurrence,
  CheckedTasks,
  PromptEnd,
  PromptPort,
  ScheduledTasks,
} from "../../scheduler/index.ts";
import type { SubmissionInspection, Submissions } from "../../submissions/index.ts";
import type { ThinkLedger } from "./think-ledger.ts";

/**
 * What `getScheduledTasks()` returns, with its schedules checked by the compiler. A text that is built
 * at run time is checked at the start (S4), and by `parseSchedule()` of `perdure/scheduler` at any time.
 *
 * @example
 * getScheduledTasks() {
 *   return defineScheduledTasks({
 *     digest: { schedule: "every weekday at 09:00 in Europe/London", prompt: "Write the digest." },
 *   });
 * }
 */
export function defineScheduledTasks<const Tasks extends AnyTasks>(
  tasks: Tasks & CheckedTasks<Tasks>,
): ThinkScheduledTasks {
  // Think's own type knows five forms and no policies, and a method that overrides Think's has to return it.
  return tasks as unknown as ThinkScheduledTasks;
}

/** A Think agent as its public methods show it. */
type ThinkAgent = Pick<Think, "getScheduledTasks"> & {
  onStart(props?: Record<string, unknown>): void | Promise<void>;
};

/** What Think calls when an occurrence that it has armed is due. */
const THINK_CALLBACK = "_runDeclaredScheduledTask";

/**
 * The occurrences that Think has armed, in an earlier version of the app, by task: Think disarms them when the app has changed.
 *
 * @param think knows whether the prompt of an occurrence was submitted
 */
export async function armedByThink(
  agent: Pick<Think, "listSchedules" | "parentPath" | "getScheduledTasksScope">,
  think: Pick<ThinkLedger, "list">,
): Promise<Map<string, ArmedOccurrence>> {
  const armed = new Map<string, ArmedOccurrence>();
  // In a sub-agent the root is asked.
  const isInScope =
    agent.parentPath.length === 0 || (await agent.getScheduledTasksScope()) === "all";
  for (const { callback, payload } of isInScope ? await agent.listSchedules() : []) {
    if (callback !== THINK_CALLBACK) continue;
    const { taskId, scheduledFor } = payload as { taskId: string; scheduledFor: number };
    const metadata = { source: "scheduled-task", taskId, scheduledFor };
    const isDone = (await think.list({ metadata, limit: 1 })).length > 0;
    armed.set(taskId, { at: scheduledFor, isDone });
  }
  return armed;
}

/**
 * Keeps the app's tasks from Think, which arms at the end of its start what it
 * finds declared, and disarms what it armed in an earlier version of the app.
 *
 * @param work.beforeDisarming runs when the app has started, before Think disarms anything
 * @param work.afterStart runs after that, and may read what the app's `onStart()` has made
 * @returns what the app declares, at any time
 */
export function takeOver(
  agent: ThinkAgent,
  { beforeDisarming, afterStart }: Record<"beforeDisarming" | "afterStart", () => Promise<void>>,
): () => Promise<ScheduledTasks> {
  let hidden: ThinkAgent["getScheduledTasks"] | undefined;
  const start = agent.onStart.bind(agent);
  agent.onStart = async (props) => {
    // Not before the start: the app may have them in a class field.
    const own = Object.getOwnPropertyDescriptor(agent, "getScheduledTasks");
    hidden = agent.getScheduledTasks;
    agent.getScheduledTasks = async () => {
      // An occurrence that is not taken over is missed, and the agent starts all the same.
      await beforeDisarming().catch((error) => {
        console.error("[perdure] what Think has scheduled could not be taken over:", error);
      });
      return {};
    };
    try {
      await start(props);
    } finally {
      hidden = undefined;
      if (own) Object.defineProperty(agent, "getScheduledTasks", own);
      else Reflect.deleteProperty(agent, "getScheduledTasks");
    }
    // What goes wrong there has been told of, and is tried again: it does not keep the agent from starting.
    await afterStart().catch(() => {});
  };
  return async () => (hidden ?? agent.getScheduledTasks).call(agent);
}

/** As Think tells of a task that has failed. The default `onError()` throws what it was told, which is no failure of the hook. */
export async function tellOnError(
  agent: { onError(error: unknown): void | Promise<void> },
  error: unknown,
): Promise<void> {
  try {
    await agent.onError(error);
  } catch (thrown) {
    if (thrown !== error) throw thrown;
  }
}

/** Prompts as submissions to the agent itself. */
export function promptsTo(submissions: Submissions): PromptPort {
  /** Asked again, the scheduler waits with those that have asked before. */
  const waits = new Map<string, Promise<SubmissionInspection | null>>();
  const wait = async (id: string) => {
    const found = await submissions.inspect(id);
    if (found?.status !== "pending" && found?.status !== "running") return found;
    const waiting =
      waits.get(id) ?? submissions.waitBeside(id).finally(() => void waits.delete(id));
    waits.set(id, waiting);
    return waiting;
  };
  return {
    submit: async (prompt, { idempotencyKey, metadata, retry }) => {
      const parts = [{ type: "text" as const, text: prompt }];
      // The ledger has no word for "no limit".
      const attempts = retry?.maxAttempts && Math.min(retry.maxAttempts, Number.MAX_SAFE_INTEGER);
      return submissions.accept(
        // The same id each time: what is submitted twice is the same message.
        [{ id: idempotencyKey, role: "user", parts }],
        { idempotencyKey, metadata, ...(attempts && { retry: { maxAttempts: attempts } }) },
      );
    },
    ended: async (submissionId) => {
      const ended = await wait(submissionId);
      return ended && endOf(ended);
    },
    cancel: async (submissionId, reason) => {
      await submissions.cancel(submissionId, reason);
    },
  };
}

function endOf(submission: SubmissionInspection): PromptEnd {
  if (submission.status === "pending" || submission.status === "running") {
    throw new Error(`Submission ${submission.submissionId} has not ended`);
  }
  const { status, errorName: name = "Error", error: message } = submission;
  return { status, ...(message !== undefined && { error: { name, message } }) };
}
