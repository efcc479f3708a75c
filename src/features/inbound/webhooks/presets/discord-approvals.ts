/** Buttons of approvals in Discord. On their own, because a receiver without them does not load this. */

import type { Json } from "../../../../core/json.ts";
import {
  type ApprovalClicks,
  approvalClicks,
  type ButtonApproval,
  type ButtonOptions,
  buttonsOf,
  type MayDecide,
} from "../click.ts";
import { answer, type DiscordBody, onlyToThem, UPDATE } from "./discord.ts";

/** Of a message's text, and of a button's `custom_id`. */
const MAX_TEXT = 2_000;
const MAX_ID = 100;

/**
 * The components of a Discord message that asks for an approval: two buttons. Put them into a message whose `content` says
 * what is asked. Clicks arrive at the receiver of `discord()`.
 *
 * A button gives no payload: for an approval with a `schema`, use a form of your own.
 *
 * @throws InvalidOptionError for a name of an agent that is too long: Discord's limit leaves 48 characters
 */
export function approvalComponents(
  { approvalId }: Pick<ButtonApproval, "approvalId">,
  { agent }: ButtonOptions,
): Json[] {
  const components = buttonsOf(approvalId, agent, MAX_ID).map(({ decision, label, value }) => ({
    type: 2,
    // Green and red.
    style: decision === "grant" ? 3 : 4,
    label,
    custom_id: value,
  }));
  return [{ type: 1, components }];
}

/**
 * Decides approvals by clicks on the buttons of `approvalComponents()`: the option `approvals` of `discord()`. Clicks are
 * decided whatever the option `events` says.
 *
 *     discord({ publicKey, agent, approvals: discordApprovals((_click, { member }) => member?.roles.includes("1234")) })
 *
 * @param mayDecide gets the click, and the body as Discord has sent it
 * @throws InvalidOptionError
 */
export function discordApprovals(mayDecide: MayDecide<DiscordBody>): ApprovalClicks {
  const buttonOf = ({ data, member, user = member?.user }: DiscordBody) =>
    ({ source: "discord", user, value: data?.custom_id }) as const;
  return approvalClicks(mayDecide, buttonOf, show);
}

/** The text of the message, and below it the outcome in place of the buttons. */
function show({ message }: DiscordBody, text: string, isDecided: boolean): Response {
  // A message of the second version of components has no text.
  if (!isDecided || !message?.content) return onlyToThem(text);
  const content = `${message.content}\n${text}`.slice(-MAX_TEXT);
  return answer(UPDATE, { content, components: [], allowed_mentions: { parse: [] } });
}
