/** Slack: https://docs.slack.dev/authentication/verifying-requests-from-slack */

import type { Json } from "../../../../core/json.ts";
import type { ReplyDestination } from "../../../replies/replies.ts";
import type { ApprovalClicks } from "../click.ts";
import { payloadOf } from "../form.ts";
import { aFunction, endpoint, type PresetOf, secretName } from "../preset.ts";
import { checkHmac, checkTime } from "../verify.ts";

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
  /** The message with the button. */
  readonly message?: { readonly text?: string; readonly ts?: string };
  readonly callback_id?: string;
  readonly response_url?: string;
  readonly trigger_id?: string;
};

type SlackOwn = {
  /** The name of the secret in env that has the bot's token. Without it, events have no `reply`; clicks and commands do. */
  readonly token?: string;
  /** Decides approvals by clicks on their buttons: `slackApprovals(mayDecide)`. Without it, `handle` gets these clicks. */
  readonly approvals?: ApprovalClicks;
};

/**
 * Receives events, clicks and slash commands of Slack at one URL. `secret` names the signing secret.
 *
 * The type of an event is that of the event, e.g. `app_mention`; of a click, a shortcut or a form, that of the
 * interaction, e.g. `block_actions`; of a command, the command, e.g. `/deploy`. The id of a message is
 * made of its team, channel and `ts`; of another event it is the `event_id`, otherwise the hash of the body, which has a
 * `trigger_id` of its own. Arrivals that Slack repeats are found by it.
 *
 * Commands and interactions are answered with an empty 200. Return a Response from `handle` for others.
 */
export const slack: PresetOf<SlackBody, SlackOwn> = (options) =>
  endpoint(
    {
      name: "slack",
      // Slack waits for 3 seconds.
      timeLimit: 2_500,
      tolerance: 300_000,
      options: { token: secretName, approvals: aFunction },
      form: payloadOf,
      async verify(incoming) {
        const { headers, raw, secrets } = incoming;
        const time = headers.get("x-slack-request-timestamp");
        const verified = await checkHmac({
          encoding: "hex",
          keys: secrets,
          message: [`v0:${time}:`, raw],
          // Of this version of signatures.
          prefix: "v0=",
          signatures: [headers.get("x-slack-signature")],
        });
        return verified === true ? checkTime(time, incoming) : verified;
      },
      handshake(body) {
        const { type, challenge, ssl_check } = body as Readonly<Record<string, Json>>;
        if (type === "url_verification") return Response.json({ challenge });
        // Slack checks the certificate of a command's URL.
        return ssl_check ? new Response() : undefined;
      },
      identify(body, { hash }) {
        const { event_id, event, type, command } = body as SlackBody;
        const message = event && messageOf(body as SlackBody);
        return {
          id: message ?? event_id ?? hash,
          type: event?.type ?? type ?? command ?? "",
          ...(message && { content: event as unknown as Json }),
        };
      },
      reply: (body) => replyOf(body as Raw, options.token),
      answer: ({ status }, body) =>
        status === 200 && !(body as SlackBody).event_id ? new Response() : undefined,
    },
    options,
  );

/** The id of a message: Slack may send one message as several events, each with an `event_id`. */
function messageOf({
  team_id,
  event: { type, subtype, channel, ts } = {} as SlackEvent,
}: SlackBody) {
  if (!ts || !/^(message|app_mention)$/.test(type) || typeof channel !== "string") return undefined;
  return [team_id, channel, ts.replace(".", "-"), type, subtype].filter(Boolean).join("-");
}

type Place = {
  readonly channel?: Json;
  readonly channel_id?: string;
  readonly ts?: string;
  readonly thread_ts?: string;
};

/** The fields of a body that replies need. */
type Raw = {
  readonly response_url?: string;
  readonly event?: Place & {
    readonly channel_type?: string;
    /** The item that was changed, reacted to, or opened. */
    readonly message?: Place;
    readonly item?: Place;
    readonly assistant_thread?: Place;
  };
};

/** A command's or a click's own URL, or the thread of the message. In a direct message, the conversation itself. */
function replyOf(
  { response_url, event }: Raw,
  token: string | undefined,
): ReplyDestination | undefined {
  if (response_url) return { kind: "slack", responseUrl: response_url };
  if (!event || !token) return undefined;
  const place = event.assistant_thread ?? event.message ?? event.item ?? event;
  const channel = place.channel_id ?? place.channel ?? event.channel;
  if (typeof channel !== "string") return undefined;
  const thread = place.thread_ts ?? (event.channel_type === "im" ? undefined : place.ts);
  return { kind: "slack", token, channel, ...(thread && { thread }) };
}
