/** Run code that calls the agent's connectors. It pauses for approvals, and is rolled back if the workflow fails later. */

import type { AgentWorkflowEvent } from "agents/workflows";
import { runCode } from "perdure/codemode";
import { ThinkWorkflow, type ThinkWorkflowStep } from "perdure/workflow";
import { z } from "zod";
import type { Desk } from "../agents.ts";

export class CodemodeExample extends ThinkWorkflow<Desk, { city: string }> {
  override async run(event: AgentWorkflowEvent<{ city: string }>, step: ThinkWorkflowStep) {
    const city = JSON.stringify(event.payload.city);
    const { output } = await runCode(step, "book", {
      code: `async () => {
        const rooms = await hotel.search({ city: ${city} });
        return hotel.book({ room: rooms[0].id });
      }`,
      output: z.object({ booking: z.string() }),
      timeout: "1 day",
      rollback: true,
    });
    return output;
  }
}
