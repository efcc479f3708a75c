/** Which hosts a webhook may not lead to, as a URL's parser hands them over. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { isPrivateHost } from "../../../src/outbox/destinations/requests.ts";

function hostOf(spelling: string): string {
  return new URL(`https://${spelling}/`).hostname;
}

/** An IPv4 address as one number. */
const address = fc.integer({ min: 0, max: 2 ** 32 - 1 });

/** First address and length of the prefix: what IANA keeps from the public internet, from the registry itself. */
const KEPT: readonly (readonly [string, number])[] = [
  ["0.0.0.0", 8],
  ["10.0.0.0", 8],
  ["100.64.0.0", 10],
  ["127.0.0.0", 8],
  ["169.254.0.0", 16],
  ["172.16.0.0", 12],
  ["192.0.0.0", 24],
  ["192.0.2.0", 24],
  ["192.168.0.0", 16],
  ["198.18.0.0", 15],
  ["198.51.100.0", 24],
  ["203.0.113.0", 24],
  ["224.0.0.0", 4],
  ["240.0.0.0", 4],
];

function dotted(number: number): string {
  return [24, 16, 8, 0].map((shift) => (number >>> shift) & 0xff).join(".");
}

function numberOf(text: string): number {
  return text.split(".").reduce((number, octet) => number * 256 + Number(octet), 0);
}

/** All the ways in which a URL may spell one IPv4 address. */
function spellingsOf(number: number): string[] {
  const octets = dotted(number).split(".").map(Number);
  const [a, b] = octets;
  const hex = octets.map((octet) => `0x${octet.toString(16)}`).join(".");
  const octal = octets.map((octet) => `0${octet.toString(8)}`).join(".");
  return [
    dotted(number),
    `${dotted(number)}.`,
    String(number),
    `0x${number.toString(16)}`,
    `0${number.toString(8)}`,
    hex,
    octal,
    `${a}.${number % 2 ** 24}`,
    `${a}.0x${(b ?? 0).toString(16)}.${number % 2 ** 16}`,
  ];
}

/** All the ways in which an IPv6 address may lead to it. */
function embeddingsOf(number: number): string[] {
  const high = (number >>> 16).toString(16);
  const low = (number & 0xffff).toString(16);
  return [
    `::${high}:${low}`,
    `::ffff:${high}:${low}`,
    `::ffff:0:${high}:${low}`,
    `64:ff9b::${high}:${low}`,
    `64:ff9b:1::${high}:${low}`,
    `2002:${high}:${low}::1`,
    `2001:0:${high}:${low}::1`,
  ].map((text) => `[${text}]`);
}

describe("A private address", () => {
  it.each(KEPT)("O1: every address in %s/%i is private, in every spelling", (first, length) => {
    const size = 2 ** (32 - length);
    const start = numberOf(first);
    const offset = fc.oneof(fc.constantFrom(0, size - 1), fc.integer({ min: 0, max: size - 1 }));
    fc.assert(
      fc.property(offset, (at) => {
        for (const spelling of spellingsOf(start + at)) {
          expect([spelling, isPrivateHost(hostOf(spelling))]).toEqual([spelling, true]);
        }
      }),
    );
  });

  it("O1: every IPv6 address that embeds an IPv4 address is private", () => {
    fc.assert(
      fc.property(address, (number) => {
        for (const host of embeddingsOf(number)) {
          expect([host, isPrivateHost(hostOf(host))]).toEqual([host, true]);
        }
      }),
    );
  });

  it.each([
    "0x7f.1",
    "2130706433",
    "017700000001",
    "127.1",
    "127.0.0.1.",
    "１２７.1",
    "169.254.169.254",
    "255.255.255.255",
    "[::]",
    "[::1]",
    "[::127.0.0.1]",
    "[::ffff:127.0.0.1]",
    "[fe80::1]",
    "[fd00:ec2::254]",
    "[fc00::1]",
    "[fec0::1]",
    "[ff02::1]",
    "[100::1]",
    "[2001:2::1]",
    "[2001:1ff:ffff::1]",
    "[2001:db8::1]",
    "[2620:4f:8000::1]",
    "[3fff::1]",
    "[4000::1]",
    "[5f00::1]",
  ])("O1: %s is a private address", (host) => {
    expect(isPrivateHost(hostOf(host))).toBe(true);
  });
});

describe("A public address", () => {
  /** Single-purpose services that are reachable and no webhook's receiver; these count as private, too. */
  const SERVICES = ["192.31.196.", "192.52.193.", "192.88.99.", "192.175.48."];

  it("O1: every address outside of the reserved ranges is public", () => {
    const isKept = (number: number) =>
      KEPT.some(([first, length]) => {
        const start = numberOf(first);
        return number >= start && number < start + 2 ** (32 - length);
      }) || SERVICES.some((prefix) => dotted(number).startsWith(prefix));
    fc.assert(
      fc.property(address, (number) => {
        for (const spelling of spellingsOf(number)) {
          expect([spelling, isPrivateHost(hostOf(spelling))]).toEqual([spelling, isKept(number)]);
        }
      }),
      { numRuns: 1_000 },
    );
  });

  it.each([
    "1.1.1.1",
    "9.255.255.255",
    "11.0.0.0",
    "100.63.255.255",
    "100.128.0.0",
    "126.255.255.255",
    "128.0.0.0",
    "172.15.255.255",
    "172.32.0.0",
    "192.167.255.255",
    "192.169.0.0",
    "223.255.255.255",
    "[2001:200::1]",
    "[2001:4860:4860::8888]",
    "[2606:4700:4700::1111]",
    "[2620:4f:8001::1]",
    "[3ffe::1]",
    "[2a00:1450:4001:80b::200e]",
  ])("O1: %s is a public address", (host) => {
    expect(isPrivateHost(hostOf(host))).toBe(false);
  });
});

describe("A name", () => {
  it.each([
    "localhost",
    "LOCALHOST",
    "localhost.",
    "localhost..",
    "ⓛocalhost",
    "api.localhost",
    "printer.local",
    "printer.local.",
    "metadata.google.internal",
    "nas.home.arpa",
    "intranet",
    "intranet.",
  ])("O1: the name %s is private", (name) => {
    expect(isPrivateHost(hostOf(name))).toBe(true);
  });

  it("O1: an empty name is private", () => {
    expect(isPrivateHost("")).toBe(true);
    expect(isPrivateHost(".")).toBe(true);
  });

  it.each([
    "example.com",
    "example.com.",
    "localhost.example.com",
    "notlocalhost.com",
    "my-internal.com",
    "arpa.example.org",
    "127.0.0.1.example.com",
    "bücher.example",
    "a.co",
  ])("O1: the name %s is public", (name) => {
    expect(isPrivateHost(hostOf(name))).toBe(false);
  });
});
