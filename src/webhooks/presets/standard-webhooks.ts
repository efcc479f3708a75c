/** Standard Webhooks and Svix, e.g. OpenAI, Resend, Clerk and Replicate: https://github.com/standard-webhooks/standard-webhooks */

import type { Json } from "../../core/json.ts";
import { type Endpoint, type EndpointOptions, endpoint, type MaybeAgent } from "../preset.ts";
import { checkHmac, checkTime } from "../verify.ts";

/** What the specification recommends. Pass a `schema` for the sender's own fields. */
export type StandardWebhooksBody = {
  readonly type?: string;
  readonly data?: Json;
};

/** Receives Standard Webhooks. The id is the header's, the type is the body's. The secret is base64, with or without `whsec_`. */
export function standardWebhooks<Target extends MaybeAgent, Body = StandardWebhooksBody>(
  options: EndpointOptions<Body, Target>,
): Endpoint {
  return signedBy("webhook", "standard-webhooks", options);
}

/** Receives webhooks of Svix, whose headers may also have the names of Standard Webhooks. */
export function svix<Target extends MaybeAgent, Body = StandardWebhooksBody>(
  options: EndpointOptions<Body, Target>,
): Endpoint {
  return signedBy("svix", "svix", options);
}

function signedBy<Target, Body>(
  prefix: "svix" | "webhook",
  name: string,
  options: EndpointOptions<Body, Target>,
): Endpoint {
  /** The headers have all the first prefix, or all the second one. */
  const read = (headers: Headers) => {
    const of = (with_: string) =>
      ["id", "timestamp", "signature"].map((field) => headers.get(`${with_}-${field}`));
    const own = of(prefix);
    return own.every(Boolean) ? own : of("webhook");
  };
  return endpoint(
    {
      name,
      // Svix waits for 15 seconds.
      timeLimit: 14_000,
      tolerance: 300_000,
      async verify(incoming) {
        const { headers, raw, secrets } = incoming;
        const [id, time, header] = read(headers);
        if (!id || !header) return "missing signature";
        const verified = await checkHmac({
          encoding: "base64",
          keys: secrets.map(keyOf),
          message: [`${id}.${time}.`, raw],
          signatures: header.split(" ").map((part) => {
            const [version, signature] = part.split(",");
            // Other versions do not count.
            return version === "v1" ? signature : "";
          }),
        });
        return verified === true ? checkTime(time, incoming) : verified;
      },
      identify: (body, { headers }) => ({
        id: read(headers)[0] ?? undefined,
        type: (body as StandardWebhooksBody).type ?? "",
      }),
    },
    options,
  );
}

function keyOf(secret: string): Uint8Array<ArrayBuffer> {
  try {
    const key = Uint8Array.fromBase64(secret.replace(/^whsec_/, ""));
    if (key.length > 0) return key;
  } catch {
    // Not base64.
  }
  throw new TypeError("expected base64, with or without whsec_");
}
