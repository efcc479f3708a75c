/**
 * Addresses of destinations: how a log names them, and which hosts are private. A private one is nothing that a stored address may make us call.
 * Looks at the host as it is written; what a name resolves to cannot be seen
 * here, because Workers resolve no names themselves. A public name that
 * resolves to a private address leads nowhere either: requests leave from
 * Cloudflare's edge, which has no route into anybody's private network.
 */

import ipaddr from "ipaddr.js";
import type { Destination } from "../types.ts";

/**
 * All of IPv6 that is assigned to the public internet. What lies outside, such
 * as an IPv4 address behind 96 zero bits, may lead anywhere.
 * https://www.iana.org/assignments/ipv6-address-space/
 */
const PUBLIC_IPV6 = ipaddr.parseCIDR("2000::/3");

/** https://www.iana.org/assignments/special-use-domain-names/, and `internal`, which ICANN keeps for private use. */
const PRIVATE_DOMAINS = ["localhost", "local", "internal", "home.arpa"];

/**
 * Whether a host is a private one: an address that is not plain public
 * unicast (loopback, link-local, an IPv4 address inside an IPv6 one ...), or a
 * name that only a local network knows.
 *
 * @param hostname as `URL.hostname` gives it, an IPv6 address in brackets or without
 */
export function isPrivateHost(hostname: string): boolean {
  const host = hostname
    .toLowerCase()
    .replace(/^\[(.*)\]$/, "$1")
    .replace(/\.+$/, "");
  return ipaddr.isValid(host) ? !isPublicAddress(ipaddr.parse(host)) : !isPublicName(host);
}

function isPublicAddress(address: ipaddr.IPv4 | ipaddr.IPv6): boolean {
  if (address.range() !== "unicast") return false;
  return address.kind() === "ipv4" || address.match(PUBLIC_IPV6);
}

/** A name without a dot is looked up in the local network. */
function isPublicName(name: string): boolean {
  return name.includes(".") && !PRIVATE_DOMAINS.some((domain) => name.endsWith(`.${domain}`));
}

/** A destination in a few words, for a log. Of a URL only the host: the rest may be a secret. */
export function addressOf(to: Destination): string {
  if (to.kind === "workflow" || to.kind === "workflow-start") {
    return `${to.workflow} ${to.instance}`;
  }
  if (to.kind === "agent") return `${to.agent} ${to.name} ${to.method}()`;
  if (to.kind === "method") return `${to.method}()`;
  if (to.kind === "queue") return to.queue;
  // A kind that a newer version of Perdure has stored has no URL.
  return hostOf(to.url);
}

export function hostOf(url: string): string {
  return URL.parse(url)?.host ?? "";
}
