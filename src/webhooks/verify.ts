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
  /** Its parts, one after the other. */
  readonly message: readonly (string | Bytes)[];
  /** What each signature begins with: one without it does not count. @default "" */
  readonly prefix?: string;
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
  readonly message: readonly (string | Bytes)[];
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
  { encoding, message, prefix, signatures }: Omit<Parameters<typeof checkHmac>[0], "keys">,
): Promise<Verified> {
  const given = signatures.filter((text) => !!text) as string[];
  if (!given[0]) return "missing signature";
  const decoded = given
    .slice(0, MAX_SIGNATURES)
    .map((text) => decode(text, encoding, prefix))
    // WebCrypto refuses to check an Ed25519 signature of another length.
    .filter((bytes) => bytes && (algorithm.hash || bytes.length === 64)) as Bytes[];
  const signed = await new Blob([...message]).arrayBuffer();
  const checks = keys.map(async (bytes) => {
    const key = await crypto.subtle.importKey("raw", bytes, algorithm, false, ["verify"]);
    return decoded.map((signature) => crypto.subtle.verify(algorithm, key, signature, signed));
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
  return (await sha256(data)).toHex();
}

/** The bytes of a text in UTF-8. */
function bytesOf(text: string | Bytes): Bytes {
  return typeof text === "string" ? (new TextEncoder().encode(text) as Bytes) : text;
}

/**
 * The bytes of a text after its prefix, or undefined. Exactly one text stands for the same bytes: lower-case hex, or base64
 * with its padding. Senders' packages compare the texts.
 */
function decode(text: string, encoding: Encoding, prefix = ""): Bytes | undefined {
  const encoded = text.slice(prefix.length);
  try {
    const isHex = encoding === "hex";
    const bytes = isHex ? Uint8Array.fromHex(encoded) : Uint8Array.fromBase64(encoded);
    return prefix + (isHex ? bytes.toHex() : bytes.toBase64()) === text ? bytes : undefined;
  } catch {
    return undefined;
  }
}
