/** Tokens of signed links: what they carry, and that no other text is one. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type Link, MAX_TOKEN, readLink, signLink } from "../../src/core/links.ts";

const SECRET = "a secret of the tests";
const NOW = 1_800_000_000_000;
const link: Link = {
  binding: "Desk",
  name: "ann's désk 🗄️",
  path: [{ className: "Child", name: "a/b" }],
  expires: NOW + 1_000,
  what: "approval",
  id: "approval-1",
  decision: "grant",
  by: "mail: <ann@example.com>",
  payload: { amount: 7 },
};

describe("a token", () => {
  it("carries any link, and every secret of the reader opens it", async () => {
    await fc.assert(
      fc.asyncProperty(fc.string({ unit: "grapheme" }), fc.jsonValue(), async (text, payload) => {
        const given = JSON.parse(
          JSON.stringify({ ...link, name: text, by: text, payload }),
        ) as Link;
        const token = await signLink(given, SECRET);
        expect(token).toMatch(/^[\w.-]+$/);
        expect(await readLink(token, ["another one", SECRET], NOW)).toEqual(given);
      }),
      { numRuns: 50 },
    );
  });

  it("is refused with any changed, missing or added character", async () => {
    const token = await signLink(link, SECRET);
    const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.=+/ %";
    for (let at = 0; at < token.length; at++) {
      const other = alphabet[(alphabet.indexOf(token[at] as string) + 1) % alphabet.length];
      const changed = [
        `${token.slice(0, at)}${other}${token.slice(at + 1)}`,
        `${token.slice(0, at)}${token.slice(at + 1)}`,
        `${token.slice(0, at)}${other}${token.slice(at)}`,
        token.slice(0, at),
      ];
      for (const one of changed) expect(await readLink(one, [SECRET], NOW)).toBe("invalid");
    }
  });

  it("is refused with each other last character, though base64 may decode it to the same bytes", async () => {
    const token = await signLink(link, SECRET);
    for (const last of "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") {
      const read = await readLink(token.slice(0, -1) + last, [SECRET], NOW);
      expect(read === "invalid").toBe(last !== token.at(-1));
    }
  });

  it.each([
    ["another secret", async () => readLink(await signLink(link, "other"), [SECRET], NOW)],
    ["no secret", async () => readLink(await signLink(link, SECRET), [], NOW)],
    ["a signature of the content alone", async () => readLink(await undomained(), [SECRET], NOW)],
    ["too many characters", async () => readLink(`${"A".repeat(MAX_TOKEN)}.A`, [SECRET], NOW)],
    ["nothing", async () => readLink("", [SECRET], NOW)],
    ["three parts", async () => readLink(`${await signLink(link, SECRET)}.A`, [SECRET], NOW)],
  ])("of %s is invalid", async (_, read) => {
    expect(await read()).toBe("invalid");
  });

  it("expires", async () => {
    const token = await signLink(link, SECRET);
    expect(await readLink(token, [SECRET], NOW + 999)).toEqual(link);
    expect(await readLink(token, [SECRET], NOW + 1_000)).toBe("expired");
  });
});

/** As another part of the app may sign with the same secret. */
async function undomained(): Promise<string> {
  const [content = ""] = (await signLink(link, SECRET)).split(".");
  const algorithm = { name: "HMAC", hash: "SHA-256" };
  const encode = (text: string) => new TextEncoder().encode(text);
  const key = await crypto.subtle.importKey("raw", encode(SECRET), algorithm, false, ["sign"]);
  const signature = await crypto.subtle.sign("HMAC", key, encode(content));
  return `${content}.${Buffer.from(signature).toString("base64url")}`;
}
