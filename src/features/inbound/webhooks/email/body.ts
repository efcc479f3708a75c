/** What a handler receives of an e-mail: its text, its people, and the conversation that it is part of. Pure. */

import { addressParser, decodeWords } from "postal-mime";
import { byteLength } from "../../../../core/json.ts";
import type { AuthenticationResults } from "./authentication.ts";
import { textOfHtml } from "./html-text.ts";
import {
  type Email,
  type Header,
  headerOf,
  MalformedEmailError,
  type Part,
  textIn,
} from "./mime.ts";

export type EmailAttachment = {
  /** "" where it has none. */
  readonly name: string;
  /** E.g. `application/pdf`. */
  readonly type: string;
  readonly bytes: number;
  /** In base64. Left out when the attachments before it and this one have more than `maxAttachmentBytes`. */
  readonly content?: string;
};

/** An e-mail. Its texts are the sender's, so treat them as such: they may instruct a model. */
export type EmailBody = {
  /** The address in From, in lower case: the one that `authentication` is about. */
  readonly from: string;
  /** The name in From, or "". */
  readonly fromName: string;
  /** The address that it was delivered to, from its envelope, in lower case. */
  readonly to: string;
  /** The addresses in To and Cc, in lower case; the first 100. */
  readonly recipients: readonly string[];
  readonly subject: string;
  /** The plain text; of HTML alone, the text in it. */
  readonly text: string;
  /** Left out above 400 KiB. */
  readonly html?: string;
  /** The Message-ID, with its angle brackets. */
  readonly messageId?: string;
  /** The Message-ID of the e-mail that it answers. */
  readonly inReplyTo?: string;
  /** The Message-IDs of the conversation, oldest first: the first one, and the latest 30. */
  readonly references: readonly string[];
  /**
   * The same for all e-mails of a conversation, and fit to be the `thread` of a turn: the Message-ID of its first e-mail,
   * without brackets. The sender chooses it, so select the agent by `from` or `to`, and only the thread by this.
   */
  readonly thread: string;
  /** When it was written, as the sender says, in ISO 8601. */
  readonly date?: string;
  readonly attachments: readonly EmailAttachment[];
  readonly authentication: AuthenticationResults;
};

/** The e-mail has more text than an arrival can hold. */
export class EmailTooLargeError extends Error {
  override readonly name = "EmailTooLargeError";

  /** @param reason what the sending server is answered */
  constructor(
    message: string,
    readonly reason = "Message too large",
  ) {
    super(message);
  }
}

const MAX_TEXT_BYTES = 400 * 1_024;
/** Of the body as JSON. The agent stores bodies up to 1.5 MB. */
const MAX_BODY_BYTES = 1_400_000;
const MAX_RECIPIENTS = 100;
const MAX_REFERENCES = 31;
/** Of a header that has addresses or Message-IDs. */
const MAX_LIST = 16_384;
const MAX_SUBJECT = 500;
const MAX_NAME = 200;
const MAX_ATTACHMENTS = 100;

/** As the outbox accepts it for a reply. */
export const ADDRESS = /^[^\s\p{C}@<>()[\]\\,;:"]{1,64}@[^\s\p{C}@<>()[\]\\,;:"]{1,189}$/u;

type Envelope = { readonly to: string };

/**
 * @param thread of the e-mail where it has no Message-ID
 * @throws EmailTooLargeError, MalformedEmailError
 */
export function bodyOf(
  email: Email,
  { to }: Envelope,
  authentication: AuthenticationResults,
  { maxAttachmentBytes, thread }: { readonly maxAttachmentBytes: number; readonly thread: string },
): EmailBody {
  const { headers, parts } = email;
  const from = senderOf(headers);
  if (!from) throw new MalformedEmailError("Expected one From header with one address.");
  const inline = (type: string) =>
    parts.filter((part) => part.type === type && !part.isAttachment && part.filename === undefined);
  const html = textOf(inline("text/html"));
  const plain = textOf(inline("text/plain"));
  const attached = parts.filter(
    (part) =>
      part.isAttachment || part.filename !== undefined || !/^text\/(plain|html)$/.test(part.type),
  );
  if (attached.length > MAX_ATTACHMENTS) {
    throw new MalformedEmailError(
      `It has ${attached.length} attachments, and the limit is ${MAX_ATTACHMENTS}.`,
      "The message has too many attachments",
    );
  }
  const messageId = idsIn(headerOf(headers, "message-id"))[0];
  const inReplyTo = idsIn(headerOf(headers, "in-reply-to"))[0];
  const references = referencesOf(headers);
  const root = references[0] ?? inReplyTo ?? messageId;
  const written = Date.parse(headerOf(headers, "date") ?? "");
  const body = {
    from: from.address,
    fromName: from.name,
    to: to.toLowerCase().slice(0, 320).toWellFormed(),
    recipients: recipientsOf(headers),
    subject: lineOf(headerOf(headers, "subject"), MAX_SUBJECT),
    text: plain.trim() === "" ? textOfHtml(html) : plain,
    ...(html !== "" && byteLength(html) <= MAX_TEXT_BYTES && { html }),
    ...(messageId !== undefined && { messageId }),
    ...(inReplyTo !== undefined && { inReplyTo }),
    references,
    thread: root === undefined ? thread : root.slice(1, -1),
    ...(!Number.isNaN(written) && { date: new Date(written).toISOString() }),
    attachments: attachmentsOf(attached, maxAttachmentBytes),
    authentication,
  };
  return fitting(body);
}

/** Leaves out the HTML, then the contents of attachments, until it fits. @throws EmailTooLargeError */
function fitting(body: EmailBody): EmailBody {
  const fits = (one: EmailBody) => byteLength(JSON.stringify(one)) <= MAX_BODY_BYTES;
  if (fits(body)) return body;
  const { html: _, ...rest } = body;
  if (fits(rest)) return rest;
  const attachments = rest.attachments.map(({ content: _, ...about }) => about);
  const least = { ...rest, attachments };
  if (fits(least)) return least;
  throw new EmailTooLargeError(
    `Its text takes ${byteLength(JSON.stringify(least))} bytes as JSON, and the limit is ${MAX_BODY_BYTES}.`,
    "The message's text is too large",
  );
}

function textOf(parts: readonly Part[]): string {
  return parts.map(({ content, charset }) => textIn(content, charset)).join("\n");
}

/** The only address in the only From header; undefined where there is none, or more. */
export function senderOf(
  headers: readonly Header[],
): { readonly address: string; readonly name: string } | undefined {
  const [from, ...more] = headers.filter(({ name }) => name === "from");
  if (!from || more.length > 0 || from.value.length > MAX_LIST) return undefined;
  const [mailbox, ...others] = addressParser(from.value);
  const address = mailbox?.address?.toLowerCase();
  if (address === undefined || others.length > 0 || !ADDRESS.test(address)) return undefined;
  return { address, name: lineOf(mailbox?.name, MAX_NAME) };
}

function recipientsOf(headers: readonly Header[]): string[] {
  const values = headers.filter(({ name }) => name === "to" || name === "cc");
  const text = values.map(({ value }) => value).join(", ");
  const cut = text.length > MAX_LIST ? text.slice(0, text.lastIndexOf(",", MAX_LIST)) : text;
  const mailboxes = addressParser(cut, { flatten: true });
  const addresses = mailboxes.flatMap(({ address }) => address?.toLowerCase() ?? []);
  return addresses.filter((address) => ADDRESS.test(address)).slice(0, MAX_RECIPIENTS);
}

/** The first reference and the latest ones; of an e-mail without References, what it answers. */
function referencesOf(headers: readonly Header[]): string[] {
  const [first, ...later] = [
    ...new Set([
      ...idsIn(headerOf(headers, "references")),
      ...idsIn(headerOf(headers, "in-reply-to")).slice(0, 1),
    ]),
  ];
  return first === undefined ? [] : [first, ...later.slice(1 - MAX_REFERENCES)];
}

/** The Message-IDs in a header, with their brackets. One without an @ is left out, so that a thread cannot be `main`. */
export function idsIn(header = ""): string[] {
  return header.slice(0, 65_536).match(/<[^\s\p{C}<>@]{1,500}@[^\s\p{C}<>@]{1,400}>/gu) ?? [];
}

/** A header as one line, without encoded words and control characters. */
function lineOf(value: string | undefined, most: number): string {
  const text = decodeWords((value ?? "").slice(0, MAX_LIST));
  const line = text.replace(/[\p{Cc}\p{Zl}\p{Zp}\s]+/gu, " ").trim();
  return line.slice(0, most).toWellFormed();
}

function attachmentsOf(parts: readonly Part[], maxBytes: number): EmailAttachment[] {
  let kept = 0;
  return parts.map(({ filename, type, content }) => {
    const bytes = content.byteLength;
    const about = {
      name: lineOf(filename, MAX_NAME),
      type: type.slice(0, MAX_NAME).toWellFormed(),
      bytes,
    };
    kept += bytes;
    return kept > maxBytes ? about : { ...about, content: content.toBase64() };
  });
}
