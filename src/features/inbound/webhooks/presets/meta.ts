/** Meta, e.g. WhatsApp and Messenger: https://developers.facebook.com/docs/graph-api/webhooks/getting-started */

import type { Json } from "../../../../core/json.ts";
import { secretIn } from "../../../../core/secrets.ts";
import {
  endpoint,
  type Identity,
  type Incoming,
  type Preset,
  type PresetOf,
  secretName,
} from "../preset.ts";
import { misconfigured } from "../secrets.ts";
import { type Bytes, checkHmac, checkToken, sha256Hex } from "../verify.ts";

export type WhatsAppMessage = {
  readonly id: string;
  /** The sender's phone number. */
  readonly from: string;
  /** Epoch seconds. */
  readonly timestamp: string;
  readonly type: string;
  readonly text?: { readonly body: string };
};

/** One message, status or other change: `entry` has one item, with one item of `changes` or `messaging`. Pass a `schema` for more. */
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

/** Meta sends up to 1,000 changes in a batch. */
const MAX_PARTS = 5_000;

type MetaOwn = {
  /** The name of the secret in env that has the verify token, as it is entered with the URL in Meta's dashboard. */
  readonly verifyToken: string;
};

/**
 * Receives webhooks of Meta: WhatsApp, Messenger, Instagram and others. `secret` names the app secret.
 *
 * Meta sends batches. Each message, status and other change of one is an arrival, whose body has the account and this
 * change alone. The type is the field that has changed, e.g. `messages`; of Messenger, the object, e.g. `page`. The id is
 * that of a new message, also if Meta sends it again in another batch, otherwise the hash of the body. Meta signs no time.
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
      offerAll(body, offer) {
        const bodies = split(body as Partial<MetaBody>);
        return bodies[0] && offerEach(bodies as unknown as Json[], offer);
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

/** One body for each message, status and other change, so that each goes to its own agent. */
function split({ entry = [], ...batch }: Partial<MetaBody>): MetaBody[] {
  const bodies = entry.flatMap(({ changes = [], messaging = [], ...account }) => {
    const parts = [
      ...changes.flatMap(splitChange).map((change) => ({ changes: [change] })),
      ...messaging.map((one) => ({ messaging: [one] })),
    ];
    return (parts[0] ? parts : [{}]).map((part) => ({
      ...batch,
      entry: [{ ...account, ...part }],
    }));
  });
  if (bodies.length > MAX_PARTS) throw new RangeError();
  return bodies as unknown as MetaBody[];
}

/**
 * In their order: those of one conversation keep it. Where one is refused, the answer is the refusal, and Meta repeats all of
 * them: the others are duplicates then.
 */
async function offerEach(
  bodies: readonly Json[],
  offer: Parameters<NonNullable<Preset["offerAll"]>>[1],
): Promise<Response> {
  let answer = new Response();
  for (const body of bodies) {
    const raw = new TextEncoder().encode(JSON.stringify(body)) as Bytes;
    const response = await offer({ raw, hash: await sha256Hex(raw), body });
    if (answer.ok) answer = response;
  }
  return answer;
}

type Change = NonNullable<MetaBody["entry"][number]["changes"]>[number];

function splitChange(change: Change): readonly Change[] {
  const { messages = [], statuses = [], contacts, ...value } = change.value ?? {};
  if (change.field !== "messages" || messages.length + statuses.length < 2) return [change];
  const about = (user: string, part: object): Change => {
    const own = contacts?.filter(({ wa_id }) => wa_id === user);
    const known = own?.[0] ? own : contacts;
    return { ...change, value: { ...value, ...(known && { contacts: known }), ...part } };
  };
  return [
    ...messages.map((one) => about(one.from, { messages: [one] })),
    ...statuses.map((one) => about(one.recipient_id, { statuses: [one] })),
  ];
}

/** Of one of the bodies of `split()`. */
function identify({ object = "", entry = [] }: Partial<MetaBody>, hash: string): Identity {
  const { changes = [], messaging = [] } = entry[0] ?? {};
  const { field = object, value } = changes[0] ?? {};
  // A status has the id of the message that it is about, so its id is no key.
  const message = field === "messages" ? value?.messages?.[0]?.id : messaging[0]?.message?.mid;
  return { id: message || hash, type: field };
}
