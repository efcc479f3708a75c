/** Senders without a preset of their own: an HMAC, an Ed25519 signature or a shared token in a header. */

import type { Json } from "../../../../core/json.ts";
import { fieldsOf } from "../form.ts";
import {
  type Check,
  type Endpoint,
  type EndpointOptions,
  endpoint,
  type Incoming,
  type MaybeAgent,
  matches,
} from "../preset.ts";
import {
  checkEd25519,
  checkHmac,
  checkTime,
  checkToken,
  type Encoding,
  type Verified,
} from "../verify.ts";

/** The name of a header, or a function of the body and the headers. */
export type Field = string | ((body: Json, headers: Headers) => string | null | undefined);

type CommonOptions<Body, Target> = EndpointOptions<Body, Target> & {
  /** The header that has the signature or the token, e.g. `x-acme-signature`. */
  readonly header: string;
  /** The prefix of the header, e.g. `sha256=` or `Bearer `. @default "" */
  readonly prefix?: string;
  /** The arrival's id. The same arrival has the same id each time. @default the SHA-256 of the body */
  readonly id?: Field;
  /** The arrival's type. @default "" */
  readonly type?: Field;
  /** The form of the body. @default "json" */
  readonly format?: "json" | "form";
};

type SignedOptions = {
  /** Of the signature; for Ed25519 also of the public key. @default "hex" */
  readonly encoding?: Encoding;
  /** The header with the time of the signature, in seconds or milliseconds. `before` must contain it. */
  readonly timestamp?: string;
  /**
   * What is signed before the body, e.g. `v0:{timestamp}:`.
   * @default "{timestamp}." with a `timestamp`, otherwise ""
   */
  readonly before?: string;
};

/** `secret` names the key of the HMAC, the Ed25519 public key, or the token. */
export type CustomOptions<Body, Target> = CommonOptions<Body, Target> &
  (
    | ({ readonly scheme: "hmac"; readonly hash?: "SHA-1" | "SHA-256" } & SignedOptions)
    | ({ readonly scheme: "ed25519" } & SignedOptions)
    | { readonly scheme: "token" }
  );

const TIME = "{timestamp}";
const isHeader = matches(/^[\w-]+$/);
const isText = matches(/^/);
const header: Check = [isHeader, "the name of a header"];
const field: Check = [
  (value) => typeof value === "function" || isHeader(value),
  "the name of a header, or a function",
];
const oneOf = (...values: unknown[]): Check => [
  (value) => values.includes(value),
  values.join(" or "),
];

/** The options that the scheme has. */
const checksOf = (scheme: string, timestamp: unknown): Readonly<Record<string, Check>> => ({
  scheme: oneOf("hmac", "ed25519", "token"),
  header,
  prefix: [isText, "a text"],
  id: field,
  type: field,
  format: oneOf("json", "form"),
  ...(scheme !== "token" && {
    encoding: oneOf("hex", "base64"),
    timestamp: header,
    before: [
      (value: string) => isText(value) && value.includes(TIME) === !!timestamp,
      `a text, with ${TIME} only with a timestamp`,
    ],
  }),
  ...(scheme === "hmac" && { hash: oneOf("SHA-1", "SHA-256") }),
});

/**
 * Receives webhooks of any sender that signs the body, or sends a token:
 *
 *     custom({ name: "acme", scheme: "hmac", secret: "ACME_SECRET", header: "x-acme-signature", agent, handle })
 *
 * @throws InvalidOptionError
 */
export function custom<Target extends MaybeAgent, Body = Json>(
  options: CustomOptions<Body, Target>,
): Endpoint {
  return endpoint(
    {
      name: "custom",
      timeLimit: 9_000,
      tolerance: 300_000,
      options: checksOf(options.scheme, (options as SignedOptions).timestamp),
      verify: (incoming) => verify(options, incoming),
      ...(options.format === "form" && { form: fieldsOf, isFormOnly: true }),
      identify: (body, { headers, hash }) => {
        const read = (from: Field) =>
          (typeof from === "string" ? headers.get(from) : from(body, headers)) ?? "";
        const { id, type } = options;
        return { id: id ? read(id) : hash, type: type ? read(type) : "" };
      },
    },
    options,
    ["secret", "header", "scheme"],
  );
}

async function verify<Body, Target>(
  options: CustomOptions<Body, Target>,
  incoming: Incoming,
): Promise<Verified> {
  const { headers, raw, secrets } = incoming;
  const { prefix = "" } = options;
  const value = headers.get(options.header);
  if (!value) return "missing signature";
  if (!value.startsWith(prefix)) return "invalid signature";
  const given = value.slice(prefix.length);
  if (options.scheme === "token") return checkToken(given, secrets);
  const { encoding = "hex", timestamp, before = timestamp ? `${TIME}.` : "" } = options;
  const time = timestamp && headers.get(timestamp);
  const message = [before.replaceAll(TIME, `${time}`), raw];
  const check = options.scheme === "hmac" ? checkHmac : checkEd25519;
  const verified = await check({
    hash: (options as { hash?: "SHA-1" | "SHA-256" }).hash,
    encoding,
    keys: secrets,
    message,
    signatures: [encoding === "hex" ? given.toLowerCase() : given],
  });
  if (verified !== true || time === undefined) return verified;
  // Milliseconds have 12 digits or more since 1973, seconds until 5138 fewer.
  return checkTime(time && time.length > 11 ? time.slice(0, -3) : time, incoming);
}
