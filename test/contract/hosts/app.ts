/** What the app of every host under the contract has: a scripted model, a tool with an effect, and what tests read of it. */

import { type ToolSet, tool } from "ai";
import { z } from "zod";

/** How often an account was charged, over all objects and restarts. */
export const charges = new Map<string, number>();

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
  };
}
