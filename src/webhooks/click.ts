/** Clicks on the buttons of approvals, which Slack and Discord have in common. */

import type { Json } from "../core/json.ts";
import type { ApprovalDecisionResult } from "../waits/index.ts";
import type { ApprovalClick, InboundDelivery } from "./delivery.ts";
import { type AgentCalls, invalid } from "./preset.ts";

/** The approval of a button, as `onApproval()` and `listApprovals()` have it. */
export type ButtonApproval = { readonly approvalId: string; readonly title: string | null };

export type ButtonOptions = {
  /** The name of the agent that has the approval: `delivery.click.agent` of the click. */
  readonly agent: string;
};

export type ClickOptions<Body> = {
  /**
   * Whether the person who clicked may decide. Where it is set, a click that it allows grants or rejects the approval, in
   * place of `handle`. Without it, `handle` gets the click in `delivery.click`.
   */
  mayDecide?(click: ApprovalClick, delivery: InboundDelivery<Body>): boolean | Promise<boolean>;
};

export const BUTTONS = [
  { decision: "grant", label: "Approve" },
  { decision: "reject", label: "Reject" },
] as const;

/** @throws InvalidOptionError for a button that the sender would refuse */
export function checkButton(agent: string, text: string, maxLength: number): string {
  if (text.length <= maxLength) return text;
  throw invalid("agent", agent, `a shorter name: a button may have ${maxLength} characters`);
}

/** The outcome of a click as one sentence. Only an approval that is decided is shown to all who see the message. */
export type ShowOutcome = (
  delivery: InboundDelivery,
  text: string,
  isDecided: boolean,
) => Response | Promise<Response>;

/** Decides the approval if the person may. Undefined where the app handles clicks. */
export function handleClick<Body>(
  delivery: InboundDelivery,
  agent: AgentCalls,
  options: ClickOptions<Body>,
  show: ShowOutcome,
): Promise<Response> | undefined {
  const { click } = delivery;
  return click && options.mayDecide
    ? // The body is what the schema has made.
      decide({ ...delivery, click }, agent, options as unknown as ClickOptions<Json>, show)
    : undefined;
}

async function decide(
  delivery: InboundDelivery & { readonly click: ApprovalClick },
  agent: AgentCalls,
  options: ClickOptions<Json>,
  show: ShowOutcome,
): Promise<Response> {
  const { approvalId, decision, by } = delivery.click;
  if (!(await options.mayDecide?.(delivery.click, delivery)))
    return show(delivery, "You may not decide this approval.", false);
  const result = await agent[`${decision}Approval`]?.(approvalId, { by });
  const decided = result as ApprovalDecisionResult;
  if (decided.outcome === "not_found")
    return show(delivery, "This approval does not exist any more.", false);
  const { status, by: person = "the app" } = decided.approval;
  return show(delivery, `This approval is ${status}, by ${person}.`, true);
}
