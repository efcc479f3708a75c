/** Linear: https://linear.app/developers/webhooks */

import type { Json } from "../../../../core/json.ts";
import { endpoint, type Incoming, type PresetOf } from "../preset.ts";
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
export const linear: PresetOf<LinearBody> = (options) =>
  endpoint(
    {
      name: "linear",
      // Linear waits for 5 seconds.
      timeLimit: 4_500,
      tolerance: 60_000,
      async verify(incoming) {
        const { headers, raw, secrets } = incoming;
        const signatures = [headers.get("linear-signature")];
        const signed = { encoding: "hex", keys: secrets, message: [raw], signatures } as const;
        const verified = await checkHmac(signed);
        return verified === true ? checkBodyTime(incoming) : verified;
      },
      identify: (body, { headers }) => ({
        id: headers.get("linear-delivery") ?? undefined,
        type: (body as Partial<LinearBody>).type ?? "",
      }),
    },
    options,
  );

/** The header `Linear-Timestamp` is not signed: a repeated request could have the present time in it. */
function checkBodyTime({ raw, now, tolerance }: Incoming): Verified {
  let time: unknown;
  try {
    time = (JSON.parse(new TextDecoder().decode(raw)) as Partial<LinearBody>).webhookTimestamp;
  } catch {
    // Not JSON, or JSON's null.
  }
  if (typeof time !== "number") return "missing timestamp";
  return Math.abs(now - time) <= tolerance || "timestamp outside of the tolerance";
}
