/**
 * Sends a message to Slack: with a bot's token by `chat.postMessage`, or to the `response_url` of a command or a click.
 *
 * Slack does not recognize a repetition: an attempt whose outcome is not known becomes a dead letter. Answers with
 * `ok: false` are permanent failures, but for tokens (`TOKEN_REFUSED`) and passing troubles (`RETRIED`), and for errors after which the
 * message may have been posted (`UNKNOWN`).
 * https://docs.slack.dev/reference/methods/chat.postMessage
 * https://docs.slack.dev/interactivity/handling-user-interaction#message_responses
 */

import { because } from "../../core/failures.ts";
import { oneOf, optionsOf } from "../../core/options/option-schemas.ts";
import { digest } from "../../core/text.ts";
import { POLICY } from "../../outbox/delivery/policy.ts";
import type { WithPolicy } from "../../outbox/destinations/adapter.ts";
import { SECRET_NAME } from "../../outbox/destinations/requests.ts";
import { RefusedError, UndeliverableError } from "../../outbox/errors.ts";
import { matching, oneForm, replyKind } from "./kind.ts";
import { parseMarkdown, type Span } from "./markdown.ts";
import type { MessageRules } from "./message.ts";
import { failureIn, millisecondsOf, objectIn, type ProviderResponse } from "./provider.ts";

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
 * `unfurl_links`, `unfurl_media`, `reply_broadcast`, `response_type`, `replace_original` or `delete_original`. The text
 * is Markdown, and is sent as Slack's mrkdwn; with `mrkdwn`, it is sent as it is. `&`, `<` and `>` are escaped, so that it
 * has no mentions. A text above 40,000 characters is cut.
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

const FENCE = "```";

/** https://docs.slack.dev/messaging/formatting-message-text#escaping */
const escapeText = (text: string) =>
  text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

/** https://docs.slack.dev/messaging/formatting-message-text#basic-formatting */
function toMrkdwn(markdown: string): string {
  const lines = parseMarkdown(markdown).map((block) => {
    if (block.kind === "line") return toLine(block.spans);
    return `${FENCE}\n${escapeText(block.text.replaceAll(FENCE, "`\u200B``"))}\n${FENCE}`;
  });
  return lines.join("\n");
}

function toLine(spans: readonly Span[]): string {
  let last = "";
  const shown = spans.map((span, at) => {
    const text = toSpan(span);
    const [before, after] = [last.slice(-1), text.slice(0, 1)];
    last = text;
    // Marks work only beside spaces and punctuation.
    const joins = hasMarks(span) && /[*_~`]/.test(after) && /[\p{L}\p{N}*_~`]/u.test(before);
    const follows = hasMarks(spans[at - 1]) && /[*_~`]/.test(before) && /[\p{L}\p{N}]/u.test(after);
    return joins || follows ? `\u200B${text}` : text;
  });
  return shown.join("");
}

const hasMarks = (span: Span | undefined) =>
  (span?.isBold ?? span?.isItalic ?? span?.isStruck ?? span?.isCode) === true;

function toSpan({ text, href, isCode, isBold, isItalic, isStruck }: Span): string {
  if (isCode) return `\`${escapeText(text)}\``;
  const url = href?.replaceAll("|", "%7C").replaceAll("<", "%3C").replaceAll(">", "%3E");
  const label = escapeText(text);
  const inner =
    url === undefined || text === href || text.trim() === ""
      ? label
      : `<${escapeText(url)}|${label}>`;
  const marks = `${isBold ? "*" : ""}${isItalic ? "_" : ""}${isStruck ? "~" : ""}`;
  const core = inner.trim();
  if (marks === "" || core === "") return inner;
  return inner.replace(core, () => marks + core + [...marks].reverse().join(""));
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
  // Where the app sets `mrkdwn`, the text has Slack's own markup, or none.
  render: (text, { isMarkdown, extras }) => ({
    text: isMarkdown && extras.mrkdwn === undefined ? toMrkdwn(text) : escapeText(text),
  }),
  repair(text) {
    const whole = text.replace(/(&[a-z]{0,3}|<[^<>]*)$/, "");
    return whole.split(FENCE).length % 2 === 1
      ? whole
      : `${whole.slice(0, -FENCE.length - 1)}\n${FENCE}`;
  },
};

const API = "https://slack.com/api";
const CHANNEL = /^[CDGUW][A-Z0-9]{2,30}$/;
const TIMESTAMP = /^\d{1,12}\.\d{1,6}$/;
const MAX_URL = 1_024;

/** Not acted on, and another attempt may succeed with another token. */
const TOKEN_REFUSED: ReadonlySet<string> = new Set([
  "account_inactive",
  "invalid_auth",
  "not_authed",
  "token_expired",
  "token_revoked",
]);
/** Not acted on, because of a passing trouble. */
const RETRIED: ReadonlySet<string> = new Set(["request_timeout", "team_added_to_org"]);
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

export const slackMessages = replyKind<SlackDestination>("Slack", {
  api: "slack",
  schema: optionsOf<SlackDestination>()({
    kind: oneOf(["slack"]),
    token: SECRET_NAME.optional(),
    channel: matching(CHANNEL, 'the id of a channel, such as "C0123456789"').optional(),
    thread: matching(TIMESTAMP, 'the ts of a message, such as "1712345678.123456"').optional(),
    responseUrl: matching(
      isResponseUrl,
      "a response_url of Slack, which begins with https://hooks.slack.com/",
      false,
    ).optional(),
    policy: POLICY.optional(),
  }).check(
    oneForm(({ token, channel, thread, responseUrl }) => {
      if (responseUrl !== undefined) {
        const isBoth = (token ?? channel ?? thread) !== undefined;
        return isBoth && ["responseUrl", "either responseUrl alone, or channel with token"];
      }
      if (channel === undefined) return ["channel", "the id of a channel, or responseUrl"];
      return token === undefined && ["token", "the name of a secret in env"];
    }),
  ),
  rules: RULES,
  limits: { repeatableMs: 0 },
  keyOf: ({ token, channel, responseUrl }) =>
    responseUrl === undefined ? [token, channel] : digest(responseUrl),
  labelOf: ({ channel }) => channel ?? "response_url",
  async send(to, { text, extras, api = API, attempt, ...sending }) {
    const body = { ...extras, link_names: false, text };
    if (to.responseUrl !== undefined) {
      const { responseUrl: url } = to;
      await attempt.markSending();
      const secrets = [url, new URL(url).pathname];
      return sending.request({ url, body, secrets }, (response) => failureOf(response, true));
    }
    const token = await sending.token(to.token);
    await attempt.markSending();
    const call = {
      url: `${api}/chat.postMessage`,
      headers: { authorization: `Bearer ${token}` },
      body: { ...body, channel: to.channel, ...(to.thread && { thread_ts: to.thread }) },
      secrets: [token],
    };
    return sending.request(call, (response) => failureOf(response, false));
  },
});

function isResponseUrl(value: string): boolean {
  if (value.length > MAX_URL) return false;
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
  // Slack answers so with the status 200.
  if (TOKEN_REFUSED.has(error)) return because(new RefusedError(says), "answered", 401);
  if (RETRIED.has(error)) return new RefusedError(says);
  return UNKNOWN.has(error) ? new Error(says) : new UndeliverableError(says);
}
