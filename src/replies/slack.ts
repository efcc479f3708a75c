/**
 * Sends a message to Slack: with a bot's token by `chat.postMessage`, or to the `response_url` of a command or a click.
 *
 * Slack does not recognize a repetition: an attempt whose outcome is not known becomes a dead letter. Answers with
 * `ok: false` are permanent failures, but for tokens and passing troubles (`RETRIED`), and for errors after which the
 * message may have been posted (`UNKNOWN`).
 * https://docs.slack.dev/reference/methods/chat.postMessage
 * https://docs.slack.dev/interactivity/handling-user-interaction#message_responses
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
  type ProviderResponse,
  request,
  tokenOf,
} from "./provider.ts";

/** A channel of Slack, or the `response_url` of a command or a click. */
export type SlackDestination = WithPolicy & { readonly kind: "slack" } & (
    | {
        /** The name of the bot token in `env`, never the token itself. */
        readonly token: string;
        /** The id of a channel or a direct message. */
        readonly channel: string;
        /** The `ts` of the message whose thread it goes to. */
        readonly thread?: string;
        readonly responseUrl?: never;
      }
    | {
        /** A secret of 30 minutes. It is stored, and in no list. */
        readonly responseUrl: string;
        readonly token?: never;
        readonly channel?: never;
        readonly thread?: never;
      }
  );

/**
 * A channel of Slack. The event is a text, or `{ text }` with `blocks`, `attachments`, `mrkdwn`, `metadata`,
 * `unfurl_links`, `unfurl_media`, `reply_broadcast`, `response_type`, `replace_original` or `delete_original`. In the text,
 * `&`, `<` and `>` are escaped, so that a text has no mentions. A text above 40,000 characters is cut.
 *
 * @param channel its id
 * @param options.token the name of the secret in `env` that has the bot's token
 * @example this.outbox.put(slack("C0123456789", { token: "SLACK_BOT_TOKEN" }), { text: "Shipped" })
 */
export function slack(
  channel: string,
  options: WithPolicy & { token: string; thread?: string },
): SlackDestination;
/** The `response_url` of a command or a click. It is valid for 30 minutes. */
export function slack(options: WithPolicy & { responseUrl: string }): SlackDestination;
export function slack(to: string | object, options: object = {}): SlackDestination {
  const fields = typeof to === "string" ? { channel: to, ...options } : to;
  return { kind: "slack", ...fields } as SlackDestination;
}

const RULES: MessageRules = {
  kind: "slack",
  // https://docs.slack.dev/reference/methods/chat.postMessage#truncating
  maxLength: 40_000,
  fields: [
    "blocks",
    "attachments",
    "mrkdwn",
    "metadata",
    "unfurl_links",
    "unfurl_media",
    "reply_broadcast",
    "response_type",
    "replace_original",
    "delete_original",
  ],
  // https://docs.slack.dev/messaging/formatting-message-text#escaping
  escape: (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;"),
  partial: /&[a-z]{0,3}$/,
};

const API = "https://slack.com/api";
const CHANNEL = /^[CDGUW][A-Z0-9]{2,30}$/;
const TIMESTAMP = /^\d{1,12}\.\d{1,6}$/;
const MAX_URL = 1_024;

/** Not acted on, and another attempt may succeed: a token that can be replaced, or a passing trouble. */
const RETRIED: ReadonlySet<string> = new Set([
  "account_inactive",
  "invalid_auth",
  "not_authed",
  "request_timeout",
  "team_added_to_org",
  "token_expired",
  "token_revoked",
]);
const LIMITED: ReadonlySet<string> = new Set([
  "ratelimited",
  "rate_limited",
  "message_limit_exceeded",
]);
/** "It's possible some aspect of the operation succeeded before the error was raised." */
const UNKNOWN: ReadonlySet<string> = new Set([
  "fatal_error",
  "internal_error",
  "service_unavailable",
]);

const text = (pattern: RegExp, expected: string) =>
  checked<string>((value) =>
    typeof value === "string" && pattern.test(value)
      ? undefined
      : { given: preview(value), expected: `expected ${expected}` },
  );

export const slackMessages = {
  schema: optionsOf<SlackDestination>()({
    kind: oneOf(["slack"]),
    token: SECRET_NAME.optional(),
    channel: text(CHANNEL, 'the id of a channel, such as "C0123456789"').optional(),
    thread: text(TIMESTAMP, 'the ts of a message, such as "1712345678.123456"').optional(),
    responseUrl: checked<string>((url) =>
      isResponseUrl(url)
        ? undefined
        : {
            given: "(not shown)",
            expected:
              "expected a response_url of Slack, which begins with https://hooks.slack.com/",
          },
    ).optional(),
    policy: POLICY.optional(),
  }).check((ctx) => {
    const { token, channel, thread, responseUrl } = ctx.value;
    const refuse = (name: string, message: string) =>
      ctx.issues.push({
        code: "custom",
        input: ctx.value,
        path: [name],
        message,
        params: { given: "(not shown)" },
      });
    if (responseUrl === undefined) {
      if (channel === undefined) refuse("channel", "expected the id of a channel, or responseUrl");
      else if (token === undefined) refuse("token", "expected the name of a secret in env");
    } else if ((token ?? channel ?? thread) !== undefined) {
      refuse("responseUrl", "expected either responseUrl alone, or channel with token");
    }
  }),
  connect(
    context: Pick<AdapterContext, "env" | "reportProblem" | "now">,
    apis: ProviderApis,
  ): Adapter<SlackDestination> {
    const { env, now } = context;
    const requestOf = async (to: SlackDestination, signal: AbortSignal) => {
      if (to.responseUrl !== undefined) {
        const { responseUrl: url } = to;
        return { url, headers: {}, fields: {}, secrets: [url, new URL(url).pathname] };
      }
      const token = await tokenOf(env, to.token, signal);
      return {
        url: `${apis.slack ?? API}/chat.postMessage`,
        headers: { authorization: `Bearer ${token}` },
        fields: { channel: to.channel, ...(to.thread && { thread_ts: to.thread }) },
        secrets: [token],
      };
    };
    return {
      maxBytes: Number.POSITIVE_INFINITY,
      timeoutMs: 30_000,
      repeatableMs: 0,
      keyOf: ({ token, channel, responseUrl }) =>
        `slack ${JSON.stringify(responseUrl === undefined ? [token, channel] : digest(responseUrl))}`,
      labelOf: ({ channel }) => channel ?? "response_url",
      problemOf: ({ token }) =>
        token === undefined ? undefined : problemOfSecret(env, "token", token),
      problemOfEvent: (event) => problemOfMessage(event, RULES),
      async deliver(to, delivery: Delivery, signal, attempt: AttemptContext) {
        const message = messageOf(delivery, RULES);
        const { fields, ...call } = await requestOf(to, signal);
        const body = { ...message.extras, link_names: false, text: message.text, ...fields };
        await attempt.markSending();
        const response = await request({
          provider: "Slack",
          method: "POST",
          body,
          signal,
          now,
          ...call,
        });
        const failure = failureOf(response, to.responseUrl !== undefined);
        if (failure) throw because(failure, "answered", response.status);
        reportCut(context, delivery, message, RULES);
      },
    };
  },
};

function isResponseUrl(value: unknown): boolean {
  if (typeof value !== "string" || value.length > MAX_URL) return false;
  const { href, pathname = "/" } = URL.parse(value) ?? {};
  // The URL exactly as written, without a user name or a port: no other spelling can lead elsewhere.
  return value === href && value.startsWith("https://hooks.slack.com/") && pathname !== "/";
}

function failureOf(response: ProviderResponse, isToUrl: boolean): Error | undefined {
  const { status, says } = response;
  if (status !== 200) return failureIn(response);
  const { ok, error } = objectIn(response);
  if (ok === true) return undefined;
  // A response_url answers with the text "ok", or nothing.
  if (typeof error !== "string") {
    return isToUrl && ok === undefined
      ? undefined
      : new Error(`${says}, which is no answer of its API`);
  }
  if (LIMITED.has(error)) {
    const { retry_after } = objectIn(response);
    const retryAfterMs = response.waitMs ?? millisecondsOf(retry_after) ?? 30_000;
    return new RefusedError(says, { retryAfterMs });
  }
  if (RETRIED.has(error)) return new RefusedError(says);
  return UNKNOWN.has(error) ? new Error(says) : new UndeliverableError(says);
}
