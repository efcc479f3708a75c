/** Linear: https://linear.app/developers/webhooks */

import type { Json } from "../../../core/json.ts";
import { type Endpoint, type EndpointOptions, endpoint, type MaybeAgent } from "../preset.ts";
import { checkHmac, type Verified } from "../verify.ts";

/** The fields that most of Linear's deliveries have. Pass a `schema` for the object in `data`. */
export type LinearBody = {
  /** E.g. `Issue`, `Comment` or `AgentSessionEvent`. */
  readonly type: string;
  /** E.g. `create`, `update` or `remove`. */
  readonly action: string;
  readonly organizationId: string;
  /** Epoch milliseconds. */
  readonly webhookTimestamp: number;
  readonly actor?: { readonly id: string; readonly name?: string };
  readonly data?: { readonly id: string } & Readonly<Record<string, Json>>;
  /** The values before an update. */
  readonly updatedFrom?: Readonly<Record<string, Json>>;
  readonly url?: string;
};

/**
 * Receives webhooks of Linear. The type is that of the changed object, e.g. `Issue`. The id is that of the header
 * `Linear-Delivery`, which Linear does not sign: it is as trustworthy as the connection.
 */
export function linear<Target extends MaybeAgent, Body = LinearBody>(
  options: EndpointOptions<Body, Target>,
): Endpoint {
  return endpoint(
    {
      name: "linear",
      // Linear waits for 5 seconds.
      timeLimit: 4_500,
      tolerance: 60_000,
      async verify({ headers, raw, secrets, now, tolerance }) {
        const signatures = [headers.get("linear-signature")];
        const verified = await checkHmac({
          encoding: "hex",
          keys: secrets,
          message: [raw],
          signatures,
        });
        return verified === true ? checkBodyTime(raw, { now, tolerance }) : verified;
      },
      identify: (body, { headers }) => ({
        id: headers.get("linear-delivery") ?? undefined,
        type: (body as Partial<LinearBody>).type ?? "",
      }),
    },
    options,
  );
}

/** The header `Linear-Timestamp` is not signed: a repeated request could have the present time in it. */
function checkBodyTime(
  raw: Uint8Array,
  { now, tolerance }: { readonly now: number; readonly tolerance: number },
): Verified {
  let time: unknown;
  try {
    time = (JSON.parse(new TextDecoder().decode(raw)) as Partial<LinearBody>).webhookTimestamp;
  } catch {
    // Not JSON, or JSON's null.
  }
  if (typeof time !== "number") return "missing timestamp";
  return Math.abs(now - time) <= tolerance || "timestamp outside of the tolerance";
}
