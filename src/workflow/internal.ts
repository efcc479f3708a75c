/** What other modules of Perdure use besides `index.ts`. Not for users. */

export { type OriginParams, objectAt, type WorkflowOrigin } from "./durable-workflow.ts";
export { KEY, outputOf, readStep, TIMEOUT } from "./options.ts";
export {
  AGENT_CALL,
  callOf,
  durably,
  isRefusal,
  type StepAgent,
  type StepCall,
  useName,
} from "./step-call.ts";
export { isOrigin } from "./think-workflow.ts";
export { CHANGES } from "./version.ts";
export { type PassedWait, passWait } from "./wait.ts";
