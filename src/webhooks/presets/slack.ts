/** Slack: https://docs.slack.dev/authentication/verifying-requests-from-slack */

import { failureOf } from "../../core/failures.ts";
import type { Json } from "../../core/json.ts";
import {
  type ButtonApproval,
  type ButtonOptions,
  type ClickOptions,
  type ClickResult,
  checkButton,
  DECISIONS,
  decisionOf,
  handleClick,
  idOf,
  LABELS,
  personOf,
} from "../click.ts";
import type { ApprovalClick, InboundDelivery } from "../delivery.ts";
import { payloadOf } from "../form.ts";
import {
  aFunction,
  type Endpoint,
  type EndpointOptions,
  endpoint,
  type Incoming,
  type Reply,
  secretName,
} from "../preset.ts";
import { checkHmac, checkTime, concat, type Verified } from "../verify.ts";

export type SlackEvent = {
  /** E.g. `app_mention`, `message` or `reaction_added`. */
  readonly type: string;
  readonly subtype?: string;
  readonly user?: string;
  /** Set on messages of bots, also on those of your app: do not answer them, or your app answers itself. */
  readonly bot_id?: string;
  readonly text?: string;
  /** An id. A few events have an object instead. */
  readonly channel?: string;
  readonly channel_type?: string;
  readonly ts?: string;
  readonly thread_ts?: string;
};

/** An event, an interaction (a click, a shortcut, a form) or a slash command. Pass a `schema` for more. */
export type SlackBody = {
  /** `event_callback` of an event, e.g. `block_actions` of an interaction. A command has none. */
  readonly type?: string;
  readonly team_id?: string;
  // Of an event
  readonly event_id?: string;
  readonly event?: SlackEvent;
  // Of a command
  /** E.g. `/deploy`. */
  readonly command?: string;
  readonly text?: string;
  readonly user_id?: string;
  readonly user_name?: string;
  readonly channel_id?: string;
  // Of an interaction
  readonly user?: { readonly id: string; readonly username?: string; readonly name?: string };
  readonly channel?: { readonly id: string; readonly name?: string };
  readonly actions?: readonly {
    readonly action_id: string;
    readonly block_id?: string;
    readonly value?: string;
  }[];
  readonly callback_id?: string;
  readonly response_url?: string;
  readonly trigger_id?: string;
};

export type SlackOptions<Body, Target> = EndpointOptions<Body, Target> &
  ClickOptions<Body> & {
    /** The name of the secret in env that has the bot's token. Without it, events have no `reply`; clicks and commands do. */
    readonly token?: string;
  };

/**
 * Receives events, clicks and slash commands of Slack at one URL. `secret` names the signing secret.
 *
 * The type of an event is that of the event, e.g. `app_mention`; of a click, a shortcut or a form, that of the
 * interaction, e.g. `block_actions`; of a command, the command, e.g. `/deploy`. The id is the `event_id`, otherwise the
 * hash of the body, which has a `trigger_id` of its own. Deliveries that Slack repeats are found by it.
 *
 * Commands and interactions are answered with an empty 200. Return a Response from `handle` for others.
 */
export function slack<Target, Body = SlackBody>(options: SlackOptions<Body, Target>): Endpoint {
  return endpoint(
    {
      name: "slack",
      // Slack waits for 3 seconds.
      timeLimit: 2_500,
      tolerance: 300_000,
      options: { token: secretName, mayDecide: aFunction },
      form: payloadOf,
      verify,
      handshake: (body) => {
        const { type, challenge, ssl_check } = body as Readonly<Record<string, Json>>;
        if (type === "url_verification") return Response.json({ challenge });
        // Slack checks the certificate of a command's URL.
        return ssl_check === "1" ? new Response() : undefined;
      },
      identify: (body, { hash }) => {
        const { event_id, event, type, command } = body as SlackBody;
        return { id: event_id ?? hash, type: event?.type ?? type ?? command ?? "" };
      },
      reply: (body) => replyOf(body as Raw, options.token),
      click: (body) => clickOf(body as SlackBody),
      handle: (delivery, agent) => handleClick(delivery, agent, options, answerClick),
      answer: ({ status }, body) =>
        status === 200 && (body as SlackBody).type !== "event_callback"
          ? new Response()
          : undefined,
    },
    options,
  );
}

async function verify({ headers, raw, secrets, now, tolerance }: Incoming): Promise<Verified> {
  const header = headers.get("x-slack-signature");
  const time = headers.get("x-slack-request-timestamp");
  const verified = await checkHmac({
    encoding: "hex",
    keys: secrets,
    message: concat(`v0:${time ?? ""}:`, raw),
    // Other versions do not count.
    signatures: [header?.startsWith("v0=") ? header.slice(3) : header && "-"],
  });
  return verified === true ? checkTime(time, { now, tolerance }) : verified;
}

type Place = {
  readonly channel?: Json;
  readonly channel_id?: string;
  readonly channel_type?: string;
  readonly ts?: string;
  readonly thread_ts?: string;
};

/** What replies need of a body. */
type Raw = {
  readonly response_url?: string;
  readonly event?: Place & {
    /** What was changed, reacted to, or opened. */
    readonly message?: Place;
    readonly item?: Place;
    readonly assistant_thread?: Place;
  };
};

/** A command's or a click's own URL, or the thread of the message. In a direct message, the conversation itself. */
function replyOf({ response_url, event }: Raw, token: string | undefined): Reply | undefined {
  if (response_url) return { kind: "slack", responseUrl: response_url };
  if (!event || token === undefined) return undefined;
  const place = event.assistant_thread ?? event.message ?? event.item ?? event;
  const channel = place.channel_id ?? place.channel ?? event.channel;
  if (typeof channel !== "string") return undefined;
  const thread = place.thread_ts ?? (event.channel_type === "im" ? undefined : place.ts);
  return { kind: "slack", token, channel, ...(thread !== undefined && { thread }) };
}

/** @throws for a button of ours whose value is not ours */
function clickOf({ actions = [], user }: SlackBody): ApprovalClick | undefined {
  for (const { action_id, value } of actions) {
    const decision = decisionOf(action_id);
    if (!decision || !user) continue;
    const { approvalId, agent } = JSON.parse(value ?? "") as Partial<ApprovalClick>;
    if (typeof approvalId !== "string") throw new TypeError("The button has no approvalId.");
    const by = personOf("slack", user.id, user.username ?? user.name);
    return { approvalId, decision, agent: agent === undefined ? agent : String(agent), by };
  }
  return undefined;
}

/** How long the response URL has for its answer: less than Slack waits. */
const RESPONSE_MS = 1_500;

/** Slack ignores the answer to a click, so the person reads the outcome through the response URL. */
async function answerClick(
  delivery: InboundDelivery,
  { text, isDecided }: ClickResult,
): Promise<Response> {
  const { message, actions = [] } = delivery.body as ClickBody;
  const ids = actions.map(({ block_id }) => block_id);
  const others = message?.blocks?.filter(({ block_id }) => !block_id || !ids.includes(block_id));
  const outcome = { type: "context", elements: [{ type: "mrkdwn", text }] };
  const answer =
    isDecided && others
      ? { replace_original: true, text, blocks: [...others, outcome] }
      : { replace_original: false, response_type: "ephemeral", text };
  await respond(delivery, answer);
  return Response.json(answer);
}

type ClickBody = SlackBody & {
  readonly message?: { readonly blocks?: readonly { readonly block_id?: string }[] };
};

/** The decision is stored, whether Slack shows it or not: an error is logged. */
async function respond({ source, id, reply }: InboundDelivery, answer: object): Promise<void> {
  const { responseUrl } = (reply ?? {}) as { readonly responseUrl?: string };
  if (responseUrl === undefined) return;
  try {
    const { ok, status } = await fetch(responseUrl, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(answer),
      signal: AbortSignal.timeout(RESPONSE_MS),
    });
    if (!ok) throw new Error(`status ${status}`);
  } catch (error) {
    const { message } = failureOf(error);
    const line = { perdure: "webhook:unanswered-click", message, source, id };
    console.warn(JSON.stringify(line));
  }
}

/** Of a button's value, and of a section's text. https://docs.slack.dev/reference/block-kit */
const MAX_VALUE = 2_000;
const MAX_TEXT = 3_000;

/**
 * The blocks of a Slack message that asks for an approval: its title and two buttons. Put them into a message with a
 * `text`. Clicks arrive at the receiver of `slack()`.
 *
 * A button gives no payload: for an approval with a `schema`, use a form of your own.
 *
 * @throws InvalidOptionError for a name of an agent that is too long
 */
export function approvalBlocks(approval: ButtonApproval, { agent }: ButtonOptions): Json[] {
  const { approvalId, title } = approval;
  const value = JSON.stringify({ approvalId, agent });
  checkButton(value, MAX_VALUE);
  const plain = (text: string) => ({ type: "plain_text", text });
  const buttons = DECISIONS.map((decision) => ({
    type: "button",
    action_id: idOf(decision),
    style: STYLES[decision],
    text: plain(LABELS[decision]),
    value,
  }));
  const text = (title || "An approval is needed.").slice(0, MAX_TEXT).toWellFormed();
  return [
    { type: "section", text: plain(text) },
    { type: "actions", block_id: `${idOf("grant")}:${approvalId}`, elements: buttons },
  ];
}

const STYLES = { grant: "primary", reject: "danger" } as const;
