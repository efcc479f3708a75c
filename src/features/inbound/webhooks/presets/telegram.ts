/** Telegram: https://core.telegram.org/bots/api#setwebhook */

import type { Json } from "../../../../core/json.ts";
import type { ReplyDestination } from "../../../replies/replies.ts";
import { endpoint, type PresetOf, secretName } from "../preset.ts";
import { checkToken } from "../verify.ts";

export type TelegramMessage = {
  readonly message_id: number;
  /** Epoch seconds. */
  readonly date: number;
  readonly chat: { readonly id: number; readonly type: string; readonly title?: string };
  readonly from?: TelegramUser;
  readonly text?: string;
  readonly caption?: string;
  /** Set together with `is_topic_message` in a topic of a forum. */
  readonly message_thread_id?: number;
  readonly is_topic_message?: boolean;
};

type TelegramUser = { readonly id: number; readonly is_bot: boolean; readonly username?: string };

/** An update. It has one of the optional fields, whose name is the arrival's type. Pass a `schema` for others. */
export type TelegramBody = {
  readonly update_id: number;
  readonly message?: TelegramMessage;
  readonly edited_message?: TelegramMessage;
  readonly channel_post?: TelegramMessage;
  readonly callback_query?: {
    readonly id: string;
    readonly from: TelegramUser;
    readonly data?: string;
    readonly message?: TelegramMessage;
  };
};

type TelegramOwn = {
  /** The name of the secret in env that has the bot's token. Without it, arrivals have no `reply`. */
  readonly token?: string;
};

/**
 * Receives updates of a Telegram bot. `secret` names the `secret_token` of `setWebhook`. The id is the `update_id`, the
 * type is the name of the update's field, e.g. `message` or `callback_query`. Telegram signs no time.
 */
export const telegram: PresetOf<TelegramBody, TelegramOwn> = (options) =>
  endpoint(
    {
      name: "telegram",
      timeLimit: 9_000,
      options: { token: secretName },
      verify: ({ headers, secrets }) =>
        checkToken(headers.get("x-telegram-bot-api-secret-token"), secrets),
      identify: (body) => {
        const { update_id: id } = body as Partial<TelegramBody>;
        return { id: typeof id === "number" ? String(id) : undefined, type: typeOf(body) };
      },
      reply: (body, type) =>
        options.token === undefined
          ? undefined
          : chatOf((body as Readonly<Record<string, Event>>)[type], options.token),
    },
    options,
  );

function typeOf(body: Json): string {
  return Object.keys(body as object).find((key) => key !== "update_id") ?? "";
}

type Message = Partial<TelegramMessage> & { readonly business_connection_id?: string };
type Event = (Message & { readonly message?: Message }) | undefined;

/** The chat of the message, or of the message that has the button. Where there is none, as of a poll, no reply. */
function chatOf(event: Event, token: string): ReplyDestination | undefined {
  const message = event?.message ?? event;
  const chat = message?.chat?.id;
  // A chat of a business account takes no messages by its id alone.
  if (chat === undefined || message?.business_connection_id !== undefined) return undefined;
  const { message_id, message_thread_id, is_topic_message } = message as Message;
  const thread = is_topic_message ? message_thread_id : undefined;
  // A press of a button is not what a message can answer.
  const replyTo = event?.message ? undefined : message_id;
  return {
    kind: "telegram",
    token,
    chat,
    ...(thread !== undefined && { thread }),
    ...(replyTo !== undefined && { replyTo }),
  };
}
