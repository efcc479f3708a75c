/** The actions of operators on one scheduled task. */

import type { OnOne } from "../../engine/operated/catalog.ts";
import { done, NOT_FOUND, UNCHANGED } from "../../engine/operated/effect.ts";
import type { ItemVerb } from "../../engine/operated/part.ts";
import type { Kernel } from "../../workflow/agent/kernel.ts";
import type { Scheduler } from "../scheduler.ts";
import type { ACTIONS } from "./catalog.ts";

/** The agent as these actions see it. */
export type Operated = {
  readonly agent: {
    readonly schedules: Pick<
      Scheduler,
      "inspect" | "pause" | "resume" | "trigger" | "backfill" | "skipNext" | "remove"
    >;
  };
  readonly capabilities: Pick<Kernel, "features">;
};

type Verb<Name extends keyof typeof ACTIONS> = ItemVerb<Operated, OnOne<typeof ACTIONS, Name>>;
type OnTask = ItemVerb<Operated, { readonly taskId: string }>;

/** An action that depends on the state of its task. The verb throws for an invalid one. */
function onTask(wouldDo: (state: string) => boolean, act: OnTask["act"]): OnTask {
  return {
    async look({ agent }, { taskId }) {
      const found = await agent.schedules.inspect(taskId);
      if (!found) return NOT_FOUND;
      return found.state === "invalid" || wouldDo(found.state) ? done() : UNCHANGED;
    },
    act,
    after: ({ agent }, { taskId }) => agent.schedules.inspect(taskId),
  };
}

const backfill: Verb<"backfill"> = {
  async look({ agent, capabilities }, { taskId, from, to }) {
    if (!(await agent.schedules.inspect(taskId))) return NOT_FOUND;
    const scheduler = capabilities.features.get("schedules", "backfill") as Scheduler;
    const count = await scheduler.countBackfill(taskId, { from, to });
    return count > 0 ? done(count) : UNCHANGED;
  },
  async act({ agent }, { taskId, from, to }) {
    const { queued } = await agent.schedules.backfill(taskId, { from, to });
    return queued > 0 && done(queued);
  },
  after: ({ agent }, { taskId }) => agent.schedules.inspect(taskId),
};

const remove: Verb<"remove-task"> = {
  async look({ agent, capabilities }, { taskId }) {
    const scheduler = capabilities.features.get("schedules", "remove-task") as Scheduler;
    const { omitted } = await scheduler.facts(Date.now());
    if (omitted.some((task) => task.taskId === taskId)) return done();
    // The verb throws for a task that is declared.
    return (await agent.schedules.inspect(taskId)) ? done() : NOT_FOUND;
  },
  act: ({ agent }, { taskId }) => agent.schedules.remove(taskId),
};

export const VERBS: { [Name in keyof typeof ACTIONS]: Verb<Name> } = {
  "pause-task": onTask(
    (state) => state !== "paused",
    async ({ agent }, { taskId }, { reason }) => {
      await agent.schedules.pause(taskId, reason);
      return true;
    },
  ),
  "resume-task": onTask(
    (state) => state === "paused",
    async ({ agent }, { taskId }) => {
      await agent.schedules.resume(taskId);
      return true;
    },
  ),
  "skip-next": onTask(
    (state) => state === "active",
    async ({ agent }, { taskId }) => (await agent.schedules.skipNext(taskId)) !== null,
  ),
  "trigger-task": onTask(
    () => true,
    async ({ agent }, { taskId }, { auditId }) => {
      const run = await agent.schedules.trigger(taskId, { key: `operator-${auditId}` });
      return run.status !== "skipped";
    },
  ),
  "remove-task": remove,
  backfill,
};
