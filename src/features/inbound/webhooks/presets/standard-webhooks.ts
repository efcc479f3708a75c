/** Standard Webhooks and Svix, e.g. OpenAI, Resend, Clerk and Replicate: https://github.com/standard-webhooks/standard-webhooks */

import type { Json } from "../../../../core/json.ts";
import { webhookKey } from "../../../../core/secrets.ts";
import { endpoint, type PresetOf } from "../preset.ts";
import { checkStandard, signedHeaders } from "../standard.ts";

/** The fields that the specification recommends. Pass a `schema` for the sender's own fields. */
export type StandardWebhooksBody = {
  readonly type?: string;
  readonly data?: Json;
};

/** Receives Standard Webhooks. The id is the header's, the type is the body's. The secret is base64, also after `whsec_` or `v1,whsec_`. */
export const standardWebhooks = /* @__PURE__ */ preset("webhook", "standard-webhooks");

/** Receives webhooks of Svix, whose headers may also have the names of Standard Webhooks. */
export const svix = /* @__PURE__ */ preset("svix", "svix");

function preset(prefix: "svix" | "webhook", name: string): PresetOf<StandardWebhooksBody> {
  /** The headers have all the first prefix, or all the second one. */
  const read = (headers: Headers) => {
    const own = signedHeaders(headers, prefix);
    return own.every(Boolean) ? own : signedHeaders(headers, "webhook");
  };
  return (options) =>
    endpoint(
      {
        name,
        // Svix waits for 15 seconds.
        timeLimit: 14_000,
        tolerance: 300_000,
        verify(incoming) {
          const keys = incoming.secrets.map((secret) => {
            const key = webhookKey(secret);
            if (key) return key;
            throw new TypeError("expected base64, with or without whsec_ or v1,whsec_");
          });
          return checkStandard(read(incoming.headers), incoming, keys);
        },
        identify: (body, { headers }) => ({
          id: read(headers)[0] ?? undefined,
          type: (body as StandardWebhooksBody).type ?? "",
        }),
      },
      options,
    );
}
