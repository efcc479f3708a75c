/** Twilio: https://www.twilio.com/docs/usage/webhooks/webhooks-security */

import { fieldsOf } from "../form.ts";
import { type Check, endpoint, type Incoming, type PresetOf } from "../preset.ts";
import { checkHmac, type Verified } from "../verify.ts";

/** The parameters of a message or a call. Of a parameter that occurs more than once, the last value. */
export type TwilioBody = {
  readonly AccountSid: string;
  readonly From?: string;
  readonly To?: string;
  readonly MessageSid?: string;
  /** The text of a message. */
  readonly Body?: string;
  readonly NumMedia?: string;
  /** The state of a message that you have sent. */
  readonly MessageStatus?: string;
  readonly CallSid?: string;
  readonly CallStatus?: string;
  readonly Digits?: string;
  readonly SpeechResult?: string;
} & Readonly<Record<string, string | undefined>>;

type TwilioOwn = {
  /**
   * The URL as Twilio has it, e.g. `https://example.com/hooks/twilio`, where a proxy or a tunnel changes it: Twilio signs
   * it. The query is that of the request, and also the one that is written here.
   * @default the request's URL
   */
  readonly url?: string;
};

/**
 * Receives webhooks of Twilio, by POST. `secret` names the auth token. The type is that of an event, or the status of a
 * message or a call, e.g. `received` or `delivered`; "" where the body has none.
 *
 * The id is the `MessageSid` of a message that was received. Of a message that was sent, the status is part of it. One
 * call sends many requests, and two of them may have equal bodies: their id is that of the header
 * `I-Twilio-Idempotency-Token`, the same in each retry. Twilio does not sign it, so it is as trustworthy as the connection.
 * Without it, the id is the hash of the parameters, as Twilio signs them. Twilio signs no time.
 *
 * The answer is TwiML without instructions. Return a Response from `handle` for others.
 */
export const twilio: PresetOf<TwilioBody, TwilioOwn> = (options) =>
  endpoint(
    {
      name: "twilio",
      // Twilio waits for 15 seconds.
      timeLimit: 14_000,
      options: { url: publicUrl },
      form: fieldsOf,
      verify: (incoming) => verify(incoming, options.url),
      identify(body, incoming) {
        const fields = body as Partial<TwilioBody>;
        const { MessageSid, EventType } = fields;
        const status = fields.MessageStatus ?? fields.SmsStatus;
        const change = status === "received" ? undefined : status;
        // An event of a conversation has the message's id, and is one of several about it.
        const message = !EventType && [MessageSid, MessageSid && change].filter(Boolean).join("-");
        const token = incoming.headers.get("i-twilio-idempotency-token");
        const type = EventType ?? status ?? fields.CallStatus ?? "";
        // The order and the encoding of the parameters are not signed: who repeats a request can change them.
        return { id: message || token || parametersOf(incoming) || incoming.hash, type };
      },
      answer: ({ status }) =>
        status === 200
          ? new Response("<Response/>", { headers: { "content-type": "text/xml" } })
          : undefined,
    },
    options,
  );

const publicUrl: Check = [
  (value: string) => /^https?:\/\/[^#]+$/.test(value) && URL.canParse(value),
  "a URL that begins with http and has no #",
];

/** The signature is of the URL, and of the parameters of a form; another body is signed by its hash in the URL. */
async function verify(incoming: Incoming, configured: string | undefined): Promise<Verified> {
  const { headers, hash, secrets } = incoming;
  const signatures = [headers.get("x-twilio-signature")];
  if (!signatures[0]) return "missing signature";
  const parameters = parametersOf(incoming);
  const checks = candidates(incoming.url, configured).map((url) => {
    const bodyHash = URL.parse(url)?.searchParams.get("bodySHA256");
    const signed = bodyHash == null ? parameters : bodyHash === hash ? "" : undefined;
    if (signed === undefined) return undefined;
    const message = [url, signed];
    return checkHmac({ hash: "SHA-1", encoding: "base64", keys: secrets, message, signatures });
  });
  const verified = await Promise.all(checks);
  return verified.includes(true) || "invalid signature";
}

/** The names and values of a form, in the order of the names; undefined for JSON. Equal values of the same name count once. */
function parametersOf({ headers, raw }: Incoming): string | undefined {
  const isForm = /^application\/x-www-form-urlencoded\b/i.test(headers.get("content-type") ?? "");
  if (!isForm) return undefined;
  const fields = new URLSearchParams(new TextDecoder().decode(raw));
  // Both are compared by UTF-16 code units, as Twilio's package does it.
  const sortedSet = (texts: Iterable<string>) => [...new Set(texts)].sort();
  return sortedSet(fields.keys())
    .flatMap((name) => sortedSet(fields.getAll(name)).map((value) => name + value))
    .join("");
}

/**
 * What Twilio may have signed: the URL with and without its port. A request's URL was parsed, which escapes characters
 * that Twilio does not escape, so it is also tried without these escapes, and its query as a form and a URI escape it.
 */
function candidates(requested: URL, configured: string | undefined): readonly string[] {
  const urls =
    configured === undefined
      ? [requested.href]
      : [configured, configured.split("?", 1) + requested.search];
  return [...new Set(urls.flatMap(escapings).flatMap(withAndWithoutPort))];
}

/** Escapes that a parser of URLs has added: of punctuation in a query, and of characters beyond ASCII. */
const ADDED = [/%27/g, /%(22|27|3C|3E)/g, /%(22|27|3C|3E|[C-F].(%[89AB].)+)/g];

function escapings(url: string): readonly string[] {
  const { href, searchParams } = new URL(url);
  const pairs = [...searchParams].map((pair) => pair.map(encodeURIComponent).join("="));
  const asUri = `${href.split("?", 1)}?${pairs.join("&")}`;
  return [
    url,
    href,
    ...ADDED.map((escapes) => href.replace(escapes, unescaped)),
    asUri,
    asUri.replaceAll("%20", "+"),
  ];
}

/** As decodeURIComponent(), which throws for bytes that are not UTF-8. */
const unescaped = (text: string) => [...new URLSearchParams(text).keys()].join("");

function withAndWithoutPort(url: string): readonly string[] {
  const [, origin, port, rest] =
    url.match(/^(https?:\/\/(?:[^/?#]*@)?(?:\[[^\]]*\]|[^:/?#]*))(:\d*)?(.*)/is) ?? [];
  return [`${origin}${rest}`, `${origin}${port ?? (/^https:/i.test(url) ? ":443" : ":80")}${rest}`];
}
