/** Actions on one scheduled task. */

import type { Scheduler } from "../../scheduler/index.ts";
import type { OperatedAgent } from "../operated.ts";
import type { Action } from "../protocol.ts";
import { done, type Effect, type ItemVerb, NOT_FOUND, oneByOne, UNCHANGED } from "./effect.ts";

type TaskAction = Extract<Action, { readonly taskId: string }>;
type Of<Name extends Action["do"]> = Extract<Action, { readonly do: Name }>;

const task = {
  id: ({ taskId }: TaskAction) => taskId,
  after: ({ agent }: OperatedAgent, { taskId }: TaskAction) => agent.schedules.inspect(taskId),
};

/** An action that depends on the state of its task: each finds what the one before has done. */
function onTask(
  wouldDo: (state: string) => boolean,
  verb: (operated: OperatedAgent, action: TaskAction, reason: string) => Promise<Effect>,
): ItemVerb<TaskAction> {
  const look = async ({ agent }: OperatedAgent, { taskId }: TaskAction): Promise<Effect> => {
    const found = await agent.schedules.inspect(taskId);
    if (!found) return NOT_FOUND;
    return found.state === "invalid" || wouldDo(found.state) ? done() : UNCHANGED;
  };
  return {
    ...task,
    look,
    act: (operated, action, { reason }) =>
      oneByOne(operated, `task ${action.taskId}`, async () => {
        const effect = await look(operated, action);
        return effect.outcome === "done" ? verb(operated, action, reason) : effect;
      }),
  };
}

const pauseTask = onTask(
  (state) => state !== "paused",
  async ({ agent }, { taskId }, reason) => {
    await agent.schedules.pause(taskId, reason);
    return done();
  },
);

const resumeTask = onTask(
  (state) => state === "paused",
  async ({ agent }, { taskId }) => {
    await agent.schedules.resume(taskId);
    return done();
  },
);

const skipNext = onTask(
  (state) => state === "active",
  async ({ agent }, { taskId }) =>
    (await agent.schedules.skipNext(taskId)) === null ? UNCHANGED : done(),
);

const triggerTask: ItemVerb<TaskAction> = {
  ...task,
  look: async ({ agent }, { taskId }) =>
    (await agent.schedules.inspect(taskId)) ? done() : NOT_FOUND,
  async act(operated, action, { auditId }) {
    const { agent } = operated;
    const found = await triggerTask.look(operated, action);
    if (found.outcome === "not-found") return found;
    const run = await agent.schedules.trigger(action.taskId, { key: `operator-${auditId}` });
    return run.status === "skipped" ? UNCHANGED : done();
  },
};

const backfill: ItemVerb<Of<"backfill">> = {
  ...task,
  async look({ agent, capabilities }, { taskId, from, to }) {
    if (!(await agent.schedules.inspect(taskId))) return NOT_FOUND;
    const scheduler = capabilities.features.get("schedules", "backfill") as Scheduler;
    const count = await scheduler.countBackfill(taskId, { from, to });
    return count > 0 ? done(count) : UNCHANGED;
  },
  async act({ agent }, { taskId, from, to }) {
    if (!(await agent.schedules.inspect(taskId))) return NOT_FOUND;
    const { queued } = await agent.schedules.backfill(taskId, { from, to });
    return queued > 0 ? done(queued) : UNCHANGED;
  },
};

/** By the name of the action. */
export const TASK_VERBS = {
  "pause-task": pauseTask,
  "resume-task": resumeTask,
  "skip-next": skipNext,
  "trigger-task": triggerTask,
  backfill,
};
