/** Sleep until the next occurrence of a schedule. */

import type { AgentWorkflowEvent } from "agents/workflows";
import { sleepUntilNext } from "perdure/scheduler";
import { ThinkWorkflow, type ThinkWorkflowStep } from "perdure/workflow";
import type { Desk } from "../agents.ts";

export class SleepUntilNextExample extends ThinkWorkflow<Desk> {
  override async run(_event: AgentWorkflowEvent<unknown>, step: ThinkWorkflowStep) {
    const woken = await sleepUntilNext(step, "a minute", "every 1 minute");
    return { woken: woken && new Date(woken).toISOString() };
  }
}
