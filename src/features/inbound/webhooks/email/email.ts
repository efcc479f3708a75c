/** Receives e-mail of Email Routing: each one is an arrival. Without Zod. */

import { isAutoReplyEmail } from "agents/email";
import { bytesUpTo } from "../../../../core/bytes-up-to.ts";
import type { Json } from "../../../../core/json.ts";
import type { Duration } from "../../../../core/options/options.ts";
import { countOf, invalidOption } from "../../../../core/options/options.ts";
import type { Destination } from "../../../../outbox/destinations/index.ts";
import type { RawArrival } from "../../protocol.ts";
import {
  checkSource,
  durationOf,
  InvalidBodyError,
  logRefused,
  nameOf,
  rawArrivalOf,
  type SchemaOption,
  type SourceOptions,
  sourceOf,
} from "../sources/source.ts";
import { sha256Hex } from "../verify.ts";
import { authenticationOf } from "./authentication.ts";
import { ADDRESS, bodyOf, type EmailBody, EmailTooLargeError, idsIn, senderOf } from "./body.ts";
import { type Header, headerOf, MalformedEmailError, parseMime } from "./mime.ts";

/** The `email` handler of a Worker. */
export type EmailHandler = (
  message: ForwardableEmailMessage,
  env: Cloudflare.Env,
  ctx: ExecutionContext,
) => Promise<void>;

export type EmailOptions<Body, Target> = SourceOptions<Body, Target> &
  SchemaOption<Body> & {
    /**
     * The name of the source. E-mails are deduplicated by it, their Message-ID, their sender and their recipient.
     * @default "email"
     */
    readonly name?: string;
    /**
     * The name of the `send_email` binding in `env` that answers are sent by.
     * @default none: `arrival.reply` is undefined
     */
    readonly binding?: string;
    /**
     * The address that answers are sent from.
     * @default the address that the e-mail was delivered to
     */
    readonly from?: string;
    /**
     * Which senders are believed. `"dmarc"`: the domain of From has sent the e-mail, as DMARC says; for a domain without a
     * DMARC policy, a DKIM signature or SPF of that domain. `"none"`: From is not checked. Use it for local tests, where
     * no server checks e-mails.
     * @default "dmarc"
     */
    readonly authentication?: "dmarc" | "none";
    /**
     * The name of the server in the Authentication-Results header that is believed.
     * @default "mx.cloudflare.net"
     */
    readonly authenticationServer?: string;
    /**
     * What happens to an e-mail of which `authenticationServer` has said nothing, as no header of it is there. `"hold"`: the
     * agent stores it, its handler does not run, a finding of the health report says so, and `inbound.replay()` runs the
     * handler. The sending server gets a temporary error: if it tries again when there are results, the e-mail is handled.
     * `"refuse"`: as `refused` says.
     * @default "hold"
     */
    readonly unverified?: "hold" | "refuse";
    /**
     * What happens to an e-mail that can never be accepted: not authenticated, too large, malformed, or not as the schema
     * expects it. `"reject"` lets its sender know, `"drop"` does not. It is logged in both cases.
     * @default "reject"
     */
    readonly refused?: "reject" | "drop";
    /**
     * What happens to auto-replies, bounces, newsletters and e-mails of mailing lists.
     * @default "ignore", so that no automatic e-mail is answered by another one
     */
    readonly automatic?: "ignore" | "accept";
    /**
     * Bytes of an e-mail with its attachments, at most 25 MiB.
     * @default 5_242_880
     */
    readonly maxBytes?: number;
    /**
     * Bytes of attachments whose content is in the body, at most 400 KiB. Of further ones it has the name, type and size.
     * @default 131_072
     */
    readonly maxAttachmentBytes?: number;
    /**
     * The time limit of the agent's acceptance, at most 5 minutes. The sending server tries again after it.
     * @default "30 seconds"
     */
    readonly timeout?: Duration;
  };

const NAMES = [
  ...[
    "schema",
    "binding",
    "from",
    "authentication",
    "authenticationServer",
    "unverified",
    "refused",
  ],
  ...["automatic", "maxBytes", "maxAttachmentBytes", "timeout"],
];
/** https://developers.cloudflare.com/email-routing/limits/ */
const MIB = 1_024 * 1_024;
const MAX_BYTES = 25 * MIB;
const MAX_ATTACHMENT_BYTES = 400 * 1_024;
const MAX_TIMEOUT_MS = 5 * 60_000;
/** Servers that an e-mail may have passed. */
const MAX_HOPS = 50;

/** Of the References of an answer: the first one, and the latest ones. */
const MAX_REFERENCE_CHARS = 8_000;

type Settings = Omit<EmailOptions<never, unknown>, "agent" | "handle" | "schema">;

/** It is stored. */
class HeldError extends Error {
  override readonly name = "HeldError";
}

/** Nothing proves that the domain of From has sent the e-mail. */
class UnauthenticatedError extends Error {
  override readonly name = "UnauthenticatedError";
}

/**
 * Makes the `email` handler of a Worker. An e-mail is accepted when an agent has accepted it, or when it was filtered. When the
 * agent has no room, cannot be reached or fails, the handler throws: Email Routing answers with a temporary error, and the
 * sending server tries again, for days as a rule. The agent accepts the e-mail once.
 *
 * @throws InvalidOptionError
 * @example
 * export default {
 *   email: email({
 *     binding: "EMAIL",
 *     agent: ({ body }, env) => getAgentByName(env.Support, body.from),
 *     handle: ({ body, reply }, agent) =>
 *       agent.submitMessages([messageOf(body.text)], { thread: body.thread, notify: reply }),
 *   }),
 * };
 */
export function email<Target, Body = EmailBody>(options: EmailOptions<Body, Target>): EmailHandler {
  checkSource("the options of email()", options, NAMES);
  const settings = settingsOf(options);
  const { name, binding, sender, timeoutMs } = settings;
  const receive = sourceOf(name, options, (body) => ({
    reply:
      binding === undefined ? undefined : replyTo(body as unknown as EmailBody, binding, sender),
  }));
  return async (message, env) => {
    let arrival: RawArrival | undefined;
    try {
      const received = await arrivalIn(message, settings);
      if (received === undefined) return;
      arrival = received.arrival;
      const { held } = received;
      const { verdict, error } = await receive(arrival, env, timeoutMs, { held });
      if (verdict === "refused") throw error;
      if (verdict === "held") throw new HeldError(held);
    } catch (error) {
      logRefused(name, arrival?.id ?? "", error);
      const reason = reasonOf(error);
      if (reason === undefined) {
        const end = error instanceof HeldError ? "stored, and not handled" : "not accepted";
        const text = `The e-mail was ${end} now. The sending server tries again.`;
        throw new Error(text, { cause: error });
      }
      if (settings.isRejecting) message.setReject(reason);
    }
  };
}

function settingsOf(options: Settings) {
  const { binding, from, authenticationServer = "mx.cloudflare.net" } = options;
  const { maxBytes = 5 * MIB, maxAttachmentBytes = 128 * 1_024, timeout = "30 seconds" } = options;
  if (binding !== undefined && !/^[A-Za-z_]\w{0,99}$/.test(binding)) {
    throw invalidOption("binding", binding, 'the name of a send_email binding, e.g. "EMAIL"');
  }
  if (from !== undefined && !ADDRESS.test(from)) {
    throw invalidOption("from", from, 'one address without a name, e.g. "help@example.com"');
  }
  if (!/^[\w.:-]{1,253}$/.test(authenticationServer)) {
    throw invalidOption("authenticationServer", authenticationServer, "the name of a server");
  }
  const oneOf = <Value extends string>(
    option: string,
    value: Value,
    other: Value,
    given = value,
  ) => {
    if (given === value || given === other) return given === value;
    throw invalidOption(option, given, `"${value}" or "${other}"`);
  };
  return {
    name: nameOf(options.name ?? "email"),
    binding,
    sender: from,
    server: authenticationServer,
    isStrict: oneOf("authentication", "dmarc", "none", options.authentication),
    isHolding: oneOf("unverified", "hold", "refuse", options.unverified),
    isRejecting: oneOf("refused", "reject", "drop", options.refused),
    isIgnoring: oneOf("automatic", "ignore", "accept", options.automatic),
    maxBytes: countOf("maxBytes", maxBytes, MAX_BYTES),
    maxAttachmentBytes: countOf("maxAttachmentBytes", maxAttachmentBytes, MAX_ATTACHMENT_BYTES),
    timeoutMs: durationOf("timeout", timeout, MAX_TIMEOUT_MS),
  };
}

/** The reason of a permanent refusal, or undefined: the sending server may try again. */
function reasonOf(error: unknown): string | undefined {
  if (error instanceof EmailTooLargeError || error instanceof MalformedEmailError) {
    return error.reason;
  }
  if (error instanceof UnauthenticatedError) return "Message could not be authenticated";
  return error instanceof InvalidBodyError ? "Message was not accepted" : undefined;
}

type Received = {
  readonly arrival: RawArrival;
  /** Why nothing shows who sent it. */
  readonly held: string | undefined;
};

/**
 * The arrival, or undefined for an e-mail that is ignored.
 *
 * @throws EmailTooLargeError, MalformedEmailError, UnauthenticatedError
 */
async function arrivalIn(
  message: ForwardableEmailMessage,
  settings: ReturnType<typeof settingsOf>,
): Promise<Received | undefined> {
  const raw = await rawOf(message, settings.maxBytes);
  const email = parseMime(raw);
  const { headers } = email;
  const from = senderOf(headers)?.address;
  const own = [message.to, settings.sender].map((address) => address?.toLowerCase());
  const isLoop = from !== undefined && own.includes(from);
  if (isLoop || hopsOf(headers) > MAX_HOPS) return undefined;
  if (settings.isIgnoring && isAutomatic(message.from, from, headers)) return undefined;
  const { isAuthentic, isUnverified, ...authentication } = authenticationOf(headers, {
    server: settings.server,
    envelopeFrom: message.from,
    fromDomain: from?.slice(from.lastIndexOf("@") + 1),
  });
  const isHeld = settings.isStrict && settings.isHolding && isUnverified === true;
  if (settings.isStrict && !isAuthentic && !isHeld) {
    const { spf, dkim, dmarc } = authentication;
    throw new UnauthenticatedError(`spf=${spf}, dkim=${dkim}, dmarc=${dmarc}`);
  }
  const messageId = idsIn(headerOf(headers, "message-id"))[0] ?? (await sha256Hex(raw));
  const id = await sha256Hex([messageId, from, message.to].join("\n"));
  const { maxAttachmentBytes } = settings;
  const body = bodyOf(email, message, authentication, { maxAttachmentBytes, thread: id });
  const about = { source: settings.name, id, type: "" };
  const arrival = await rawArrivalOf(about, body as unknown as Json, raw);
  // The headers of servers differ in each attempt of the sending server.
  const hash = await sha256Hex(JSON.stringify({ ...body, authentication: null }));
  const held = `UnauthenticatedError: it has no results of the server ${settings.server}`;
  return { arrival: { ...arrival, hash }, held: isHeld ? held : undefined };
}

/** @throws EmailTooLargeError as soon as there are more bytes */
async function rawOf({ raw, rawSize }: ForwardableEmailMessage, maxBytes: number) {
  const refusal = (bytes: string) =>
    new EmailTooLargeError(`It has ${bytes} bytes, and the limit maxBytes is ${maxBytes}.`);
  if (rawSize > maxBytes) throw refusal(String(rawSize));
  const bytes = await bytesUpTo(raw, maxBytes);
  if (!bytes) throw refusal(`more than ${maxBytes}`);
  return bytes;
}

function hopsOf(headers: readonly Header[]): number {
  return headers.filter(({ name }) => name === "received").length;
}

/** Bounces have no sender. https://www.rfc-editor.org/rfc/rfc3834 */
function isAutomatic(
  envelopeFrom: string,
  from: string | undefined = "",
  headers: readonly Header[],
): boolean {
  if (/^(<?>?$|mailer-daemon@)/i.test(envelopeFrom) || /^mailer-daemon@/i.test(from)) return true;
  // A person can write as postmaster, but not by an address for bounces.
  if (/^postmaster@/i.test(from) && /^bounces?\b/i.test(envelopeFrom)) return true;
  if (isAutoReplyEmail(headers.map(({ name, value }) => ({ key: name, value })))) return true;
  return headers.some(
    ({ name, value }) =>
      /^(list-(id|post|help|unsubscribe|subscribe|owner|archive)|x-auto(reply|respond)|x-failed-recipients|x-loop|x-perdure-delivery)$/.test(
        name,
      ) ||
      (name === "precedence" && /^auto.?reply$/i.test(value)) ||
      (name === "content-type" && /^multipart\/report\b/i.test(value)),
  );
}

/** To the address in From. Reply-To is not followed: authentication does not cover it. */
function replyTo(body: EmailBody, binding: string, sender = body.to): Destination | undefined {
  if (!ADDRESS.test(sender)) return undefined;
  const { from: to, messageId, references } = body;
  const subject = body.subject.replace(/^(re:\s*)+/i, "");
  const ids = messageId === undefined ? references : [...references, messageId];
  // The latest ones in the room that the first one leaves.
  const [first, ...later] = ids;
  while ([first, ...later].join(" ").length > MAX_REFERENCE_CHARS) later.shift();
  return {
    kind: "email",
    binding,
    from: sender,
    to,
    ...(subject !== "" && { subject: `Re: ${subject}` }),
    ...(messageId !== undefined && { inReplyTo: messageId }),
    ...(first !== undefined && { references: [first, ...later].join(" ") }),
  };
}
