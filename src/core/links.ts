/**
 * Signed links: an agent makes them, and a Worker reads them. A token is its content as JSON and an HMAC-SHA-256 of that, both
 * in base64url. Without Zod: receivers load it.
 */

import { createHmac, timingSafeEqual } from "node:crypto";
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

/** The token of a link. It may be longer than {@link MAX_TOKEN}. */
export function signLink(link: Link, secret: string): string {
  const content = Buffer.from(JSON.stringify(link)).toString("base64url");
  return `${content}.${signatureOf(content, secret)}`;
}

/**
 * The link of a token, signed with one of the secrets.
 *
 * @param now epoch milliseconds
 * @returns `"invalid"` for a token that none of them has signed
 */
export function readLink(
  token: string,
  secrets: readonly string[],
  now: number,
): Link | "invalid" | "expired" {
  const [content = "", given = "", ...rest] = token.split(".");
  if (token.length > MAX_TOKEN || rest.length > 0) return "invalid";
  // All of them, so that the time does not tell which one matches.
  const matches = secrets.map((secret) => isSame(given, signatureOf(content, secret)));
  if (!matches.includes(true)) return "invalid";
  const link = JSON.parse(Buffer.from(content, "base64url").toString()) as Link;
  return link.expires > now ? link : "expired";
}

function signatureOf(content: string, secret: string): string {
  return createHmac("sha256", secret)
    .update(DOMAIN + content)
    .digest("base64url");
}

function isSame(given: string, expected: string): boolean {
  const [one, other] = [Buffer.from(given), Buffer.from(expected)];
  return one.length === other.length && timingSafeEqual(one, other);
}
