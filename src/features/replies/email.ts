/**
 * Sends an e-mail by a `send_email` binding of Cloudflare Email Service.
 *
 * The service does not recognize a repetition, and sets the Message-ID itself: an attempt whose outcome is not known becomes
 * a dead letter. The header `X-Perdure-Delivery` is the same on every attempt. Limits are retried. Every other error with a
 * code is a permanent failure; one without a code, and an internal error, leave the outcome unknown.
 * https://developers.cloudflare.com/email-service/api/send-emails/workers-api/
 * https://developers.cloudflare.com/email-service/reference/headers/
 */

import { because, failureOf } from "../../core/failures.ts";
import { byteLength, preview } from "../../core/json.ts";
import { oneOf, optionsOf } from "../../core/options/option-schemas.ts";
import { invalidMessage } from "../../core/options/options.ts";
import { digest } from "../../core/text.ts";
import { POLICY } from "../../outbox/delivery/policy.ts";
import type { WithPolicy } from "../../outbox/destinations/adapter.ts";
import { NAME } from "../../outbox/destinations/bindings.ts";
import { RefusedError, UndeliverableError } from "../../outbox/errors.ts";
import { matching, replyKind } from "./kind.ts";
import type { MessageRules } from "./message.ts";

/** An e-mail address. */
export type EmailDestination = WithPolicy & {
  readonly kind: "email";
  /** The name of the `send_email` binding in `env`. */
  readonly binding: string;
  /** An address of a domain that was onboarded to Email Service. */
  readonly from: string;
  readonly to: string;
  /**
   * The event's `subject` replaces it.
   * @default "Re: your message"
   */
  readonly subject?: string;
  /** The Message-ID of the e-mail that it answers, with its angle brackets. */
  readonly inReplyTo?: string;
  /** The Message-IDs of the thread, oldest first, separated by spaces: the References of the e-mail that it answers. */
  readonly references?: string;
};

/**
 * An e-mail address, by a `send_email` binding of Cloudflare Email Service. The event is a text, or `{ text }` with
 * `subject` or `html`. The e-mail says that it was sent automatically, so that no auto-reply answers it. A text above
 * 1,000,000 characters is cut.
 *
 * @example
 * this.outbox.put(
 *   email({ binding: "EMAIL", from: "shop@example.com", to: "ann@example.org", subject: "Your order" }),
 *   { text: "It has left." },
 * );
 */
export function email(to: Omit<EmailDestination, "kind">): EmailDestination {
  return { kind: "email", ...to };
}

const RULES: MessageRules = { kind: "email", maxLength: 1_000_000, fields: ["subject", "html"] };
const DEFAULT_SUBJECT = "Re: your message";
const MAX_ADDRESS = 254;
/** https://developers.cloudflare.com/email-service/platform/limits/ */
const MAX_SUBJECT = 998;
const MAX_HEADER_BYTES = 2_048;
const MAX_REFERENCES = 8_192;
/** One address alone: no name, no list, no white space. */
const ADDRESS = /^[^\s\p{C}@<>()[\]\\,;:"]{1,64}@[^\s\p{C}@<>()[\]\\,;:"]{1,253}$/u;
const MESSAGE_ID = /^<[^\s\p{C}<>]{1,996}>$/u;

/** Not acted on. How long to wait, in milliseconds: the service does not say. */
const LIMITED: Readonly<Record<string, number>> = {
  E_RATE_LIMIT_EXCEEDED: 60_000,
  E_DAILY_LIMIT_EXCEEDED: 3_600_000,
};
const UNKNOWN = "E_INTERNAL_SERVER_ERROR";

const rule = (isValid: (value: string) => boolean, expected: string) =>
  matching((value) => value.isWellFormed() && isValid(value), expected);
const address = () =>
  rule(
    (value) => value.length <= MAX_ADDRESS && ADDRESS.test(value),
    'one address without a name, such as "ann@example.org"',
  );
const SUBJECT = `1 to ${MAX_SUBJECT} characters without line breaks or other control characters`;
const isSubject = (value: string) =>
  value.trim() !== "" && value.length <= MAX_SUBJECT && !/\p{Cc}|[\u2028\u2029]/u.test(value);

export const emails = replyKind<EmailDestination>("Email Service", {
  schema: optionsOf<EmailDestination>()({
    kind: oneOf(["email"]),
    binding: NAME,
    from: address(),
    to: address(),
    subject: rule(isSubject, SUBJECT).optional(),
    inReplyTo: rule(
      (id) => MESSAGE_ID.test(id),
      'a Message-ID, such as "<id@example.org>"',
    ).optional(),
    references: rule(
      (ids) => ids.length <= MAX_REFERENCES && ids.split(" ").every((id) => MESSAGE_ID.test(id)),
      'Message-IDs with one space between them, such as "<a@example.org> <b@example.org>"',
    ).optional(),
    policy: POLICY.optional(),
  }),
  rules: RULES,
  limits: { repeatableMs: 0 },
  keyOf: ({ binding, to }) => [binding, to.toLowerCase()],
  // The address itself is personal data.
  labelOf: ({ binding, to }) => `${binding} to ${masked(to)}`,
  problemOf({ binding }, env) {
    if (isSender(Reflect.get(env, binding))) return undefined;
    const expected =
      'expected the name of a send_email binding. Add it to "send_email" in the Wrangler configuration';
    return { field: "binding", given: preview(binding), expected };
  },
  problemOfEvent: problemOfExtras,
  async send(to, { text, extras, id, event, env, attempt }) {
    const problem = problemOfExtras(event);
    if (problem) throw new UndeliverableError(problem);
    const sender: unknown = Reflect.get(env, to.binding);
    if (!isSender(sender)) {
      const missing = `No send_email binding ${preview(to.binding)} in this Worker. Add it to "send_email" in the Wrangler configuration and deploy.`;
      throw because(new Error(missing), "binding-missing");
    }
    const { subject, html } = extras as { subject?: string; html?: string };
    await attempt.markSending();
    try {
      await sender.send({
        from: to.from,
        to: to.to,
        subject: subject ?? to.subject ?? DEFAULT_SUBJECT,
        text,
        ...(html !== undefined && { html }),
        headers: headersOf(to, id),
      });
    } catch (error) {
      throw errorOf(error, to.to);
    }
  },
});

/** In local development it is a binding to another Worker, which answers to every name. */
function isSender(binding: unknown): binding is SendEmail {
  if (typeof binding !== "object" || binding === null) return false;
  const has = (method: string) => typeof Reflect.get(binding, method) === "function";
  return has("send") && (!has("sendBatch") || has("perdureAsksForNothing"));
}

function problemOfExtras(event: unknown): string | undefined {
  const { subject, html } = Object(event) as Record<string, unknown>;
  if (subject !== undefined && !(typeof subject === "string" && isSubject(subject))) {
    return invalidMessage("event.subject", preview(subject), `expected ${SUBJECT}`);
  }
  if (html === undefined || (typeof html === "string" && html.length <= RULES.maxLength)) {
    return undefined;
  }
  const expected = `expected HTML of at most ${RULES.maxLength} characters`;
  const given = typeof html === "string" ? `of ${html.length} characters` : preview(html);
  return invalidMessage("event.html", given, expected);
}

/** Of an automatic answer (https://www.rfc-editor.org/rfc/rfc3834#section-3.1) in its thread. */
function headersOf({ inReplyTo, references }: EmailDestination, id: string) {
  const thread = [
    ...new Set([...(references?.split(" ") ?? []), ...(inReplyTo ? [inReplyTo] : [])]),
  ];
  // Clients find the conversation by the first one and the newest.
  while (byteLength(thread.join(" ")) > MAX_HEADER_BYTES)
    thread.splice(thread.length > 2 ? 1 : 0, 1);
  return {
    "Auto-Submitted": inReplyTo === undefined ? "auto-generated" : "auto-replied",
    "X-Perdure-Delivery": digest(id),
    ...(inReplyTo !== undefined && { "In-Reply-To": inReplyTo }),
    ...(thread.length > 0 && { References: thread.join(" ") }),
  };
}

const masked = (address: string) => `an address at ${address.slice(address.indexOf("@") + 1)}`;

/** @param to the recipient, whom the service may name */
function errorOf(error: unknown, to: string): Error {
  const { code } = Object(error) as { code?: unknown };
  const address = new RegExp(`<?${to.replace(/\W/g, "\\$&")}>?`, "gi");
  const message = failureOf(error).message.replace(address, () => masked(to));
  const says = `Email Service answered ${typeof code === "string" ? `${code}: ` : ""}${message}`;
  if (typeof code !== "string" || !code.startsWith("E_") || code === UNKNOWN)
    return new Error(says);
  const retryAfterMs = Object.hasOwn(LIMITED, code) ? LIMITED[code] : undefined;
  return retryAfterMs === undefined
    ? new UndeliverableError(says)
    : new RefusedError(says, { retryAfterMs });
}
