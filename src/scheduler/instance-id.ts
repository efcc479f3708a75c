/**
 * Names that a Workflow instance can have. Synchronous, because it is called
 * where ids are written down: `create({ id: instanceIdFor(key) })`.
 */

import { DIGEST_LENGTH, digest } from "../core/text.ts";

/** 1 to 100 of these, the first a letter or digit: https://developers.cloudflare.com/workflows/reference/limits/ */
const VALID = /^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$/;
const MAX_LENGTH = 100;

/**
 * The id of a Workflow instance for any key: a valid one unchanged, any other
 * as its readable part and a digest of the whole. The same key has always the
 * same id, and two keys never have the same by accident.
 *
 *     instanceIdFor("report:2026-01-05") // "report-2026-01-05-" and 22 characters
 */
export function instanceIdFor(key: string): string {
  if (VALID.test(key)) return key;
  const slug = key.replaceAll(/[^A-Za-z0-9_-]+/g, "-").replace(/^[_-]+/, "");
  const readable = slug.slice(0, MAX_LENGTH - DIGEST_LENGTH - 1).replace(/[_-]+$/, "");
  return `${readable || "id"}-${digest(key)}`;
}
