/** Checks of signatures, tokens and times, by the platform's cryptography. All comparisons take constant time. */

import { timingSafeEqual } from "node:crypto";
import { MAX_SIGNATURES } from "./limits.ts";

/** True, or why the request is refused with 401. */
export type Verified =
  | true
  | "missing signature"
  | "invalid signature"
  | "missing timestamp"
  | "timestamp outside of the tolerance";

export type Encoding = "hex" | "base64";
export type Bytes = Uint8Array<ArrayBuffer>;

/** A signed message, and what its signatures are checked by. */
export type Signed<Key> = {
  /** Of an HMAC. @default "SHA-256" */
  readonly hash?: "SHA-1" | "SHA-256" | undefined;
  readonly encoding: Encoding;
  readonly keys: readonly Key[];
  /** Its parts, one after the other. */
  readonly message: readonly (string | Bytes)[];
  /** The signatures of the request. One that is null or empty does not count. */
  readonly signatures: readonly (string | null | undefined)[];
  /** The prefix of each signature of an HMAC: one without it does not count. @default "" */
  readonly prefix?: string;
};

/**
 * Whether one of the signatures is the HMAC of the message with one of the keys.
 *
 * @param signatures as texts: exactly one text is right, in lower-case hex, or in base64 with its padding
 */
export async function checkHmac({
  hash = "SHA-256",
  encoding,
  keys,
  message,
  prefix = "",
  signatures,
}: Signed<string | Bytes>): Promise<Verified> {
  const given = signatures.filter(Boolean) as string[];
  if (!given[0]) return "missing signature";
  const data = await joined(message);
  const expected = keys.map(async (secret) => {
    const algorithm = { name: "HMAC", hash };
    const key = await crypto.subtle.importKey("raw", bytesOf(secret), algorithm, false, ["sign"]);
    const bytes = new Uint8Array(await crypto.subtle.sign(algorithm, key, data));
    return prefix + (encoding === "hex" ? bytes.toHex() : bytes.toBase64());
  });
  return isOneOf(given.slice(0, MAX_SIGNATURES), expected);
}

/**
 * Whether the first signature is of the message, by one of the public keys. Hex may be in either case.
 *
 * @throws TypeError for a key that is not 32 bytes in its encoding
 */
export async function checkEd25519({
  encoding,
  keys,
  message,
  signatures: [signature],
}: Signed<string>): Promise<Verified> {
  if (!signature) return "missing signature";
  const publicKeys = keys.map((text) => {
    const key = decode(text, encoding, 32);
    if (key) return key;
    throw new TypeError(`expected an Ed25519 public key, 32 bytes in ${encoding}`);
  });
  const given = decode(signature, encoding, 64);
  const data = await joined(message);
  const checks = publicKeys.map(async (bytes) => {
    const algorithm = { name: "Ed25519" };
    const key = await crypto.subtle.importKey("raw", bytes, algorithm, false, ["verify"]);
    return given && crypto.subtle.verify(algorithm, key, given, data);
  });
  return (await Promise.all(checks)).includes(true) || "invalid signature";
}

const joined = (message: readonly (string | Bytes)[]) => new Blob([...message]).arrayBuffer();

/** Whether the token is one of the secrets. Their digests are compared, so that the time tells no length either. */
export async function checkToken(
  token: string | null,
  secrets: readonly string[],
): Promise<Verified> {
  if (!token) return "missing signature";
  return isOneOf([await sha256Hex(token)], secrets.map(sha256Hex));
}

/** All pairs are compared, and each in constant time: the time does not tell which one is equal. */
async function isOneOf(
  given: readonly string[],
  expected: readonly Promise<string>[],
): Promise<Verified> {
  const known = (await Promise.all(expected)).map(bytesOf);
  // The length is no secret: it is that of a digest or of a signature.
  const matches = given
    .map(bytesOf)
    .flatMap((one) => known.map((of) => one.length === of.length && timingSafeEqual(one, of)));
  return matches.includes(true) || "invalid signature";
}

/**
 * Whether the sender's time is close enough to ours, in both directions.
 *
 * @param seconds epoch seconds, as in a header
 */
export function checkTime(
  seconds: string | null | undefined,
  { now, tolerance }: { readonly now: number; readonly tolerance: number },
): Verified {
  if (!seconds) return "missing timestamp";
  const isRecent =
    /^\d{1,12}$/.test(seconds) && Math.abs(now - Number(seconds) * 1_000) <= tolerance;
  return isRecent || "timestamp outside of the tolerance";
}

/** SHA-256 in hex. */
export async function sha256Hex(data: string | Bytes): Promise<string> {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", bytesOf(data))).toHex();
}

/** The bytes of a text in UTF-8. */
function bytesOf(text: string | Bytes): Bytes {
  return typeof text === "string" ? (new TextEncoder().encode(text) as Bytes) : text;
}

/** The bytes of a text, or undefined where it is not in the encoding, or of another length. */
function decode(text: string, encoding: Encoding, length: number): Bytes | undefined {
  try {
    const bytes = encoding === "hex" ? Uint8Array.fromHex(text) : Uint8Array.fromBase64(text);
    return bytes.length === length ? bytes : undefined;
  } catch {
    return undefined;
  }
}
