/** The agent as its operator's verbs see it. */

import type { Inbound } from "../inbound/index.ts";
import type { Kernel, VerbOf } from "../kernel/index.ts";
import type { Outbox } from "../kernel/outbox/index.ts";
import type { Submissions } from "../kernel/submissions/internal.ts";
import type { Approvals } from "../kernel/waits/index.ts";
import type { Scheduler } from "../scheduler/index.ts";
import type { Operations } from "./operations.ts";

type Workflows = Kernel["workflows"];

/** What an agent's class has that operators use. The app may override each of them. */
export type OperatedVerbs = Operated & {
  cancelSubmission: Submissions["cancel"];
  retrySubmission: Submissions["retry"];
  inspectSubmission: Submissions["inspect"];
  listSubmissions: Submissions["list"];
  threadMessages: Kernel["threads"]["messages"];
  clearThread(thread: string): Promise<void>;
  terminateWorkflow: Workflows["terminate"];
};

/** The capabilities of an agent. */
export type Operated = {
  readonly outbox: Pick<Outbox, VerbOf<"outbox">>;
  readonly approvals: Pick<Approvals, VerbOf<"approvals">>;
  readonly schedules: Pick<Scheduler, VerbOf<"schedules">>;
  readonly inbound: Pick<Inbound, VerbOf<"inbound">>;
  readonly operations: Pick<Operations, VerbOf<"operations">>;
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
