/** Tools of the app, the same on every host. */

import { type ToolSet, tool } from "ai";
import { durableTool, safeToRepeat } from "perdure/agent";
import { z } from "zod";
import { findHold } from "./hold.ts";
import { charges, shipments } from "./receivers.ts";

const account = z.object({ account: z.string() });
/** `hold` is the id of a hold at which the call waits after its effect. */
const heldAccount = account.extend({ hold: z.string().optional() });

/** A value that JSON cannot hold: a bigint, and itself. */
function makeUnstorable(): object {
  const value: { grams: bigint; self?: object } = { grams: 7n };
  value.self = value;
  return value;
}

export function makeTools(): ToolSet {
  return {
    charge: tool({
      description: "Charges an account.",
      inputSchema: heldAccount,
      execute: async ({ account, hold }, { toolCallId, abortSignal }) => {
        charges.receive(account, toolCallId);
        await findHold(hold)?.pass(abortSignal);
        return `Charged ${account}`;
      },
    }),
    lookUp: safeToRepeat(
      tool({
        description: "Reads an account.",
        inputSchema: heldAccount,
        execute: async ({ account, hold }, { toolCallId, abortSignal }) => {
          charges.receive(account, toolCallId);
          await findHold(hold)?.pass(abortSignal);
          return `Read ${account}`;
        },
      }),
    ),
    ship: durableTool({
      name: "ship",
      description: "Ships an order in three steps. `hold` stops the second one.",
      inputSchema: heldAccount,
      async execute({ account, hold }, { step, abortSignal }) {
        for (const name of ["reserve", "pay", "notify"])
          await step.do(name, async ({ idempotencyKey }) => {
            shipments.receive(account, `${name} ${idempotencyKey}`);
            if (name === "pay") await findHold(hold)?.pass(abortSignal);
          });
        return `Shipped ${account}`;
      },
    }),
    weigh: tool({
      description: "Returns a value that cannot be stored.",
      inputSchema: z.object({}),
      execute: makeUnstorable,
    }),
    measure: durableTool({
      name: "measure",
      description: "Returns a value that cannot be stored, as a durable tool.",
      inputSchema: z.object({}),
      execute: makeUnstorable,
    }),
  };
}
