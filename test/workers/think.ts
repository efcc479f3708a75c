/** The worker of the tests that need Think: all that the other one has, and agents of Think. */

import { crashable } from "../../src/testing/index.ts";
import { ToolParent as Parent } from "../support/agent-tool-agents.ts";
import { CodemodeAgent as Codemode } from "../support/codemode-agent.ts";
import { ThinkAgent as Think } from "../support/think-agent.ts";
import { ToolAgent as Tools } from "../support/tool-agent.ts";

export { CodemodeRuntime } from "@cloudflare/codemode";
export {
  PeerBuiltInWorkflow,
  PeerDurable,
  PeerPerdureWorkflow,
  PeerThink,
} from "../peers/app.ts";
export { ImpatientToolParent, ToolChild } from "../support/agent-tool-agents.ts";
export { AgentToolWorkflow } from "../support/agent-tool-workflow.ts";
export { ApprovalWorkflow } from "../support/approval-workflow.ts";
export { BuiltInAgent, BuiltInWorkflow } from "../support/built-in.ts";
export { CodemodeWorkflow } from "../support/codemode-workflow.ts";
export { MovedAgent, MovedWorkflow } from "../support/moved.ts";
export { PlotWorkflow } from "../support/plot-workflow.ts";
export { PromptAllWorkflow } from "../support/prompt-all-workflow.ts";
export { Till } from "../support/tool-agent.ts";
export * from "./modules.ts";
export { default } from "./modules.ts";

// For scenarios that crash them at every write.
export const CodemodeAgent = crashable(Codemode);
export const ThinkAgent = crashable(Think);
export const ToolAgent = crashable(Tools);
export const ToolParent = crashable(Parent);
