/** Checks of signatures, tokens and times, on WebCrypto. All comparisons take constant time. */

/** True, or why the request is refused with 401. */
export type Verified =
  | true
  | "missing signature"
  | "invalid signature"
  | "missing timestamp"
  | "timestamp outside of the tolerance";

export type Encoding = "hex" | "base64";
export type Bytes = Uint8Array<ArrayBuffer>;

/**
 * Those after it do not count. Senders send one signature for each of their active secrets. Each costs an HMAC of the body
 * for each of ours.
 */
const MAX_SIGNATURES = 16;

/**
 * Whether one of the signatures is the HMAC of the message with one of the keys.
 *
 * @param signatures as texts; those that are not in the encoding do not count
 */
export function checkHmac(options: {
  readonly hash?: "SHA-1" | "SHA-256";
  readonly encoding: Encoding;
  readonly keys: readonly (string | Bytes)[];
  readonly message: Bytes;
  readonly signatures: readonly (string | null | undefined)[];
}): Promise<Verified> {
  const { hash = "SHA-256", keys } = options;
  return checkSignatures({ name: "HMAC", hash }, keys.map(bytesOf), options);
}

/**
 * Whether the signature is of the message, by one of the public keys. Rejects for a key that is not 32 bytes in its encoding.
 * Hex may be in either case.
 */
export async function checkEd25519(options: {
  readonly encoding: Encoding;
  readonly publicKeys: readonly string[];
  readonly message: Bytes;
  readonly signature: string | null;
}): Promise<Verified> {
  const { encoding, message } = options;
  const normal = (text: string) => (encoding === "hex" ? text.toLowerCase() : text);
  const keys = options.publicKeys.map((text) => {
    const key = decode(normal(text), encoding);
    if (key?.length === 32) return key;
    throw new TypeError(`expected an Ed25519 public key, 32 bytes in ${encoding}`);
  });
  const signatures = [normal(options.signature ?? "")];
  return checkSignatures({ name: "Ed25519" }, keys, { encoding, message, signatures });
}

async function checkSignatures(
  algorithm: { readonly name: string; readonly hash?: string },
  keys: readonly Bytes[],
  options: Pick<Parameters<typeof checkHmac>[0], "encoding" | "message" | "signatures">,
): Promise<Verified> {
  const given = options.signatures.filter((one) => !!one);
  if (given.length === 0) return "missing signature";
  const signatures = given
    .slice(0, MAX_SIGNATURES)
    .map((text) => decode(`${text}`, options.encoding))
    // WebCrypto refuses to check an Ed25519 signature of another length.
    .filter((bytes) => bytes && (algorithm.hash || bytes.length === 64)) as Bytes[];
  const checks = keys.map(async (bytes) => {
    const key = await crypto.subtle.importKey("raw", bytes, algorithm, false, ["verify"]);
    return signatures.map((signature) =>
      crypto.subtle.verify(algorithm, key, signature, options.message),
    );
  });
  // All of them, so that the time does not tell which one matches.
  const matches = await Promise.all((await Promise.all(checks)).flat());
  return matches.includes(true) || "invalid signature";
}

/** Whether the token is one of the secrets. Their digests are compared, so that the time tells no length either. */
export async function checkToken(
  token: string | null,
  secrets: readonly string[],
): Promise<Verified> {
  if (!token) return "missing signature";
  const [given, ...known] = await Promise.all([token, ...secrets].map(sha256));
  const matches = known.map((digest) => isEqual(given as Bytes, digest));
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

/** Of the same length, as digests are. */
function isEqual(a: Bytes, b: Bytes): boolean {
  let difference = 0;
  for (const [index, byte] of a.entries()) difference |= byte ^ (b[index] as number);
  return difference === 0;
}

async function sha256(data: string | Bytes): Promise<Bytes> {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", bytesOf(data)));
}

/** SHA-256 in hex. */
export async function sha256Hex(data: string | Bytes): Promise<string> {
  return hexOf(await sha256(data));
}

function hexOf(bytes: Bytes): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** The bytes of a text in UTF-8. */
function bytesOf(text: string | Bytes): Bytes {
  return typeof text === "string" ? (new TextEncoder().encode(text) as Bytes) : text;
}

/** The bytes of several texts and byte arrays. */
export function concat(...parts: readonly (string | Bytes)[]): Bytes {
  const bytes = parts.map(bytesOf);
  const whole = new Uint8Array(bytes.reduce((sum, { length }) => sum + length, 0));
  let offset = 0;
  for (const part of bytes) {
    whole.set(part, offset);
    offset += part.length;
  }
  return whole;
}

/**
 * The bytes of a text, or undefined. Exactly one text stands for the same bytes: lower-case hex, or base64 with its
 * padding. Senders' packages compare the texts.
 */
function decode(text: string, encoding: Encoding): Bytes | undefined {
  if (encoding === "hex") {
    const pairs = text.match(/../g) ?? [];
    const bytes = Uint8Array.from(pairs, (pair) => Number.parseInt(pair, 16));
    return hexOf(bytes) === text ? bytes : undefined;
  }
  try {
    const binary = atob(text);
    return btoa(binary) === text
      ? Uint8Array.from(binary, (character) => character.charCodeAt(0))
      : undefined;
  } catch {
    return undefined;
  }
}
