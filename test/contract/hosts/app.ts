/** Tools, tasks and a notified method that the hosts of these tests share, with what tests read of them. */

import { type ToolSet, tool } from "ai";
import { z } from "zod";
import { durableTool } from "../../../src/hosts/sdk/durable-tool.ts";
import type { Delivery } from "../../../src/kernel/outbox/index.ts";
import type { SubmissionEvent } from "../../../src/kernel/submissions/internal.ts";
import { defineScheduledTasks } from "../../../src/scheduler/define.ts";

/** How often an account was charged, over all objects and restarts. */
export const charges = new Map<string, number>();
/** The steps of the durable tool that have run, with the idempotency key of each, by the account. */
export const steps = new Map<string, string[]>();
/** How long each of them takes, in milliseconds. */
const STEP_MS = 30;
/** The deliveries that `hear()` got, by the id of their submission. */
export const heard = new Map<string, string[]>();
/** How often the task has run, by the object's name. */
export const taskRuns = new Map<string, string[]>();

export function contractTools(): ToolSet {
  return {
    charge: tool({
      description: "Charges an account.",
      inputSchema: z.object({ account: z.string() }),
      execute: async ({ account }) => {
        charges.set(account, (charges.get(account) ?? 0) + 1);
        return `Charged ${account}`;
      },
    }),
    ship: durableTool({
      name: "ship",
      description: "Ships what an account has ordered.",
      inputSchema: z.object({ account: z.string() }),
      async execute({ account }, { step }) {
        for (const name of ["reserve", "pay", "notify"])
          await step.do(name, async ({ idempotencyKey }) => {
            steps.set(account, [...(steps.get(account) ?? []), `${name} ${idempotencyKey}`]);
            await new Promise((resolve) => setTimeout(resolve, STEP_MS));
          });
        return `Shipped ${account}`;
      },
    }),
  };
}

/** Called by the outbox, as the method `hear()` of the object. */
export function hear({ id, event }: Delivery): void {
  const { submissionId } = (event as SubmissionEvent).data;
  heard.set(submissionId, [...(heard.get(submissionId) ?? []), id]);
}

/** The tasks of the object with this name. */
export function contractTasks(name: () => string) {
  return defineScheduledTasks({
    ask: { schedule: "every day at 09:00 in Europe/Paris", prompt: "Write the digest." },
    note: {
      schedule: "every monday at 09:00 in Europe/Paris",
      handler: ({ idempotencyKey }) => {
        taskRuns.set(name(), [...(taskRuns.get(name()) ?? []), idempotencyKey]);
      },
    },
  });
}
