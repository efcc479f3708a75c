/**
 * Signed links: an agent makes them, and a Worker reads them. A token is its content as JSON and an HMAC-SHA-256 of that, both
 * in base64url. Without Zod: receivers load it.
 */

import type { Json } from "./json.ts";

/** The purpose of a link. */
export type Link = {
  /** The binding of the agent, or of its root agent, in the Worker that serves the link. */
  readonly binding: string;
  /** The name of the agent, or of its root agent. */
  readonly name: string;
  readonly jurisdiction?: string;
  /** From the root agent down to a sub-agent. */
  readonly path?: readonly { readonly className: string; readonly name: string }[];
  /** Epoch milliseconds. */
  readonly expires: number;
} & (
  | {
      readonly what: "approval";
      readonly id: string;
      readonly decision: "grant" | "reject";
      /** Who decides. */
      readonly by: string;
      readonly payload?: Json;
    }
  /** The URL of a step, by the topic of its wait. */
  | { readonly what: "webhook"; readonly id: string }
);

/** Browsers and proxies take URLs of 8,000 characters. */
export const MAX_TOKEN = 6_000;
/** Signatures of other parts of an app, with the same secret, are of other texts. */
const DOMAIN = "perdure:link:1:";
const ALGORITHM = { name: "HMAC", hash: "SHA-256" };
const SIGNATURE_BYTES = 32;

/** The token of a link. It may be longer than {@link MAX_TOKEN}. */
export async function signLink(link: Link, secret: string): Promise<string> {
  const content = toBase64(new TextEncoder().encode(JSON.stringify(link)));
  const key = await keyOf(secret, "sign");
  const signature = await crypto.subtle.sign(ALGORITHM.name, key, signed(content));
  return `${content}.${toBase64(new Uint8Array(signature))}`;
}

/**
 * The link of a token, signed with one of the secrets.
 *
 * @param now epoch milliseconds
 * @returns `"invalid"` for a token that none of them has signed
 */
export async function readLink(
  token: string,
  secrets: readonly string[],
  now: number,
): Promise<Link | "invalid" | "expired"> {
  const [content = "", given = "", ...rest] = token.split(".");
  const signature = fromBase64(given);
  const isToken = token.length <= MAX_TOKEN && rest.length === 0;
  if (!isToken || signature?.length !== SIGNATURE_BYTES) return "invalid";
  // All of them, so that the time does not tell which one matches.
  const matches = await Promise.all(
    secrets.map(async (secret) => {
      const key = await keyOf(secret, "verify");
      return crypto.subtle.verify(ALGORITHM.name, key, signature, signed(content));
    }),
  );
  const bytes = matches.includes(true) && fromBase64(content);
  if (!bytes) return "invalid";
  const link = JSON.parse(new TextDecoder().decode(bytes)) as Link;
  return link.expires > now ? link : "expired";
}

function keyOf(secret: string, usage: "sign" | "verify"): Promise<CryptoKey> {
  const bytes = new TextEncoder().encode(secret);
  return crypto.subtle.importKey("raw", bytes, ALGORITHM, false, [usage]);
}

function signed(content: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(DOMAIN + content) as Uint8Array<ArrayBuffer>;
}

function toBase64(bytes: Uint8Array): string {
  let binary = "";
  for (const byte of bytes) binary += String.fromCharCode(byte);
  return btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

/** Undefined for a text that {@link toBase64} does not return. */
function fromBase64(text: string): Uint8Array<ArrayBuffer> | undefined {
  if (!/^[\w-]+$/.test(text) || text.length % 4 === 1) return undefined;
  const binary = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  const bytes = Uint8Array.from(binary, (character) => character.charCodeAt(0));
  return toBase64(bytes) === text ? bytes : undefined;
}
