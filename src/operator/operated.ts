/** The agent as its operator's verbs see it. */

import type { Json } from "../core/json.ts";
import type { Inbound } from "../inbound/index.ts";
import type { Kernel } from "../kernel/index.ts";
import type { Outbox } from "../kernel/outbox/index.ts";
import type { Submissions } from "../kernel/submissions/internal.ts";
import type { Approvals } from "../kernel/waits/index.ts";
import type { Scheduler } from "../scheduler/index.ts";
import type { Operations } from "./operations.ts";

type Workflows = Kernel["workflows"];

/** The methods of an agent's class that operators call. The app may override each of them. */
export type OperatedVerbs = {
  readonly outbox: Outbox;
  cancelSubmission: Submissions["cancel"];
  retrySubmission: Submissions["retry"];
  inspectSubmission: Submissions["inspect"];
  listSubmissions: Submissions["list"];
  threadMessages: Kernel["threads"]["messages"];
  clearThread(thread: string): Promise<void>;
  listApprovals: Approvals["list"];
  inspectApproval: Approvals["inspect"];
  grantApproval: Approvals["grant"];
  rejectApproval: Approvals["reject"];
  listScheduledTasks: Scheduler["list"];
  inspectScheduledTask: Scheduler["inspect"];
  listScheduledRuns: Scheduler["runs"];
  pauseScheduledTask: Scheduler["pause"];
  resumeScheduledTask: Scheduler["resume"];
  triggerScheduledTask: Scheduler["trigger"];
  backfillScheduledTask: Scheduler["backfill"];
  skipNextScheduledRun: Scheduler["skipNext"];
  listDeliveries: Outbox["listDeliveries"];
  inspectDelivery: Outbox["inspect"];
  readDelivery(id: string): Promise<Json>;
  listDeadLetters: Outbox["listDeadLetters"];
  countDeadLetters: Outbox["countDeadLetters"];
  redriveDeadLetter: Outbox["redrive"];
  deleteDeadLetter: Outbox["deleteDeadLetter"];
  listEndpoints: Outbox["listEndpoints"];
  inspectEndpoint: Outbox["inspectEndpoint"];
  enableEndpoint: Outbox["enableEndpoint"];
  disableEndpoint: Outbox["disableEndpoint"];
  terminateWorkflow: Workflows["terminate"];
  listInboundDeliveries: Inbound["list"];
  inspectInboundDelivery: Inbound["inspect"];
  replayInboundDelivery: Inbound["replay"];
  healthReport: Operations["healthReport"];
  operate: Operations["operate"];
  listOperatorActions: Operations["listActions"];
  listThreads: Operations["listThreads"];
  listThreadMessages: Operations["listThreadMessages"];
  listWorkflowInstances: Operations["listWorkflows"];
  inspectWorkflowInstance: Operations["inspectWorkflow"];
  traceSubmission: Operations["traceSubmission"];
};

export type OperatedAgent = Pick<Kernel, "storage" | "env" | "clock"> & {
  readonly agent: OperatedVerbs;
  /** The members of the SDK's class. */
  readonly host: Kernel["agent"];
  readonly capabilities: Kernel;
};

export function operatedOf(kernel: Kernel): OperatedAgent {
  const { storage, env, clock, agent: host, verbs } = kernel;
  return { storage, env, clock, host, agent: verbs as OperatedVerbs, capabilities: kernel };
}
