/** Buttons of approvals in Slack. On their own, because a receiver without them does not load this. */

import type { Json } from "../../../../core/json.ts";
import type { Arrival } from "../arrival.ts";
import {
  type ApprovalClicks,
  approvalClicks,
  type ButtonApproval,
  type ButtonOptions,
  buttonsOf,
  type MayDecide,
} from "../click.ts";
import type { SlackBody } from "./slack.ts";

/** Of a button's value, and of a section's text. https://docs.slack.dev/reference/block-kit */
const MAX_VALUE = 2_000;
const MAX_TEXT = 3_000;

/**
 * The blocks of a Slack message that asks for an approval: its title and two buttons. Put them into a message with a
 * `text`, which remains when it is decided. Clicks arrive at the receiver of `slack()`.
 *
 * A button gives no payload: for an approval with a `schema`, use a form of your own.
 *
 * @throws InvalidOptionError for a name of an agent that is too long
 */
export function approvalBlocks(
  { approvalId, title }: ButtonApproval,
  { agent }: ButtonOptions,
): Json[] {
  const plain = (text: string) => ({ type: "plain_text", text });
  const elements = buttonsOf(approvalId, agent, MAX_VALUE).map(({ decision, label, value }) => ({
    type: "button",
    action_id: `perdure:${decision}`,
    style: decision === "grant" ? "primary" : "danger",
    text: plain(label),
    value,
  }));
  const text = (title || "An approval is needed.").slice(0, MAX_TEXT).toWellFormed();
  return [
    { type: "section", text: plain(text) },
    { type: "actions", elements },
  ];
}

/**
 * Decides approvals by clicks on the buttons of `approvalBlocks()`: the option `approvals` of `slack()`. Clicks are decided
 * whatever the option `events` says.
 *
 *     slack({ secret, agent, approvals: slackApprovals((_click, { user }) => user?.id === "U0ADA") })
 *
 * @param mayDecide gets the click, and the body as Slack has sent it
 * @throws InvalidOptionError
 */
export function slackApprovals(mayDecide: MayDecide<SlackBody>): ApprovalClicks {
  const buttonOf = ({ actions, user }: SlackBody) =>
    ({ source: "slack", user, value: actions?.[0]?.value }) as const;
  return approvalClicks(mayDecide, buttonOf, show);
}

/** Slack ignores the answer to a click: the outcome goes to its URL, which is tried once, for less than Slack waits. */
async function show(
  { response_url, message }: SlackBody,
  text: string,
  isDecided: boolean,
  { source, id }: Pick<Arrival, "source" | "id">,
): Promise<Response> {
  const outcome = {
    response_type: "ephemeral",
    replace_original: isDecided,
    text: isDecided && message?.text ? `${message.text}\n${text}` : text,
  };
  const request = {
    method: "POST",
    body: JSON.stringify(outcome),
    signal: AbortSignal.timeout(1_500),
  };
  try {
    // Who has a request of Slack must not make this Worker post elsewhere.
    if (!response_url?.startsWith("https://hooks.slack.com/")) throw "no URL of Slack";
    const { ok, status } = await fetch(response_url, request);
    if (!ok) throw status;
  } catch (error) {
    // The decision is stored nevertheless.
    console.warn(
      JSON.stringify({ perdure: "webhook:unanswered-click", source, id, reason: String(error) }),
    );
  }
  return Response.json(outcome);
}
