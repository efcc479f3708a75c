/** Reads a stream within a limit. */

import type { Bytes } from "./verify.ts";

/** All bytes of a stream; undefined as soon as there are more than `maxBytes`, and the rest is not read. */
export async function bytesUpTo(
  stream: ReadableStream<Uint8Array> | null,
  maxBytes: number,
): Promise<Bytes | undefined> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of stream ?? []) {
    length += chunk.byteLength;
    // Leaving the loop cancels the stream.
    if (length > maxBytes) return undefined;
    chunks.push(chunk);
  }
  return new Uint8Array(await new Blob(chunks).arrayBuffer());
}
