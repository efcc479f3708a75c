/** Clicks on the buttons of approvals, which Slack and Discord have in common. */

import type { Json } from "../../../core/json.ts";
import type { ApprovalDecisionResult } from "../../../workflow/waits/kinds/approval-types.ts";
import type { AgentCalls, ApprovalClick, Arrival } from "./arrival.ts";
import { invalid } from "./invalid-option.ts";

/** The approval of a button, as `onApproval()` and `approvals.list()` have it. */
export type ButtonApproval = { readonly approvalId: string; readonly title: string | null };

export type ButtonOptions = {
  /** The name of the agent that has the approval: `arrival.click.agent` of the click. */
  readonly agent: string;
};

/** Whether the person who clicked may decide. Anything but true is no. */
export type MayDecide<Body> = (click: ApprovalClick, body: Body) => boolean | Promise<boolean>;

/** A click on an approval's button. */
type Clicked = {
  readonly click: ApprovalClick;
  /** Grants or rejects the approval if the person may, and answers the sender. */
  decide(agent: AgentCalls, arrival: Pick<Arrival, "source" | "id">): Promise<Response>;
};

/** Finds the click in a body: what `slackApprovals()` and `discordApprovals()` return. Undefined for other bodies. */
export type ApprovalClicks = (body: Json) => Clicked | undefined;

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

/** Characters of who has clicked, as an approval has it. */
const MAX_BY = 200;

/** The value of a button that was clicked, and the person who clicked. */
type Button = {
  readonly source: "slack" | "discord";
  readonly user:
    | { readonly id: string; readonly username?: string; readonly name?: string }
    | undefined;
  readonly value: string | undefined;
};

/** Undefined for other buttons than those of approvals. */
function clickOf({ source, user, value }: Button): ApprovalClick | undefined {
  const [, decision, approvalId, agent] =
    value?.match(/^perdure:(grant|reject):([^:]+):(.*)/s) ?? [];
  if (!approvalId || !user) return undefined;
  const by = `${source}:${user.id} (${user.username ?? user.name})`.slice(0, MAX_BY).toWellFormed();
  return { approvalId, decision: decision as "grant", agent, by };
}

/**
 * @param buttonOf the button that a body is the click on
 * @param show answers with the outcome, one sentence. Only an approval that is decided is shown to all who see the message
 */
export function approvalClicks<Body>(
  mayDecide: MayDecide<Body>,
  buttonOf: (body: Body) => Button,
  show: (
    body: Body,
    text: string,
    isDecided: boolean,
    arrival: Pick<Arrival, "source" | "id">,
  ) => Response | Promise<Response>,
): ApprovalClicks {
  if (typeof mayDecide !== "function") throw invalid("mayDecide", mayDecide, "a function");
  return (given) => {
    const body = given as Body;
    const click = clickOf(buttonOf(body));
    if (!click) return undefined;
    return {
      click,
      async decide(agent, arrival) {
        if ((await mayDecide(click, body)) !== true)
          return show(body, "You may not decide this approval.", false, arrival);
        const { approval, problem } = await decided(click, agent);
        if (!approval) return show(body, problem, false, arrival);
        const text = `This approval is ${approval.status}, by ${approval.by ?? "the app"}.`;
        return show(body, text, true, arrival);
      },
    };
  };
}

async function decided({ approvalId, decision, by }: ApprovalClick, agent: AgentCalls) {
  try {
    const result = await agent.callKernel?.(`approvals.${decision}`, approvalId, { by });
    const { approval } = result as Partial<Extract<ApprovalDecisionResult, { approval: unknown }>>;
    return { approval, problem: "This approval does not exist any more." };
  } catch (error) {
    if ((error as Error).name !== "InvalidApprovalError") throw error;
    return { problem: "This approval needs more than a click: its step has a schema." };
  }
}
