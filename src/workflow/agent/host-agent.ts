/** The members of an object that the modules use, with those that are protected in the type of `Agent`. */

import type { Agent } from "agents";

export type HostAgent = Pick<
  Agent,
  | "name"
  | "selfPath"
  | "parentPath"
  | "runWorkflow"
  | "terminateWorkflow"
  | "pauseWorkflow"
  | "resumeWorkflow"
  | "restartWorkflow"
  | "getWorkflow"
  | "getWorkflows"
  | "getWorkflowStatus"
> &
  Partial<Pick<Agent, "getMcpServers" | "mcp">> & {
    env: object;
    readonly ctx: DurableObjectState;
    /** The binding that leads to the object, for a host that finds it by the object's id. The SDK finds it by the name of the class. */
    ownBinding?(): string | undefined;
  };
