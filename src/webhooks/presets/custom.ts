/** Senders without a preset of their own: an HMAC, an Ed25519 signature or a shared token in a header. */

import type { Json } from "../../core/json.ts";
import { InvalidOptionError } from "../../core/options.ts";
import { fieldsOf } from "../form.ts";
import {
  aFunction,
  type Check,
  type Endpoint,
  type EndpointOptions,
  endpoint,
  invalid,
} from "../preset.ts";
import {
  checkEd25519,
  checkHmac,
  checkTime,
  checkToken,
  concat,
  type Encoding,
  type Verified,
} from "../verify.ts";

/** The name of a header, or a function of the body and the headers. */
export type Field = string | ((body: Json, headers: Headers) => string | null | undefined);

type CommonOptions<Body, Target> = EndpointOptions<Body, Target> & {
  /** The header that has the signature or the token, e.g. `x-acme-signature`. */
  readonly header: string;
  /** What the header begins with, e.g. `sha256=` or `Bearer `. @default "" */
  readonly prefix?: string;
  /** The delivery's id. The same delivery has the same id each time. @default the SHA-256 of the body */
  readonly id?: Field;
  /** The delivery's type. @default "" */
  readonly type?: Field;
  /** What the sender sends. @default "json" */
  readonly format?: "json" | "form";
};

type SignedOptions = {
  /** Of the signature; for Ed25519 also of the public key. @default "hex" */
  readonly encoding?: Encoding;
  /** The header with the time of the signature, in seconds or milliseconds. `signed` must contain it. */
  readonly timestamp?: string;
  /**
   * What is signed, of `{body}`, `{timestamp}` and `{url}`.
   * @default "{timestamp}.{body}" with a `timestamp`, otherwise "{body}"
   */
  readonly signed?: string;
};

/** `secret` names the key of the HMAC, the Ed25519 public key, or the token. */
export type CustomOptions<Body, Target> = CommonOptions<Body, Target> &
  (
    | ({ readonly scheme: "hmac"; readonly hash?: "SHA-1" | "SHA-256" } & SignedOptions)
    | ({ readonly scheme: "ed25519" } & SignedOptions)
    | { readonly scheme: "token" }
  );

const HEADER = /^[\w!#$%&'*+.^`|~-]+$/;

const header: Check = (option, value) => {
  if (typeof value !== "string" || !HEADER.test(value))
    throw invalid(option, value, 'the name of a header, e.g. "x-acme-signature"');
};
const field: Check = (option, value) =>
  typeof value === "string" ? header(option, value) : aFunction(option, value);
const text: Check = (option, value) => {
  if (typeof value !== "string") throw invalid(option, value, "a string");
};
const oneOf =
  (...values: readonly string[]): Check =>
  (option, value) => {
    if (!values.includes(value as string))
      throw invalid(option, value, `one of ${values.join(", ")}`);
  };

const COMMON = { header, prefix: text, id: field, type: field, format: oneOf("json", "form") };
const SIGNED = { encoding: oneOf("hex", "base64"), timestamp: header, signed: text };
const OPTIONS: Readonly<Record<string, Readonly<Record<string, Check>>>> = {
  hmac: { ...COMMON, ...SIGNED, hash: oneOf("SHA-1", "SHA-256") },
  ed25519: { ...COMMON, ...SIGNED },
  token: COMMON,
};

/**
 * Receives webhooks of any sender that signs the body, or sends a token:
 *
 *     custom({ name: "acme", scheme: "hmac", secret: "ACME_SECRET", header: "x-acme-signature", agent, handle })
 *
 * @throws InvalidOptionError
 */
export function custom<Target, Body = Json>(options: CustomOptions<Body, Target>): Endpoint {
  const scheme = oneOf(...Object.keys(OPTIONS));
  scheme("scheme", options?.scheme);
  const made = endpoint(
    {
      name: "custom",
      timeLimit: 9_000,
      tolerance: 300_000,
      options: { ...OPTIONS[options.scheme], scheme },
      verify: (incoming) => verify(options, incoming),
      ...(options.format === "form" && { form: fieldsOf, isFormOnly: true }),
      identify: (body, { headers, hash }) => {
        const { id, type } = options;
        return {
          id: id === undefined ? hash : read(id, body, headers),
          type: (type && read(type, body, headers)) ?? "",
        };
      },
    },
    options,
  );
  check(options);
  return made;
}

function check<Body, Target>(options: CustomOptions<Body, Target>): void {
  if (options.header === undefined)
    throw new InvalidOptionError("header", 'Missing option "header" in options of custom().');
  if (options.scheme === "token") return;
  const { timestamp } = options;
  const fields = [...templateOf(options).matchAll(/\{(\w+)\}/g)].map(([, name]) => name as string);
  const valid = ["body", "url", ...(timestamp === undefined ? [] : ["timestamp"])];
  const isValid =
    fields.includes("body") &&
    fields.every((name) => valid.includes(name)) &&
    (timestamp === undefined || fields.includes("timestamp"));
  if (isValid) return;
  const needs = timestamp === undefined ? "{body}" : "{body} and {timestamp}";
  const expected = `a text with ${needs}, and no fields but ${valid.map((name) => `{${name}}`).join(", ")}`;
  throw invalid("signed", options.signed, expected);
}

function templateOf({ signed, timestamp }: SignedOptions): string {
  return signed ?? (timestamp === undefined ? "{body}" : "{timestamp}.{body}");
}

type Signed = Parameters<Parameters<typeof endpoint>[0]["verify"]>[0];

async function verify<Body, Target>(
  options: CustomOptions<Body, Target>,
  { headers, raw, url, secrets, now, tolerance }: Signed,
): Promise<Verified> {
  const { prefix = "" } = options;
  const value = headers.get(options.header);
  if (!value) return "missing signature";
  if (!value.startsWith(prefix)) return "invalid signature";
  const given = value.slice(prefix.length);
  if (options.scheme === "token") return checkToken(given, secrets);
  const time = options.timestamp === undefined ? undefined : headers.get(options.timestamp);
  if (time === null) return "missing timestamp";
  const fields = new Map<string, string | typeof raw>([
    ["{body}", raw],
    ["{url}", url.href],
    ["{timestamp}", time ?? ""],
  ]);
  const parts = templateOf(options).split(/(\{\w+\})/);
  const message = concat(...parts.map((part) => fields.get(part) ?? part));
  const { encoding = "hex" } = options;
  const verified =
    options.scheme === "ed25519"
      ? await checkEd25519({ encoding, publicKeys: secrets, message, signature: given })
      : await checkHmac({
          ...(options.hash && { hash: options.hash }),
          encoding,
          keys: secrets,
          message,
          signatures: [encoding === "hex" ? given.toLowerCase() : given],
        });
  if (verified !== true || time === undefined) return verified;
  // Milliseconds have 12 digits or more since 1973, seconds until 5138 fewer.
  return checkTime(time.length > 11 ? time.slice(0, -3) : time, { now, tolerance });
}

function read(from: Field, body: Json, headers: Headers): string | undefined {
  return (typeof from === "string" ? headers.get(from) : from(body, headers)) ?? undefined;
}
