/**
 * Which hosts are private, so that a stored address cannot make us call them. Looks at the host as it is written: Workers
 * do not resolve names. A public name that resolves to a private address is harmless, because requests leave from
 * Cloudflare's edge, which has no route into a private network.
 */

import ipaddr from "ipaddr.js";

/**
 * All of IPv6 that is assigned to the public internet. Other addresses, such as an IPv4 address after 96 zero bits, may
 * lead anywhere.
 * https://www.iana.org/assignments/ipv6-address-space/
 */
const PUBLIC_IPV6 = ipaddr.parseCIDR("2000::/3");

/** https://www.iana.org/assignments/special-use-domain-names/, and `internal`, which ICANN keeps for private use. */
const PRIVATE_DOMAINS = ["localhost", "local", "internal", "home.arpa"];

/**
 * Whether a host is private: an address that is not public unicast (loopback, link-local, an IPv4 address inside an IPv6
 * one ...), or a name that only a local network knows.
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
