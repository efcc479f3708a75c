/** What a Think agent offers about the approvals that its workflows wait for. */

import type {
  Approval,
  ApprovalDecisionResult,
  GrantApprovalOptions,
  ListApprovalsOptions,
  RejectApprovalOptions,
} from "../../waits/index.ts";
import { CAPABILITIES } from "./think-rooms.ts";
import { ThinkSubmissions } from "./think-submissions.ts";

export class ThinkApprovals<
  Env extends Cloudflare.Env = Cloudflare.Env,
  State = unknown,
  Props extends Record<string, unknown> = Record<string, unknown>,
> extends ThinkSubmissions<Env, State, Props> {
  /**
   * What `step.approval()` of this agent's workflows asks, newest first; by default what is pending.
   *
   * @throws InvalidApprovalError for what cannot be asked by
   */
  listApprovals(options?: ListApprovalsOptions): Promise<Approval[]> {
    return this[CAPABILITIES].approvals.list(options);
  }

  /** One approval, or null for an unknown id. A decided one is kept for 30 days. */
  inspectApproval(approvalId: string): Promise<Approval | null> {
    return this[CAPABILITIES].approvals.inspect(approvalId);
  }

  /**
   * Approves, durably, and tells the workflow (O1). The first decision counts: any other says `already_decided` and
   * changes nothing (W3). Who may decide is for the app to check. Where the workflow's schema refuses the payload later, the
   * approval becomes `refused`, and another one with a `refusal` asks again: `onApproval()` is called for both.
   *
   * @throws InvalidApprovalError for a payload that does not match the approval's schema: nothing is stored then, and
   *   it stays pending (W4). Over RPC an error keeps its `name` and fields, not its class
   */
  grantApproval(
    approvalId: string,
    options?: GrantApprovalOptions,
  ): Promise<ApprovalDecisionResult> {
    return this[CAPABILITIES].approvals.grant(approvalId, options);
  }

  /** Rejects, durably, and tells the workflow: as {@link grantApproval}, without a payload (O1, W3). */
  rejectApproval(
    approvalId: string,
    options?: RejectApprovalOptions,
  ): Promise<ApprovalDecisionResult> {
    return this[CAPABILITIES].approvals.reject(approvalId, options);
  }
}
