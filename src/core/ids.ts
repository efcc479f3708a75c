/** Names that are safe wherever the platform takes one, and short enough for all of them. */

/**
 * A digest of `text` in 22 characters of `[A-Za-z0-9_-]` (132 bits), so that
 * any text at all can be part of a step name, an event type or a key.
 */
export async function digest(text: string): Promise<string> {
  // Code units, and not UTF-8, which has one and the same replacement for every half of a surrogate pair.
  const units = Uint16Array.from({ length: text.length }, (_, index) => text.charCodeAt(index));
  const hash = await crypto.subtle.digest("SHA-256", units);
  const base64 = btoa(String.fromCharCode(...new Uint8Array(hash)));
  return base64.replaceAll("+", "-").replaceAll("/", "_").slice(0, 22);
}
