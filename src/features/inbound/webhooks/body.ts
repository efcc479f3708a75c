/** Reads and parses the body of a request. */

import type { Json } from "../../../core/json.ts";
import { MAX_LEVELS } from "./limits.ts";
import type { Preset } from "./preset.ts";
import type { Bytes } from "./verify.ts";

/** A request that is answered with an error. */
export class RefusedRequest extends Error {
  constructor(
    readonly status: number,
    message: string,
    /** For the log only: more than the sender should know, e.g. what was thrown. */
    readonly reason: unknown = message,
    /** Of the answer. */
    readonly headers: Readonly<Record<string, string>> = {},
  ) {
    super(message);
  }
}

/** A body while it is read, so that the time limit can end that. */
export type Reading = { reader?: ReadableStreamDefaultReader<Uint8Array> | undefined };

/** Reads no more than the limit and the chunk that exceeds it. @throws RefusedRequest, also for a compressed body */
export async function readBody(
  reading: Reading,
  { headers, body }: Request,
  maxBytes: number,
): Promise<Bytes> {
  const encoding = headers.get("content-encoding");
  // Signatures differ on whether they cover the compressed bytes, and a small body may inflate to a large one.
  if (encoding && !/^identity$/i.test(encoding))
    throw new RefusedRequest(
      415,
      `The body is compressed with ${encoding.slice(0, 50)}. Send it without Content-Encoding.`,
      undefined,
      { "accept-encoding": "identity" },
    );
  const reader = body?.getReader();
  reading.reader = reader;
  // It grows in place: a chunk may be one byte long.
  const buffer = new ArrayBuffer(0, { maxByteLength: maxBytes });
  const bytes = new Uint8Array(buffer);
  // The header may be missing or wrong: the bytes are counted, too.
  let length = Number(headers.get("content-length")) || 0;
  try {
    while (length <= maxBytes) {
      const chunk = (await reader?.read())?.value;
      if (reader !== reading.reader)
        throw new RefusedRequest(400, "The body did not arrive in time.");
      // A buffer that can grow is nothing for WebCrypto.
      if (!chunk) return bytes.slice();
      const offset = bytes.length;
      length = offset + chunk.length;
      if (length > maxBytes) break;
      buffer.resize(length);
      bytes.set(chunk, offset);
    }
    throw new RefusedRequest(413, `Invalid body: expected at most ${maxBytes} bytes.`);
  } catch (error) {
    throw error instanceof RefusedRequest
      ? error
      : new RefusedRequest(400, "The body is incomplete.");
  } finally {
    endReading(reading);
  }
}

/** Returns whether the body was being read. */
export function endReading(reading: Reading): boolean {
  const { reader } = reading;
  reading.reader = undefined;
  // The sender may be gone.
  reader?.cancel().catch(() => {});
  return !!reader;
}

/**
 * `JSON.parse()`, with the text of a number beyond the safe integers in place of it: as numbers, two ids would become one.
 * Numbers of fewer than 16 digits, such as 1e20, stay numbers: no two of them round to the same one.
 *
 * @throws SyntaxError
 */
export function parseJson(text: string): Json {
  // A reviver takes several times as long.
  if (!/[\d.]{16}/.test(text)) return JSON.parse(text) as Json;
  const exact = (_: string, value: unknown, { source }: { source: string }) =>
    /^-?[\d.]{16}/.test(source) && Math.abs(value as number) >= 2 ** 53 ? source : value;
  return JSON.parse(text, exact as (key: string, value: unknown) => unknown) as Json;
}

/** How a body of this content type is parsed. Without a content type, as the sender's default. @throws RefusedRequest */
export function parserOf(
  { form, isFormOnly }: Preset,
  contentType: string | null,
): (text: string) => Json {
  const type = contentType?.split(";")[0]?.trim().toLowerCase();
  if (form && (type ? type.endsWith("/x-www-form-urlencoded") : isFormOnly)) return form;
  if (!isFormOnly && (!type || /[/+]json$/.test(type))) return parseJson;
  throw new RefusedRequest(415, "Invalid content type.");
}

/** @throws RefusedRequest for a body that is not UTF-8, no JSON or form, neither an object nor a list, or nested too deep */
export function parse(raw: Bytes, parser: (text: string) => Json): Json {
  try {
    // Without `ignoreBOM`, which is false by default and which the platform's types want.
    const strict = { fatal: true } as TextDecoderConstructorOptions;
    const text = new TextDecoder("utf-8", strict).decode(raw);
    // The content type is not signed: signed JSON must not be read as a form that is hidden in it.
    const isDisguised = parser !== parseJson && /^\s*[[{]/.test(text);
    const body = isDisguised || parser(text);
    if (Object(body) === body && fits(body, MAX_LEVELS)) return body;
  } catch {
    // Not well-formed.
  }
  const message = `Invalid body: expected an object or a list, at most ${MAX_LEVELS} levels deep.`;
  throw new RefusedRequest(400, message);
}

/** Whether the value has at most this many levels of objects and lists. */
function fits(value: Json, levels: number): boolean {
  if (Object(value) !== value) return true;
  return levels > 0 && Object.values(value as object).every((one) => fits(one, levels - 1));
}
