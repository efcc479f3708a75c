/** Signatures of Standard Webhooks: https://github.com/standard-webhooks/standard-webhooks */

import type { Incoming } from "./preset.ts";
import { type Bytes, checkHmac, checkTime, type Verified } from "./verify.ts";

/** The headers with this prefix, e.g. `webhook-id`: the id, the time and the signatures. */
export function signedHeaders(
  headers: Headers,
  prefix: "svix" | "webhook",
): readonly (string | null)[] {
  return ["id", "timestamp", "signature"].map((name) => headers.get(`${prefix}-${name}`));
}

/** @param signed the result of `signedHeaders()` */
export async function checkStandard(
  [id, time, header]: readonly (string | null | undefined)[],
  incoming: Incoming,
  keys: readonly Bytes[],
): Promise<Verified> {
  if (!id || !header) return "missing signature";
  const verified = await checkHmac({
    encoding: "base64",
    keys,
    message: [`${id}.${time}.`, incoming.raw],
    signatures: header.split(" ").map((part) => {
      const [version, signature] = part.split(",");
      // Other versions do not count.
      return version === "v1" ? signature : "";
    }),
  });
  return verified === true ? checkTime(time, incoming) : verified;
}
