/** The types of `perdure/deploy`, as an app sees them. */

import type { AgentWorkflowEvent } from "agents/workflows";
import { DurableAgent } from "perdure/agent";
import { deployments, UnknownVersionError, type VersionedWorkflow, versions } from "perdure/deploy";
import { ThinkWorkflow, type ThinkWorkflowStep } from "perdure/workflow";

export class Support extends DurableAgent {
  static override readonly features = [deployments({ version: "7" })];
}

class Ticket extends ThinkWorkflow<Support, { id: string }> {
  static readonly version = "7";
  static readonly changes = ["new-tax-rule"];

  override async run(_: AgentWorkflowEvent<{ id: string }>, step: ThinkWorkflowStep) {
    const isNew: boolean = await step.version("new-tax-rule");
    return isNew;
  }
}

export class TicketWorkflow extends versions({ "7": Ticket }) {}

// What the Worker exports is a Workflow with the params of its classes.
const exported: VersionedWorkflow<{ id: string }> = TicketWorkflow;
void exported;

// @ts-expect-error A version that is not among them.
versions({ "7": Ticket }, { unversioned: "6" });
// @ts-expect-error What is no class of a workflow.
versions({ "7": Support });
// @ts-expect-error A version is a text, or made of env.
deployments({ version: 7 });

export const known: readonly string[] = new UnknownVersionError("7", ["8"]).known;
