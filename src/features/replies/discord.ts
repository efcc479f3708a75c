/**
 * Sends a message to Discord: to a channel with a bot's token, or as the answer to an interaction.
 *
 * A message to a channel has a nonce, by which Discord recognizes a repetition "in the past few minutes": an attempt whose
 * outcome is not known is repeated within two minutes, and is a dead letter afterwards. The answer to an interaction edits
 * one message, so it can be repeated at any time. Permanent failures: 400, 403, 404 and every other 4xx but 401 and 429.
 * https://docs.discord.com/developers/resources/message#create-message
 * https://docs.discord.com/developers/interactions/receiving-and-responding#edit-original-interaction-response
 */

import { oneOf, optionsOf } from "../../core/options/option-schemas.ts";
import { digest } from "../../core/text.ts";
import { POLICY } from "../../outbox/delivery/policy.ts";
import type { WithPolicy } from "../../outbox/destinations/adapter.ts";
import { SECRET_NAME } from "../../outbox/destinations/requests.ts";
import { RefusedError, UndeliverableError } from "../../outbox/errors.ts";
import { matching, oneForm, replyKind } from "./kind.ts";
import { parseMarkdown } from "./markdown.ts";
import type { MessageRules } from "./message.ts";
import { failureIn, millisecondsOf, objectIn, type ProviderResponse } from "./provider.ts";

/** A channel of Discord, or an interaction. */
export type DiscordDestination = WithPolicy & { readonly kind: "discord" } & (
    | {
        /** The name of the bot token in `env`, never the token itself. */
        readonly token: string;
        /** The id of a channel or a thread. */
        readonly channel: string;
        /** The id of the message that it answers. */
        readonly replyTo?: string;
        readonly application?: never;
        readonly interaction?: never;
      }
    | {
        /** The application's id. */
        readonly application: string;
        /** The interaction's token, a secret of 15 minutes. It is stored, and in no list. */
        readonly interaction: string;
        readonly token?: never;
        readonly channel?: never;
        readonly replyTo?: never;
      }
  );

/**
 * A channel of Discord. The event is a text, or `{ text }` with `embeds`, `components`, `flags` or `allowed_mentions`.
 * The text is
 * Markdown; a table is shown as code. Without `allowed_mentions` the message has no mentions. A text above 2,000
 * characters is cut.
 *
 * @param channel its id
 * @param options.token the name of the secret in `env` that has the bot's token
 * @example this.outbox.put(discord("1122334455667788990", { token: "DISCORD_TOKEN" }), { text: "Shipped" })
 */
export function discord(
  channel: string,
  options: WithPolicy & { token: string; replyTo?: string },
): DiscordDestination;
/** The answer to an interaction: replaces its deferred response. It is possible for 15 minutes. */
export function discord(
  options: WithPolicy & { application: string; interaction: string },
): DiscordDestination;
export function discord(to: string | object, options: object = {}): DiscordDestination {
  const fields = typeof to === "string" ? { channel: to, ...options } : to;
  return { kind: "discord", ...fields } as DiscordDestination;
}

const RULES: MessageRules = {
  kind: "discord",
  maxLength: 2_000,
  fields: ["embeds", "components", "flags", "allowed_mentions"],
  render: (text, { isMarkdown }) => ({ text: isMarkdown ? toDiscord(text) : text }),
};

/** Discord shows Markdown, but for tables and the smaller headings. */
function toDiscord(markdown: string): string {
  if (!/^ {0,3}####|\|/m.test(markdown)) return markdown;
  const lines = parseMarkdown(markdown).map((block) => {
    if (block.kind === "line") {
      const title = block.source.replace(/^[# \t]+/, "");
      return (block.level ?? 0) > 3 ? `**${title.replaceAll("**", "")}**` : block.source;
    }
    const fence = "`".repeat(
      Math.max(3, ...(block.text.match(/`+/g) ?? []).map(({ length }) => length + 1)),
    );
    return `${fence}${block.kind === "code" ? block.language : ""}\n${block.text}\n${fence}`;
  });
  return lines.join("\n");
}

const API = "https://discord.com/api/v10";
/**
 * Discord asks for this form, with a page that exists: that of the platform, as Perdure has none yet.
 * https://docs.discord.com/developers/reference#user-agent
 */
const USER_AGENT = "DiscordBot (https://developers.cloudflare.com/agents/, 1) Perdure";
/** Of the "few minutes" for which Discord compares nonces. */
const NONCE_MS = 120_000;
/** An interaction can be answered before Discord has stored its deferred response: an error 404 until then. */
const DEFERRED_WITHIN_MS = 30_000;

const snowflake = (what: string) =>
  matching(/^\d{15,20}$/, `the id of ${what}, such as "1122334455667788990"`);

export const discordMessages = replyKind<DiscordDestination>("Discord", {
  api: "discord",
  schema: optionsOf<DiscordDestination>()({
    kind: oneOf(["discord"]),
    token: SECRET_NAME.optional(),
    channel: snowflake("a channel").optional(),
    replyTo: snowflake("a message").optional(),
    application: snowflake("an application").optional(),
    interaction: matching(
      /^[\w-][\w.-]{15,1023}$/,
      "the token of an interaction",
      false,
    ).optional(),
    policy: POLICY.optional(),
  }).check(
    oneForm(({ token, channel, replyTo, application, interaction }) => {
      if ((application ?? interaction) === undefined) {
        if (channel === undefined) return ["channel", "the id of a channel"];
        return token === undefined && ["token", "the name of a secret in env"];
      }
      if ((token ?? channel ?? replyTo) !== undefined)
        return ["channel", "either channel with token, or application with interaction"];
      if (application === undefined) return ["application", "the application's id"];
      return interaction === undefined && ["interaction", "the token of an interaction"];
    }),
  ),
  rules: RULES,
  limits: { repeatableMs: NONCE_MS },
  keyOf: ({ token, channel, application, interaction = "" }) =>
    channel === undefined ? [application, digest(interaction), "interaction"] : [token, channel],
  labelOf: ({ channel }) => channel ?? "interaction",
  async send(to, { text, extras, id, api = API, attempt, now, ...sending }) {
    const body = { allowed_mentions: { parse: [] }, ...extras, content: text };
    if (to.channel === undefined) {
      const call = {
        url: `${api}/webhooks/${to.application}/${to.interaction}/messages/@original`,
        method: "PATCH",
        headers: { "user-agent": USER_AGENT },
        body,
        secrets: [to.interaction],
      } as const;
      return sending.request(call, (response) =>
        failureOfAnswer(response, now() - attempt.createdAt),
      );
    }
    const token = await sending.token(to.token);
    const reference = { message_id: to.replyTo, fail_if_not_exists: false };
    await attempt.markSending();
    const call = {
      url: `${api}/channels/${to.channel}/messages`,
      headers: { authorization: `Bot ${token}`, "user-agent": USER_AGENT },
      // At most 25 characters, of which the digest has 22.
      body: {
        ...body,
        nonce: digest(id),
        enforce_nonce: true,
        ...(to.replyTo !== undefined && { message_reference: reference }),
      },
      secrets: [token],
    };
    return sending.request(call, failureOf);
  },
});

/** Of an interaction. @param ageMs of the event: at first, the message that is edited may not be stored yet */
function failureOfAnswer(response: ProviderResponse, ageMs: number): Error | undefined {
  const { status, says } = response;
  if (status >= 200 && status <= 299) return undefined;
  if (status === 404 && ageMs < DEFERRED_WITHIN_MS) return new RefusedError(says);
  // Its token has expired, and no other replaces it.
  return status === 401 ? new UndeliverableError(says) : failureOf(response);
}

/** Of a message to a channel. Undefined for a success with the id of the message: a proxy can answer in Discord's place. */
function failureOf(response: ProviderResponse): Error | undefined {
  if (response.status === 200 && typeof objectIn(response).id === "string") return undefined;
  // Seconds, more exact than the header. https://docs.discord.com/developers/topics/rate-limits
  const { retry_after } = objectIn(response);
  return failureIn(response, millisecondsOf(retry_after) ?? response.waitMs);
}
