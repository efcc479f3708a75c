/** The agent as its operator's verbs see it. */

import type { Kernel } from "../workflow/agent/kernel.ts";

/** The verbs of an agent that operators' own code calls. The app may override each of them. A part names those that it calls. */
type OperatedVerbs = {
  threadMessages: Kernel["threads"]["messages"];
  terminateWorkflow: Kernel["workflows"]["terminate"];
  restartWorkflow: Kernel["workflows"]["restart"];
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
