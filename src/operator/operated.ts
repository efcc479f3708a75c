/** The agent as its operator's verbs see it. */

import type { AgentVerbs } from "../hosts/verbs.ts";
import type { Kernel } from "../kernel/kernel.ts";

export type OperatedAgent = Pick<Kernel, "storage" | "env" | "clock"> & {
  /** Its verbs, with those that the app overrides. */
  readonly agent: AgentVerbs;
  /** The members of the SDK's class. */
  readonly host: Kernel["agent"];
  readonly capabilities: Kernel;
};

export function operatedOf(kernel: Kernel): OperatedAgent {
  const { storage, env, clock, agent: host, verbs } = kernel;
  return { storage, env, clock, host, agent: verbs as AgentVerbs, capabilities: kernel };
}
