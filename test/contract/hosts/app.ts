/** Tools and tasks that the hosts of these tests share, with the calls that tests count. */

import { type ToolSet, tool } from "ai";
import { z } from "zod";
import { durableTool } from "../../../src/hosts/sdk/durable-tool.ts";
import { defineScheduledTasks } from "../../../src/scheduler/define.ts";

/** How often an account was charged, over all objects and restarts. */
export const charges = new Map<string, number>();
/** The steps of the durable tool that have run, with the idempotency key of each, by the account. */
const steps = new Map<string, string[]>();
/** How long each of them takes, in milliseconds. */
const STEP_MS = 30;

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

export function contractTasks() {
  return defineScheduledTasks({
    ask: { schedule: "every day at 09:00 in Europe/Paris", prompt: "Write the digest." },
    note: { schedule: "every monday at 09:00 in Europe/Paris", handler: () => {} },
  });
}
