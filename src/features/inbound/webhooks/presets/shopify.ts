/** Shopify: https://shopify.dev/docs/apps/build/webhooks/subscribe/https */

import type { Json } from "../../../../core/json.ts";
import { endpoint, type PresetOf } from "../preset.ts";
import { checkHmac } from "../verify.ts";

/** The fields of a delivery of Shopify. Pass a `schema` for the topic's own fields. */
export type ShopifyBody = {
  /** Of the header `X-Shopify-Shop-Domain`, e.g. `my-shop.myshopify.com`; added by the receiver if the body has none. */
  readonly shop_domain: string;
  /** A text above 2^53. */
  readonly id?: number | string;
  /** The global id of the object, e.g. `gid://shopify/Order/820982911946154508`. */
  readonly admin_graphql_api_id?: string;
} & Readonly<Record<string, Json>>;

/**
 * Receives webhooks of Shopify. The type is the topic, e.g. `orders/create`. The id is that of the header
 * `X-Shopify-Webhook-Id`, the same in each retry. Shopify signs the body alone: headers are as trustworthy as the
 * connection, and there is no time to compare. The headers of Shopify's Events are read too.
 */
export const shopify: PresetOf<ShopifyBody> = (options) =>
  endpoint(
    {
      name: "shopify",
      // Shopify waits for 5 seconds.
      timeLimit: 4_500,
      verify: ({ headers, raw, secrets }) =>
        checkHmac({
          encoding: "base64",
          keys: secrets,
          message: [raw],
          signatures: [read(headers, "hmac-sha256")],
        }),
      identify: (body, { headers }) => {
        const shop = read(headers, "shop-domain");
        return {
          id: read(headers, "webhook-id") ?? undefined,
          type: read(headers, "topic") ?? "",
          body: shop && !Array.isArray(body) ? { shop_domain: shop, ...(body as object) } : body,
        };
      },
    },
    options,
  );

/** All headers of a request have the same prefix: `shopify-` for Events, otherwise `x-shopify-`. */
function read(headers: Headers, name: string): string | null {
  const prefix = headers.get("shopify-hmac-sha256") ? "shopify-" : "x-shopify-";
  return headers.get(prefix + name);
}
