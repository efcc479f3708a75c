/** Meta, e.g. WhatsApp and Messenger: https://developers.facebook.com/docs/graph-api/webhooks/getting-started */

import { secretIn } from "../../../core/secrets.ts";
import { endpoint, type Identity, type Incoming, type PresetOf, secretName } from "../preset.ts";
import { misconfigured } from "../secrets.ts";
import { checkHmac, checkToken } from "../verify.ts";

export type WhatsAppMessage = {
  readonly id: string;
  /** The sender's phone number. */
  readonly from: string;
  /** Epoch seconds. */
  readonly timestamp: string;
  readonly type: string;
  readonly text?: { readonly body: string };
};

/** A batch: Meta puts up to 1,000 changes into an arrival. Pass a `schema` for more. */
export type MetaBody = {
  /** E.g. `whatsapp_business_account`, `page` or `instagram`. */
  readonly object: string;
  readonly entry: readonly {
    readonly id: string;
    /** Of WhatsApp and Graph API. */
    readonly changes?: readonly {
      /** E.g. `messages`. */
      readonly field: string;
      readonly value?: {
        readonly metadata?: {
          readonly phone_number_id: string;
          readonly display_phone_number: string;
        };
        readonly contacts?: readonly {
          readonly wa_id: string;
          readonly profile?: { readonly name: string };
        }[];
        readonly messages?: readonly WhatsAppMessage[];
        readonly statuses?: readonly {
          readonly id: string;
          readonly status: string;
          readonly recipient_id: string;
        }[];
      };
    }[];
    /** Of Messenger and Instagram. */
    readonly messaging?: readonly {
      readonly sender: { readonly id: string };
      readonly recipient: { readonly id: string };
      readonly message?: { readonly mid: string; readonly text?: string };
    }[];
  }[];
};

type MetaOwn = {
  /** The name of the secret in env that has the verify token, as it is entered with the URL in Meta's dashboard. */
  readonly verifyToken: string;
};

/**
 * Receives webhooks of Meta: WhatsApp, Messenger, Instagram and others. `secret` names the app secret.
 *
 * The type is the field that has changed, e.g. `messages`; of Messenger and of several fields, the object, e.g. `page`.
 * An arrival is a batch. The id is the message's if it has one new message and nothing else, otherwise the hash of the
 * body: a message that Meta sends again in another batch is another arrival. Where that matters, use the messages' own
 * ids as idempotency keys. Meta signs no time.
 */
export const meta: PresetOf<MetaBody, MetaOwn> = (options) =>
  endpoint(
    {
      name: "meta",
      // Meta waits for 5 seconds.
      timeLimit: 4_500,
      options: { verifyToken: secretName },
      onGet: (incoming) => subscribe(incoming, options.verifyToken),
      verify({ headers, raw, secrets }) {
        const signatures = [headers.get("x-hub-signature-256")];
        const prefix = "sha256=";
        return checkHmac({ encoding: "hex", keys: secrets, message: [raw], prefix, signatures });
      },
      identify: (body, { hash }) => identify(body as Partial<MetaBody>, hash),
    },
    options,
    ["secret", "verifyToken"],
  );

/** Answers the request by which Meta checks the URL. */
async function subscribe(
  { url, env }: Pick<Incoming, "url" | "env">,
  verifyToken: string,
): Promise<Response> {
  const query = url.searchParams;
  const verified = await checkToken(query.get("hub.verify_token"), [
    (await secretIn(env, verifyToken)) ?? misconfigured([verifyToken]),
  ]);
  if (verified !== true) return new Response(null, { status: 401 });
  // A text, and never HTML: the challenge is whatever the query has.
  const headers = { "x-content-type-options": "nosniff" };
  return new Response(query.get("hub.challenge") ?? "", { headers });
}

function identify({ object = "", entry = [] }: Partial<MetaBody>, hash: string): Identity {
  const changes = entry.flatMap((one) => one.changes ?? []);
  // A status has the id of the message that it is about, so its id is no key.
  const ids = changes.map(({ field, value }) =>
    field === "messages" && value?.messages?.length === 1 && !value.statuses
      ? value.messages[0]?.id
      : "",
  );
  ids.push(...entry.flatMap((one) => one.messaging ?? []).map(({ message }) => message?.mid));
  const field = changes[0]?.field ?? object;
  const type = changes.every((change) => change.field === field) ? field : object;
  return { id: (entry.length === 1 && ids.length === 1 && ids[0]) || hash, type };
}
