/** Clicks on the buttons of approvals, which Slack and Discord have in common. */

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

const DECISIONS = [
  { decision: "grant", label: "Approve" },
  { decision: "reject", label: "Reject" },
] as const;

/**
 * The two buttons of an approval, each with what a click on it brings back.
 *
 * @throws InvalidOptionError for a button that the sender would refuse
 */
export function buttonsOf(approvalId: string, agent: string, maxLength: number) {
  return DECISIONS.map(({ decision, label }) => {
    const value = `perdure:${decision}:${approvalId}:${agent}`;
    if (value.length > maxLength) {
      const expected = `a shorter name: a button may have ${maxLength} characters`;
      throw invalid("agent", agent, expected);
    }
    return { decision, label, value };
  });
}

/** The person, as Slack and Discord have it. */
type User = { readonly id: string; readonly username?: string; readonly name?: string };

/** The click on a button of an approval, by what the button has brought back. Undefined for other buttons. */
export function clickOf(
  source: "slack" | "discord",
  user: User | undefined,
  value: string | undefined,
): ApprovalClick | undefined {
  const [, decision, approvalId, agent] =
    value?.match(/^perdure:(grant|reject):([^:]+):(.*)/s) ?? [];
  if (!approvalId || !user) return undefined;
  const by = `${source}:${user.id} (${user.username ?? user.name})`;
  return { approvalId, decision: decision as "grant", agent, by };
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
  { mayDecide }: ClickOptions<Body>,
  show: ShowOutcome,
): Promise<Response> | undefined {
  const { click } = delivery;
  if (!click || !mayDecide) return undefined;
  const decide = async () => {
    // The body is what the schema has made.
    if (!(await mayDecide(click, delivery as InboundDelivery<never>)))
      return show(delivery, "You may not decide this approval.", false);
    const { approvalId, decision, by } = click;
    const result = await agent[`${decision}Approval`]?.(approvalId, { by });
    const { approval } = result as Partial<Extract<ApprovalDecisionResult, { approval: unknown }>>;
    if (!approval) return show(delivery, "This approval does not exist any more.", false);
    return show(
      delivery,
      `This approval is ${approval.status}, by ${approval.by ?? "the app"}.`,
      true,
    );
  };
  return decide();
}
