/**
 * Sends a message to a chat of Telegram.
 *
 * Telegram does not recognize a repetition: an attempt whose outcome is not known becomes a dead letter. A wrong token
 * (401, 404) is retried. Permanent failures: 400 (e.g. no such chat), 403 (e.g. the user has blocked the bot) and 413.
 * https://core.telegram.org/bots/api#sendmessage
 */

import { because } from "../../core/failures.ts";
import { preview } from "../../core/json.ts";
import { count, oneOf, optionsOf } from "../../core/options/option-schemas.ts";
import { invalidMessage } from "../../core/options/options.ts";
import { POLICY } from "../../outbox/delivery/policy.ts";
import type { WithPolicy } from "../../outbox/destinations/adapter.ts";
import { checked, SECRET_NAME } from "../../outbox/destinations/requests.ts";
import { RefusedError } from "../../outbox/errors.ts";
import { replyKind } from "./kind.ts";
import { parseMarkdown, type Span } from "./markdown.ts";
import type { Entity, MessageRules } from "./message.ts";
import { failureIn, millisecondsOf, objectIn, type ProviderResponse } from "./provider.ts";

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
 * `link_preview_options`, `disable_notification` or `protect_content`. The text is
 * Markdown, and is sent with its styles; with `parse_mode` or `entities`, it is sent as it is. A text above 4,096 characters is cut.
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
  render: (text, { isMarkdown, extras }) =>
    isMarkdown && (extras.parse_mode ?? extras.entities) === undefined
      ? withEntities(text)
      : { text },
};
/** Telegram ignores further ones. https://core.telegram.org/api/entities */
const MAX_ENTITIES = 100;

/** A text without markup, and its styles as ranges: nothing has to be escaped, and it can be cut. */
function withEntities(markdown: string) {
  let text = "";
  const entities: Entity[] = [];
  const add = (content: string, types: readonly object[]) => {
    for (const type of content.trim() === "" ? [] : types)
      entities.push({ ...type, offset: text.length, length: content.length } as Entity);
    text += content;
  };
  for (const [at, block] of parseMarkdown(markdown).entries()) {
    if (at > 0) text += "\n";
    if (block.kind === "line") for (const span of block.spans) add(span.text, typesOf(span));
    else {
      const language = block.kind === "code" && block.language;
      add(block.text, [{ type: "pre", ...(language && { language }) }]);
    }
  }
  return { text, entities: entities.slice(0, MAX_ENTITIES) };
}

function typesOf({ isCode, isBold, isItalic, isStruck, href, text }: Span): object[] {
  // Code takes no other style.
  if (isCode) return [{ type: "code" }];
  return [
    ...(isBold ? [{ type: "bold" }] : []),
    ...(isItalic ? [{ type: "italic" }] : []),
    ...(isStruck ? [{ type: "strikethrough" }] : []),
    ...(href !== undefined && href !== text ? [{ type: "text_link", url: href }] : []),
  ];
}

const API = "https://api.telegram.org";
const CHAT = /^(@[A-Za-z]\w{3,31}|-?[1-9]\d{0,15})$/;

export const telegramMessages = replyKind<TelegramDestination>("Telegram", {
  api: "telegram",
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
  rules: RULES,
  limits: { repeatableMs: 0 },
  keyOf: ({ token, chat }) => [token, chat],
  labelOf: ({ chat }) => String(chat),
  problemOfEvent: problemOfMarkup,
  async send(to, { text, extras, api = API, attempt, ...sending }) {
    const token = await sending.token(to.token);
    const body = {
      ...extras,
      chat_id: to.chat,
      text,
      ...(to.thread !== undefined && { message_thread_id: to.thread }),
      ...(to.replyTo !== undefined && {
        reply_parameters: { message_id: to.replyTo, allow_sending_without_reply: true },
      }),
    };
    await attempt.markSending();
    const url = `${api}/bot${encodeURIComponent(token)}/sendMessage`;
    const secrets = [token, encodeURIComponent(token)];
    return sending.request({ url, body, secrets }, failureOf);
  },
});

/** A text with markup cannot be cut: half of a tag would be an error. */
function problemOfMarkup(event: unknown): string | undefined {
  const { text, parse_mode, entities } = Object(event) as Record<string, unknown>;
  const isLong = typeof text === "string" && text.length > RULES.maxLength;
  if (!isLong || (parse_mode ?? entities) === undefined) return undefined;
  const expected = `expected at most ${RULES.maxLength} characters with parse_mode or entities`;
  return invalidMessage("event.text", `of ${text.length} characters`, expected);
}

function failureOf(response: ProviderResponse): Error | undefined {
  const { status, says } = response;
  if (status === 200 && objectIn(response).ok === true) return undefined;
  // A token of the wrong form.
  if (status === 404) return because(new RefusedError(says), "answered", 401);
  if (status === 200) return new Error(`${says}, which is no answer of its API`);
  const { retry_after } = Object(objectIn(response).parameters) as { retry_after?: unknown };
  return failureIn(response, millisecondsOf(retry_after) ?? response.waitMs);
}
