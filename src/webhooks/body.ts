/** Reads and parses the body of a request. */

import { isTooDeep, type Json, MAX_DEPTH } from "../core/json.ts";
import type { Preset } from "./preset.ts";
import type { Bytes } from "./verify.ts";

/** A request that is answered with an error before its delivery reaches an agent. */
export class RefusedRequest extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly headers: Readonly<Record<string, string>> = {},
    /** For the log only: more than the sender should know. */
    readonly reason = message,
  ) {
    super(message);
  }
}

type ByteReader = ReadableStreamDefaultReader<Uint8Array>;

/** A body that is being read, so that the time limit can end it. */
export class BodyReader {
  #reader: ByteReader | undefined;
  #isCancelled = false;

  /** Reads no more than the limit and the chunk that exceeds it. @throws RefusedRequest */
  async read(request: Request, maxBytes: number): Promise<Bytes> {
    const tooLarge = () =>
      new RefusedRequest(413, `The body is too large: expected at most ${maxBytes} bytes.`);
    // It may be missing or wrong: the bytes are counted all the same.
    if (Number(request.headers.get("content-length")) > maxBytes) throw tooLarge();
    const reader = request.body?.getReader() as ByteReader | undefined;
    this.#reader = reader;
    // One buffer that grows: a chunk may be one byte long.
    let buffer: Bytes = new Uint8Array(reader ? 16_384 : 0);
    let length = 0;
    try {
      for (;;) {
        const { value } = (await reader?.read()) ?? {};
        if (this.#isCancelled) throw new RefusedRequest(400, "The body did not arrive in time.");
        if (!value) return buffer.subarray(0, length);
        const end = length + value.length;
        if (end > maxBytes) throw tooLarge();
        if (end > buffer.length) {
          const larger = new Uint8Array(Math.max(end, 2 * buffer.length));
          larger.set(buffer.subarray(0, length));
          buffer = larger;
        }
        buffer.set(value, length);
        length = end;
      }
    } catch (error) {
      this.cancel();
      throw error instanceof RefusedRequest
        ? error
        : new RefusedRequest(400, "The body ended before it was complete.");
    } finally {
      this.#reader = undefined;
    }
  }

  /** Stops reading. Returns whether the body was being read. */
  cancel(): boolean {
    const reader = this.#reader;
    this.#isCancelled = true;
    // The sender may be gone.
    reader?.cancel().catch(() => {});
    return reader !== undefined;
  }
}

/** How a body of this content type is parsed. Without a content type, as the sender's default. @throws RefusedRequest */
export function parserOf(preset: Preset, contentType: string | null): (text: string) => Json {
  const { form, isFormOnly } = preset;
  const type = contentType?.split(";", 1)[0]?.trim().toLowerCase();
  if (form && (type ? type === FORM : isFormOnly)) return form;
  if (!isFormOnly && (!type || /^(application|text)\/([\w.-]+\+)?json$/.test(type)))
    return (text) => JSON.parse(text) as Json;
  const expected = [isFormOnly ? "" : "application/json", form ? FORM : ""].filter(Boolean);
  throw new RefusedRequest(415, `Invalid content type: expected ${expected.join(" or ")}.`);
}

const FORM = "application/x-www-form-urlencoded";

/** @throws RefusedRequest for a body that is not UTF-8, no JSON or form, neither an object nor a list, or nested too deep */
export function parse(raw: Bytes, parser: (text: string) => Json): Json {
  let body: Json;
  try {
    body = parser(new TextDecoder("utf-8", { fatal: true, ignoreBOM: false }).decode(raw));
  } catch {
    throw new RefusedRequest(400, "Invalid body: expected well-formed JSON or form data in UTF-8.");
  }
  if (typeof body !== "object" || body === null)
    throw new RefusedRequest(400, "Invalid body: expected an object or a list.");
  if (isTooDeep(body))
    throw new RefusedRequest(400, `Invalid body: nested more than ${MAX_DEPTH} levels deep.`);
  return body;
}
