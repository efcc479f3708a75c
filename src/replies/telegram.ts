/**
 * Sends a message to a chat of Telegram.
 *
 * Telegram does not recognize a repetition: an attempt whose outcome is not known becomes a dead letter. A wrong token
 * (401, 404) is retried. Permanent failures: 400 (e.g. no such chat), 403 (e.g. the user has blocked the bot) and 413.
 * https://core.telegram.org/bots/api#sendmessage
 */

import { because } from "../core/failures.ts";
import { preview } from "../core/json.ts";
import { count, oneOf, optionsOf } from "../core/options/option-schemas.ts";
import { invalidMessage } from "../core/options/options.ts";
import { type Adapter, type Delivery, RefusedError } from "../kernel/outbox/index.ts";
import {
  type AdapterContext,
  type AttemptContext,
  checked,
  POLICY,
  problemOfSecret,
  SECRET_NAME,
  type WithPolicy,
} from "../kernel/outbox/internal.ts";
import { type MessageRules, messageOf, problemOfMessage, reportCut } from "./message.ts";
import {
  failureIn,
  millisecondsOf,
  objectIn,
  type ProviderApis,
  type ProviderResponse,
  request,
  tokenOf,
} from "./provider.ts";

/** A chat of Telegram. */
export type TelegramDestination = WithPolicy & {
  readonly kind: "telegram";
  /** The name of the bot token in `env`, never the token itself. */
  readonly token: string;
  /** The chat's id, or the `@name` of a public channel or group. */
  readonly chat: number | string;
  /** The id of the topic. */
  readonly thread?: number;
  /** The id of the message that it answers. */
  readonly replyTo?: number;
};

/**
 * A chat of Telegram. The event is a text, or `{ text }` with `parse_mode`, `entities`, `reply_markup`,
 * `link_preview_options`, `disable_notification` or `protect_content`. Without `parse_mode` the text has no markup. A text
 * above 4,096 characters is cut.
 *
 * @param chat its id, or the `@name` of a public channel or group
 * @param options.token the name of the secret in `env` that has the bot's token
 * @example this.outbox.put(telegram(message.chat.id, { token: "TELEGRAM_TOKEN" }), { text: "Shipped" })
 */
export function telegram(
  chat: number | string,
  options: WithPolicy & { token: string; thread?: number; replyTo?: number },
): TelegramDestination {
  return { kind: "telegram", chat, ...options };
}

const RULES: MessageRules = {
  kind: "telegram",
  maxLength: 4_096,
  fields: [
    "parse_mode",
    "entities",
    "reply_markup",
    "link_preview_options",
    "disable_notification",
    "protect_content",
  ],
};
const API = "https://api.telegram.org";
const CHAT = /^(@[A-Za-z]\w{3,31}|-?[1-9]\d{0,15})$/;

export const telegramMessages = {
  schema: optionsOf<TelegramDestination>()({
    kind: oneOf(["telegram"]),
    token: SECRET_NAME,
    chat: checked<number | string>((chat) => {
      const isId = Number.isSafeInteger(chat) && chat !== 0;
      if (isId || (typeof chat === "string" && CHAT.test(chat))) return undefined;
      return { given: preview(chat), expected: "expected the id of a chat, or its @name" };
    }),
    thread: count().optional(),
    replyTo: count().optional(),
    policy: POLICY.optional(),
  }),
  connect(
    context: Pick<AdapterContext, "env" | "reportProblem" | "now">,
    apis: ProviderApis,
  ): Adapter<TelegramDestination> {
    const { env, now } = context;
    return {
      maxBytes: Number.POSITIVE_INFINITY,
      timeoutMs: 30_000,
      repeatableMs: 0,
      keyOf: ({ token, chat }) => `telegram ${JSON.stringify([token, chat])}`,
      labelOf: ({ chat }) => String(chat),
      problemOf: ({ token }) => problemOfSecret(env, "token", token),
      problemOfEvent: (event) => problemOfMessage(event, RULES) ?? problemOfMarkup(event),
      async deliver(to, delivery: Delivery, signal, attempt: AttemptContext) {
        const message = messageOf(delivery, RULES);
        const token = await tokenOf(env, to.token, signal);
        const body = {
          ...message.extras,
          chat_id: to.chat,
          text: message.text,
          ...(to.thread !== undefined && { message_thread_id: to.thread }),
          ...(to.replyTo !== undefined && {
            reply_parameters: { message_id: to.replyTo, allow_sending_without_reply: true },
          }),
        };
        await attempt.markSending();
        const response = await request({
          provider: "Telegram",
          url: `${apis.telegram ?? API}/bot${encodeURIComponent(token)}/sendMessage`,
          method: "POST",
          headers: {},
          body,
          signal,
          now,
          secrets: [token, encodeURIComponent(token)],
        });
        if (response.status !== 200 || objectIn(response).ok !== true) {
          throw because(failureOf(response), "answered", response.status);
        }
        reportCut(context, delivery, message, RULES);
      },
    };
  },
};

/** A text with markup cannot be cut: half of a tag would be an error. */
function problemOfMarkup(event: unknown): string | undefined {
  const { text, parse_mode, entities } = Object(event) as Record<string, unknown>;
  const isLong = typeof text === "string" && text.length > RULES.maxLength;
  if (!isLong || (parse_mode ?? entities) === undefined) return undefined;
  const expected = `expected at most ${RULES.maxLength} characters with parse_mode or entities`;
  return invalidMessage("event.text", `of ${text.length} characters`, expected);
}

function failureOf(response: ProviderResponse): Error {
  const { status, says } = response;
  // A token of the wrong form.
  if (status === 404) return new RefusedError(says);
  if (status === 200) return new Error(`${says}, which is no answer of its API`);
  const { retry_after } = Object(objectIn(response).parameters) as { retry_after?: unknown };
  return failureIn(response, millisecondsOf(retry_after) ?? response.waitMs);
}
