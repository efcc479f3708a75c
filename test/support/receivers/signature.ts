/**
 * A receiver's check of a signature, written from the Standard Webhooks spec
 * alone, so that a mistake in the library that signs cannot hide.
 * https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
 */

const TOLERANCE_S = 5 * 60;

export type SignedHeaders = Readonly<
  Record<"webhook-id" | "webhook-timestamp" | "webhook-signature", string>
>;

/**
 * Why the request is refused, or undefined for a genuine one.
 *
 * @param secret `whsec_` and base64
 * @param now epoch milliseconds
 */
export async function refusalOf(
  { headers, body }: { headers: SignedHeaders; body: string },
  secret: string,
  now = Date.now(),
): Promise<string | undefined> {
  const timestamp = headers["webhook-timestamp"];
  if (!/^\d+$/.test(timestamp)) return "the timestamp is no number of seconds";
  if (Math.abs(now / 1_000 - Number(timestamp)) > TOLERANCE_S) return "too old or too new";
  const expected = await hmac(secret, `${headers["webhook-id"]}.${timestamp}.${body}`);
  const isGenuine = headers["webhook-signature"]
    .split(" ")
    .map((signature) => signature.split(","))
    .some(([version, given = ""]) => version === "v1" && isSame(given, expected));
  return isGenuine ? undefined : "no signature fits";
}

async function hmac(secret: string, signed: string): Promise<string> {
  const bytes = Uint8Array.from(atob(secret.slice("whsec_".length)), (char) => char.charCodeAt(0));
  const algorithm = { name: "HMAC", hash: "SHA-256" };
  const key = await crypto.subtle.importKey("raw", bytes, algorithm, false, ["sign"]);
  const signature = await crypto.subtle.sign("HMAC", key, new TextEncoder().encode(signed));
  return btoa(String.fromCharCode(...new Uint8Array(signature)));
}

/** In a time that does not tell how much of it is right. */
function isSame(given: string, expected: string): boolean {
  let difference = given.length ^ expected.length;
  for (let index = 0; index < expected.length; index++) {
    difference |= given.charCodeAt(index) ^ expected.charCodeAt(index);
  }
  return difference === 0;
}
