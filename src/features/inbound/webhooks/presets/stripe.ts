/** Stripe: https://docs.stripe.com/webhooks/signature */

import type { Json } from "../../../../core/json.ts";
import { endpoint, type PresetOf } from "../preset.ts";
import { checkHmac, checkTime } from "../verify.ts";

/** An event of Stripe. Pass a `schema` for the object in it. */
export type StripeBody = {
  readonly id: string;
  readonly type: string;
  /** Epoch seconds. */
  readonly created: number;
  readonly livemode: boolean;
  readonly data: { readonly object: Readonly<Record<string, Json>> };
};

/** Receives webhooks of Stripe. The id and the type are those of the event. */
export const stripe: PresetOf<StripeBody> = (options) =>
  endpoint(
    {
      name: "stripe",
      timeLimit: 9_000,
      tolerance: 300_000,
      async verify(incoming) {
        const { headers, raw, secrets } = incoming;
        const header = headers.get("stripe-signature");
        if (!header) return "missing signature";
        const parts = header.split(",").map((part) => part.split("="));
        const valuesOf = (name: string) =>
          parts.filter(([key]) => key === name).map(([, value]) => value);
        const time = valuesOf("t").at(-1);
        const verified = await checkHmac({
          encoding: "hex",
          keys: secrets,
          message: [`${time}.`, raw],
          signatures: valuesOf("v1"),
        });
        return verified === true ? checkTime(time, incoming) : verified;
      },
      identify: (body) => {
        const { id, type } = body as Partial<StripeBody>;
        return { id, type: type ?? "" };
      },
    },
    options,
  );
