/** Clicks on the buttons of approvals, which Slack and Discord have in common. */

import type { Json } from "../core/json.ts";
import { InvalidOptionError } from "../core/options.ts";
import type { ApprovalDecisionResult } from "../waits/index.ts";
import type { ApprovalClick, InboundDelivery } from "./delivery.ts";
import type { AgentCalls } from "./preset.ts";

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

/** The buttons' ids begin with it. */
const PREFIX = "perdure:";
export const DECISIONS = ["grant", "reject"] as const;
type Decision = ApprovalClick["decision"];

export const LABELS = { grant: "Approve", reject: "Reject" } as const;

export function idOf(decision: Decision): string {
  return PREFIX + decision;
}

/** The decision of a button's id, or undefined for a button of the app. */
export function decisionOf(id: string | undefined): Decision | undefined {
  return DECISIONS.find((decision) => id === idOf(decision));
}

/** @throws InvalidOptionError for a button that the sender would refuse */
export function checkButton(text: string, maxLength: number): void {
  if (text.length <= maxLength) return;
  throw new InvalidOptionError(
    "agent",
    `Invalid agent: its name and the approval's id give a button of ${text.length} characters, expected at most ${maxLength}. Use a shorter name.`,
  );
}

/** Who clicked, e.g. `slack:U123 (ann)`. Names are chosen by people: cut, and well-formed. */
export function personOf(sender: string, id: string, name: string | undefined): string {
  const known = name ? ` (${name.slice(0, 100).toWellFormed()})` : "";
  return `${sender}:${id}${known}`;
}

/** What has become of a click. */
export type ClickResult = {
  /** One sentence for people. */
  readonly text: string;
  /** Whether the message with the buttons is out of date. False: only the person who clicked is told. */
  readonly isDecided: boolean;
};

/**
 * Decides the approval if the person may. Undefined where the app handles clicks.
 *
 * @param options of the preset
 * @param answer shows the result
 */
export function handleClick<Body>(
  delivery: InboundDelivery,
  agent: AgentCalls,
  options: ClickOptions<Body>,
  answer: (delivery: InboundDelivery, result: ClickResult) => Response | Promise<Response>,
): Promise<Response> | undefined {
  const { click } = delivery;
  // The body is what the schema has made.
  const { mayDecide } = options as unknown as ClickOptions<Json>;
  if (!click || !mayDecide) return undefined;
  const result = async () =>
    (await mayDecide.call(options, click, delivery))
      ? decide(click, agent)
      : { text: "You may not decide this approval.", isDecided: false };
  return result().then((known) => answer(delivery, known));
}

async function decide({ approvalId, decision, by }: ApprovalClick, agent: AgentCalls) {
  const result = await agent[`${decision}Approval`]?.(approvalId, { by });
  const decided = result as ApprovalDecisionResult;
  if (decided.outcome === "not_found")
    return { text: "This approval does not exist any more.", isDecided: false };
  const { status, by: earlier } = decided.approval;
  if (decided.outcome === "already_decided") {
    // Without what Slack takes for a mention.
    const person = earlier === undefined ? "" : ` by ${earlier.replace(/[<>&]/g, "")}`;
    return { text: `This approval was already ${status}${person}.`, isDecided: true };
  }
  // Slack and Discord show `<@U123>` as the name of the person.
  const [, id] = by.split(/[: ]/);
  return {
    text: `${decision === "grant" ? "Approved" : "Rejected"} by <@${id}>.`,
    isDecided: true,
  };
}
