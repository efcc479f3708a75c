/**
 * Splits an e-mail into its headers and parts, within limits. Pure.
 *
 * postal-mime, which the agents SDK has, does not limit this work: 5 MB of empty lines take it 33 seconds and 6 GB, and 2 MB of
 * `<` in HTML take minutes. So only its readers of addresses and of encoded words are used.
 */

import { Buffer } from "node:buffer";

/** A header of an e-mail, without line breaks. */
export type Header = { readonly name: string; readonly value: string };

/** A part that has no parts. */
export type Part = {
  /** E.g. `text/plain`. */
  readonly type: string;
  readonly charset: string;
  readonly isAttachment: boolean;
  /** As written: it may have encoded words. */
  readonly filename: string | undefined;
  /** Decoded. */
  readonly content: Uint8Array;
};

export type Email = {
  /** The topmost first. Names are in lower case. */
  readonly headers: readonly Header[];
  readonly parts: readonly Part[];
};

/** The e-mail cannot be read, or is above a limit of {@link parseMime}. */
export class MalformedEmailError extends Error {
  override readonly name = "MalformedEmailError";

  /** @param reason what the sending server is answered */
  constructor(
    message: string,
    readonly reason = "Message could not be read",
  ) {
    super(message);
  }
}

/** Of the e-mail itself. Real ones have 2 to 30 KiB. */
const MAX_HEADER_BYTES = 64 * 1_024;
const MAX_PART_HEADER_BYTES = 8 * 1_024;
const MAX_PARTS = 200;
const MAX_DEPTH = 10;
/** Of a header that has parameters. */
const MAX_STRUCTURED = 4_096;

/** @throws MalformedEmailError */
export function parseMime(raw: Uint8Array): Email {
  const parts: Part[] = [];
  let count = 0;
  const text = binaryOf(raw);
  const { headers, body } = blockOf(text, MAX_HEADER_BYTES);
  const walk = (headers: readonly Header[], body: string, depth: number): void => {
    const { value, params } = structured(headerOf(headers, "content-type") ?? "text/plain");
    const boundary = value.startsWith("multipart/") ? params.boundary : undefined;
    if (boundary === undefined || boundary === "") {
      parts.push(leafOf(headers, body, value, params));
      return;
    }
    if (depth === MAX_DEPTH) {
      throw new MalformedEmailError(
        `Its parts are nested ${depth + 1} levels deep or more, and the limit is ${MAX_DEPTH}.`,
        "The message's parts are nested too deeply",
      );
    }
    for (const inner of sectionsOf(body, `--${boundary}`)) {
      if (++count > MAX_PARTS) {
        throw new MalformedEmailError(
          `It has ${count} parts or more, and the limit is ${MAX_PARTS}.`,
          "The message has too many parts",
        );
      }
      const part = blockOf(inner, MAX_PART_HEADER_BYTES);
      walk(part.headers, part.body, depth + 1);
    }
  };
  walk(headers, body, 0);
  return { headers, parts };
}

/** The first value of a header. */
export function headerOf(headers: readonly Header[], name: string): string | undefined {
  return headers.find((header) => header.name === name)?.value;
}

/** One character for each byte. */
const binaryOf = (raw: Uint8Array) => Buffer.from(raw).toString("latin1");

const bytesOf = (binary: string): Uint8Array => new Uint8Array(Buffer.from(binary, "latin1"));

/** Headers, and what follows their empty line. */
function blockOf(text: string, maxBytes: number): { headers: Header[]; body: string } {
  // Headers end with the first empty line, which can be the first line of all.
  const start = text.slice(0, maxBytes + 4);
  const end = /^\r?\n|\r?\n\r?\n/.exec(start);
  if (!end && text.length > maxBytes) {
    const length = /\r?\n\r?\n/.exec(text)?.index ?? text.length;
    throw new MalformedEmailError(
      `It has headers of ${length} bytes, and the limit is ${maxBytes}.`,
      "The message's headers are too large",
    );
  }
  const block = end ? start.slice(0, end.index) : text;
  const body = end ? text.slice(end.index + end[0].length) : "";
  const lines: string[][] = [];
  for (const line of new TextDecoder().decode(bytesOf(block)).split(/\r?\n/)) {
    if (/^[ \t]/.test(line)) lines.at(-1)?.push(line);
    else lines.push([line]);
  }
  const headers = lines.flatMap((folded) => {
    const line = folded.join(" ").replace(/\s+/g, " ");
    const colon = line.indexOf(":");
    if (colon < 1) return [];
    return { name: line.slice(0, colon).trim().toLowerCase(), value: line.slice(colon + 1).trim() };
  });
  return { headers, body };
}

/** The texts between the lines of a boundary. The last one may have no end. */
function sectionsOf(body: string, delimiter: string): string[] {
  const sections: string[] = [];
  let start: number | undefined;
  for (let at = body.indexOf(delimiter); at !== -1; at = body.indexOf(delimiter, at + 1)) {
    if (at > 0 && body[at - 1] !== "\n") continue;
    const after = at + delimiter.length;
    const rest = /^(--)?[ \t]{0,100}(\r?\n|$)/.exec(body.slice(after, after + 110));
    if (!rest) continue;
    // The line break before a delimiter belongs to it.
    if (start !== undefined) sections.push(body.slice(start, at).replace(/\r?\n$/, ""));
    if (sections.length > MAX_PARTS) return sections;
    start = after + rest[0].length;
    if (rest[1] !== undefined) return sections;
  }
  if (start !== undefined) sections.push(body.slice(start));
  return sections;
}

type Structured = { readonly value: string; readonly params: Readonly<Record<string, string>> };

/** A header with parameters, e.g. `text/plain; charset="utf-8"`. */
function structured(header: string): Structured {
  const text = header.slice(0, MAX_STRUCTURED);
  const params: Record<string, string> = {};
  for (const [, key = "", quoted, plain = ""] of text.matchAll(PARAMETER)) {
    params[key.toLowerCase()] = quoted?.replace(/\\(.)/g, "$1") ?? plain;
  }
  return { value: (text.split(";", 1)[0] ?? "").trim().toLowerCase(), params };
}

const PARAMETER = /;\s?([\w*.-]{1,60})\s?=\s?(?:"((?:[^"\\]|\\.)*)"|([^;\s"]*))/g;

function leafOf(
  headers: readonly Header[],
  body: string,
  type: string,
  { charset = "utf-8", ...params }: Structured["params"],
): Part {
  const disposition = structured(headerOf(headers, "content-disposition") ?? "");
  const encoding = (headerOf(headers, "content-transfer-encoding") ?? "").trim().toLowerCase();
  return {
    type,
    charset,
    isAttachment: disposition.value === "attachment",
    filename: nameIn(disposition.params, "filename") ?? nameIn(params, "name"),
    content: decoded(body, encoding),
  };
}

/** A name in one piece, or in the pieces of RFC 2231: `filename*0*=utf-8''a%20; filename*1=b`. */
function nameIn(params: Structured["params"], key: string): string | undefined {
  const plain = params[key];
  if (plain !== undefined) return plain;
  const pieces: string[] = [];
  const single = params[`${key}*`];
  if (single !== undefined) pieces.push(single);
  for (let n = 0; n < 20; n++) {
    const piece = params[`${key}*${n}*`] ?? params[`${key}*${n}`];
    if (piece === undefined) break;
    pieces.push(piece);
  }
  if (pieces.length === 0) return undefined;
  const [, charset = "utf-8", text = ""] =
    /^(?:([\w.-]{0,40})'[^']{0,40}')?(.*)$/.exec(pieces.join("")) ?? [];
  const binary = text.replace(/%([\da-f]{2})/gi, (_, hex: string) =>
    String.fromCharCode(parseInt(hex, 16)),
  );
  // Characters above a byte were not encoded.
  return /[^\0-\xff]/.test(binary) ? text : textIn(bytesOf(binary), charset);
}

function decoded(body: string, encoding: string): Uint8Array {
  if (encoding === "base64") {
    const digits = body.replace(/[^A-Za-z0-9+/]+/g, "");
    // A single last digit has no byte.
    return bytesOf(atob(digits.length % 4 === 1 ? digits.slice(0, -1) : digits));
  }
  if (encoding !== "quoted-printable") return bytesOf(body);
  const joined = body.replace(/=[ \t]{0,10}\r?\n/g, "");
  const byteOf = (_: string, hex: string) => String.fromCharCode(Number.parseInt(hex, 16));
  return bytesOf(joined.replace(/=([\da-f]{2})/gi, byteOf));
}

/** The text of bytes. An unknown charset is read as UTF-8. */
export function textIn(bytes: Uint8Array, charset: string): string {
  let decoder: TextDecoder;
  try {
    decoder = new TextDecoder(charset);
  } catch {
    decoder = new TextDecoder();
  }
  return decoder.decode(bytes).replace(/\r\n/g, "\n").toWellFormed();
}
