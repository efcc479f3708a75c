/**
 * Which hosts are private, so that a stored address cannot make us call them. Looks at the host as it is written: Workers
 * do not resolve names. A public name that resolves to a private address is harmless, because requests leave from
 * Cloudflare's edge, which has no route into a private network.
 */

import { BlockList, isIP } from "node:net";

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
