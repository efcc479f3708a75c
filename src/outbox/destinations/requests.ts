/** Shared by requests to other servers: private hosts, secrets of `env`, and the beginning of a response. */

import { BlockList, isIP } from "node:net";
import * as z from "zod";
import { withTimeout } from "../../core/clock.ts";
import { shownName } from "../../core/secrets.ts";
import type { FieldProblem } from "./adapter.ts";

export type Problem = Omit<FieldProblem, "field">;

/** A schema from a function. The message shows what the function says in place of the value, which may be a secret. */
export function checked<T>(problemOf: (value: unknown) => Problem | undefined): z.ZodType<T, T> {
  return z.custom<T>().check((ctx) => {
    const problem = problemOf(ctx.value);
    if (!problem) return;
    const { given, expected: message } = problem;
    ctx.issues.push({ code: "custom", input: ctx.value, message, params: { given } });
  });
}

/** Methods of other bindings that also have `get`. */
const FOREIGN_METHODS = ["put", "list", "idFromName", "createBatch", "fetch", "send"] as const;

/** Whether this is a string, or a binding to a Secrets Store. */
function isSecret(env: object, name: string): boolean {
  const value: unknown = Object.hasOwn(env, name) ? Reflect.get(env, name) : undefined;
  if (typeof value !== "object" || value === null) return typeof value === "string";
  const has = (method: string) => typeof Reflect.get(value, method) === "function";
  // A binding to another Worker answers to every name.
  return has("get") && !FOREIGN_METHODS.some(has);
}

/** The value of a secret. @throws what the Secrets Store throws */
export async function readSecret(binding: unknown): Promise<unknown> {
  const { get } = Object(binding) as Partial<SecretsStoreSecret>;
  return typeof get === "function" ? get.call(binding) : binding;
}

/** The name of one secret in `env`. The value is not shown: the secret itself may stand there. */
export const SECRET_NAME = checked<string>((name) =>
  typeof name === "string" && /^[A-Za-z_]\w{0,99}$/.test(name)
    ? undefined
    : {
        given: "(not shown)",
        expected: 'expected the name of a secret in env, such as "BOT_TOKEN", and never the secret',
      },
);

/** What is wrong with the name of a secret in this field of a destination. */
export function problemOfSecret(
  env: object,
  field: string,
  name: string,
): FieldProblem | undefined {
  if (isSecret(env, name)) return undefined;
  const shown = shownName(name);
  const given = shown ?? "(not shown, because it may be the secret itself)";
  const expected = `expected the name of a secret of this Worker. Set it: wrangler secret put ${shown ?? "<its name>"}`;
  return { field, given, expected };
}

/** Characters of a response's body that an error keeps. */
const MAX_EXCERPT = 1_024;
/** The time limit for reading that body, after the status. */
const EXCERPT_MS = 1_000;

/** The beginning of a response's body on one line, or as much as arrives in time. The rest is never read. */
export async function excerptOf({ body }: Response): Promise<string> {
  if (body === null) return "";
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let text = "";
  const read = async () => {
    while (text.length < MAX_EXCERPT) {
      const { done, value } = await reader.read();
      if (done) return;
      text += decoder.decode(value, { stream: true });
    }
  };
  // A body that breaks off, hangs or is aborted changes nothing: the status decides.
  await withTimeout(read(), EXCERPT_MS).catch(() => {});
  void reader.cancel().catch(() => {});
  return text
    .slice(0, MAX_EXCERPT)
    .replace(/[\s\p{Cc}]+/gu, " ")
    .trim();
}

/*
 * Private hosts. A stored address must not make us call them. Only the host as it is written counts: Workers do not resolve
 * names. A public name that resolves to a private address is harmless, because requests leave from Cloudflare's edge, which
 * has no route into a private network.
 */

/**
 * IPv4 that is not on the public internet, and services that are no webhook's receiver.
 * https://www.iana.org/assignments/iana-ipv4-special-registry/
 * https://www.iana.org/assignments/multicast-addresses/
 */
const PRIVATE_IPV4 = listOf(
  "ipv4",
  "0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24 192.31.196.0/24 " +
    "192.52.193.0/24 192.88.99.0/24 192.168.0.0/16 192.175.48.0/24 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/3",
);

/**
 * All of IPv6 that is assigned to the public internet. Other addresses, such as an IPv4 address after 96 zero bits, may
 * lead anywhere.
 * https://www.iana.org/assignments/ipv6-address-space/
 */
const ASSIGNED_IPV6 = listOf("ipv6", "2000::/3");

/** Of these, the ones that are kept: https://www.iana.org/assignments/iana-ipv6-special-registry/ */
const PRIVATE_IPV6 = listOf(
  "ipv6",
  "2001::/23 2001:db8::/32 2002::/16 2620:4f:8000::/48 3fff::/20",
);

/** https://www.iana.org/assignments/special-use-domain-names/, and `internal`, which ICANN keeps for private use. */
const PRIVATE_DOMAINS = ["localhost", "local", "internal", "home.arpa"];

/**
 * Whether a host is private: an address that is not public unicast (loopback, link-local, an IPv4 address inside an IPv6
 * one ...), or a name that only a local network knows.
 *
 * @param hostname as `URL.hostname` gives it, which knows the other spellings of an address
 */
export function isPrivateHost(hostname: string): boolean {
  const host = hostname.replace(/^\[(.*)\]$/, "$1").replace(/\.+$/, "");
  const version = isIP(host);
  if (version === 4) return PRIVATE_IPV4.check(host, "ipv4");
  if (version === 6) return !ASSIGNED_IPV6.check(host, "ipv6") || PRIVATE_IPV6.check(host, "ipv6");
  // A name without a dot is looked up in the local network.
  return !host.includes(".") || PRIVATE_DOMAINS.some((domain) => host.endsWith(`.${domain}`));
}

function listOf(version: "ipv4" | "ipv6", ranges: string): BlockList {
  const list = new BlockList();
  for (const range of ranges.split(" ")) {
    const [first = "", length] = range.split("/");
    list.addSubnet(first, Number(length), version);
  }
  return list;
}
