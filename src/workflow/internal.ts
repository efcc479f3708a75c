/** What other modules of Perdure use besides `index.ts`. Not for users. */

export type { OriginParams, WorkflowOrigin } from "./durable-workflow.ts";
export { keyPrefix } from "./names.ts";
export { KEY, outputOf, readStep, TIMEOUT } from "./options.ts";
export { callOf, type StepCall, useName } from "./step-call.ts";
export { type PassedWait, passWait } from "./wait.ts";
