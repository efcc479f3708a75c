/** The worker of the tests that need Think: all that the other one has, and agents of Think. */

import { crashable } from "../../src/testing/index.ts";
import { CodemodeAgent as Codemode } from "../features/codemode/steps/codemode-agent.ts";
import { ToolAgent as Tools } from "../hosts/think/turns/tool-agent.ts";
import { ThinkAgent as Think } from "../support/think-agent.ts";
import { ToolParent as Parent } from "../support/workflows/agent-tool-agents.ts";

export { CodemodeRuntime } from "@cloudflare/codemode";
export { CodemodeWorkflow } from "../features/codemode/steps/codemode-workflow.ts";
export { DeployedAgent, DeployedObject, DeployedWorkflow } from "../features/deploy/deployed.ts";
export { BuiltInAgent, BuiltInWorkflow } from "../hosts/think/built-in.ts";
export { DeliveryAgent } from "../hosts/think/delivery-agent.ts";
export { MovedAgent, MovedWorkflow } from "../hosts/think/moved/moved-app.ts";
export { Till } from "../hosts/think/turns/tool-agent.ts";
export {
  PeerBuiltInWorkflow,
  PeerDurable,
  PeerPerdureWorkflow,
  PeerThink,
} from "../peers/app.ts";
export { ImpatientToolParent, ToolChild } from "../support/workflows/agent-tool-agents.ts";
export { AgentToolWorkflow } from "../support/workflows/agent-tool-workflow.ts";
export { ApprovalWorkflow } from "../support/workflows/approval-workflow.ts";
export { PromptAllWorkflow } from "../support/workflows/prompt-all-workflow.ts";
export { ScriptedWorkflow } from "../support/workflows/scripted-workflow.ts";
export * from "./modules.ts";
export { default } from "./modules.ts";

// For scenarios that crash them at every write.
export const CodemodeAgent = crashable(Codemode);
export const ThinkAgent = crashable(Think);
export const ToolAgent = crashable(Tools);
export const ToolParent = crashable(Parent);
