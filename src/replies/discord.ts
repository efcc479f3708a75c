/**
 * Sends a message to Discord: to a channel with a bot's token, or as the answer to an interaction.
 *
 * A message to a channel has a nonce, by which Discord recognizes a repetition "in the past few minutes": an attempt whose
 * outcome is not known is repeated within two minutes, and is a dead letter afterwards. The answer to an interaction edits
 * one message, so it can be repeated at any time. Permanent failures: 400, 403, 404 and every other 4xx but 401 and 429.
 * https://docs.discord.com/developers/resources/message#create-message
 * https://docs.discord.com/developers/interactions/receiving-and-responding#edit-original-interaction-response
 */

import { because } from "../core/failures.ts";
import { preview } from "../core/json.ts";
import { oneOf, optionsOf } from "../core/options/option-schemas.ts";
import { digest } from "../core/text.ts";
import {
  type Adapter,
  type Delivery,
  RefusedError,
  UndeliverableError,
} from "../kernel/outbox/index.ts";
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
  type ProviderRequest,
  type ProviderResponse,
  request,
  tokenOf,
} from "./provider.ts";

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
 * Without `allowed_mentions` the message has no mentions. A text above 2,000 characters is cut.
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
};
const API = "https://discord.com/api/v10";
/** Discord asks for this form. https://docs.discord.com/developers/reference#user-agent */
const USER_AGENT = "DiscordBot (https://www.npmjs.com/package/perdure, 1)";
/** Of the "few minutes" for which Discord compares nonces. */
const NONCE_MS = 120_000;
/** An interaction can be answered before Discord has stored its deferred response: an error 404 until then. */
const DEFERRED_WITHIN_MS = 30_000;

const matching = (pattern: RegExp, expected: string, isShown = true) =>
  checked<string>((value) =>
    typeof value === "string" && pattern.test(value)
      ? undefined
      : { given: isShown ? preview(value) : "(not shown)", expected: `expected ${expected}` },
  );
const snowflake = (what: string) =>
  matching(/^\d{15,20}$/, `the id of ${what}, such as "1122334455667788990"`);

export const discordMessages = {
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
  }).check((ctx) => {
    const { token, channel, replyTo, application, interaction } = ctx.value;
    const refuse = (name: string, message: string) =>
      ctx.issues.push({
        code: "custom",
        input: ctx.value,
        path: [name],
        message,
        params: { given: "(not shown)" },
      });
    if ((application ?? interaction) === undefined) {
      if (channel === undefined) refuse("channel", "expected the id of a channel");
      else if (token === undefined) refuse("token", "expected the name of a secret in env");
    } else if ((token ?? channel ?? replyTo) !== undefined) {
      refuse("channel", "expected either channel with token, or application with interaction");
    } else if (application === undefined) {
      refuse("application", "expected the application's id");
    } else if (interaction === undefined) {
      refuse("interaction", "expected the token of an interaction");
    }
  }),
  connect(
    context: Pick<AdapterContext, "env" | "reportProblem" | "now">,
    apis: ProviderApis,
  ): Adapter<DiscordDestination> {
    const { env, now } = context;
    const send = (call: Omit<ProviderRequest, "provider" | "now">) =>
      request({
        provider: "Discord",
        now,
        ...call,
        url: `${apis.discord ?? API}${call.url}`,
        headers: { ...call.headers, "user-agent": USER_AGENT },
      });
    return {
      maxBytes: Number.POSITIVE_INFINITY,
      timeoutMs: 30_000,
      repeatableMs: NONCE_MS,
      keyOf: ({ token, channel, application, interaction = "" }) =>
        `discord ${JSON.stringify(channel === undefined ? [application, digest(interaction), "interaction"] : [token, channel])}`,
      labelOf: ({ channel }) => channel ?? "interaction",
      problemOf: ({ token }) =>
        token === undefined ? undefined : problemOfSecret(env, "token", token),
      problemOfEvent: (event) => problemOfMessage(event, RULES),
      async deliver(to, delivery: Delivery, signal, attempt: AttemptContext) {
        const message = messageOf(delivery, RULES);
        const content = {
          allowed_mentions: { parse: [] },
          ...message.extras,
          content: message.text,
        };
        const response =
          to.channel === undefined
            ? await send({
                url: `/webhooks/${to.application}/${to.interaction}/messages/@original`,
                method: "PATCH",
                headers: {},
                body: content,
                signal,
                secrets: [to.interaction],
              })
            : await send(await messageTo(to, delivery, content, signal, attempt));
        const age = now() - attempt.createdAt;
        const failure = to.channel ? failureOf(response) : failureOfAnswer(response, age);
        if (failure) throw because(failure, "answered", response.status);
        reportCut(context, delivery, message, RULES);
      },
    };

    async function messageTo(
      to: Extract<DiscordDestination, { channel: string }>,
      { id }: Delivery,
      content: object,
      signal: AbortSignal,
      attempt: AttemptContext,
    ): Promise<Omit<ProviderRequest, "provider" | "now">> {
      const token = await tokenOf(env, to.token, signal);
      const reference = { message_id: to.replyTo, fail_if_not_exists: false };
      await attempt.markSending();
      return {
        url: `/channels/${to.channel}/messages`,
        method: "POST",
        headers: { authorization: `Bot ${token}` },
        // At most 25 characters, of which the digest has 22.
        body: {
          ...content,
          nonce: digest(id),
          enforce_nonce: true,
          ...(to.replyTo !== undefined && { message_reference: reference }),
        },
        signal,
        secrets: [token],
      };
    }
  },
};

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
