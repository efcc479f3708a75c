/** `perdure/react`: what a page shows of submissions, threads and approvals while they change. */

export type { FollowEvent, ReplyPart } from "../events.ts";
export { type Following, StreamRefusedError } from "./follow.ts";
export {
  type ApprovalState,
  type SubmissionState,
  type ThreadState,
  useApproval,
  useSubmission,
  useThread,
} from "./hooks.ts";
