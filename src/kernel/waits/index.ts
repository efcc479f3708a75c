/** What other modules use of the waits. */

export { isOfEndedRun } from "./closings.ts";
export { InvalidApprovalError, InvalidWaitError, MOST_BYTES } from "./errors.ts";
export { Approvals, approvalRequest, checkPayload, STATUS_OF } from "./kinds/approval.ts";
export type * from "./kinds/approval-types.ts";
export type { BATCH_TIMEOUT } from "./kinds/batch.ts";
export { NOT_FOUND, PromptKind } from "./kinds/prompt.ts";
export type * from "./kinds.generated.ts";
export { KINDS } from "./kinds.generated.ts";
export { openWaits } from "./open-work.ts";
export type * from "./protocol.ts";
export { hasOpenWait, type StepRow, stepsWithPrefix } from "./steps.ts";
export { GRACE_MS, Waits } from "./waits.ts";
