import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { bodyOf } from "../../../../../src/features/inbound/webhooks/email/body.ts";
import { textOfHtml } from "../../../../../src/features/inbound/webhooks/email/html-text.ts";
import {
  MalformedEmailError,
  parseMime,
} from "../../../../../src/features/inbound/webhooks/email/mime.ts";
import { emailOf } from "./message.ts";

const NONE = { spf: "none", dkim: "none", dmarc: "none" };
const read = (raw: Uint8Array | string) => {
  const bytes = typeof raw === "string" ? new TextEncoder().encode(raw) : raw;
  const limits = { maxAttachmentBytes: 1_000, thread: "fallback" };
  return bodyOf(parseMime(bytes), { to: "help@shop.example" }, NONE, limits);
};
const withIds = (messageId: string, references: readonly string[], inReplyTo?: string) =>
  read(
    emailOf({
      headers: [
        `Message-ID: ${messageId}`,
        ...(references.length > 0 ? [`References: ${references.join("\n ")}`] : []),
        ...(inReplyTo === undefined ? [] : [`In-Reply-To: ${inReplyTo}`]),
      ],
    }),
  );

const id = fc
  .tuple(fc.stringMatching(/^[\w.+=-]{1,20}$/), fc.stringMatching(/^[a-z.]{1,20}$/))
  .map(([left, right]) => `<${left}@${right}>`);

describe("the thread of an e-mail", () => {
  it("is the same for every e-mail of a conversation", () => {
    fc.assert(
      fc.property(fc.uniqueArray(id, { minLength: 1, maxLength: 60 }), (ids) => {
        const threads = ids.map((messageId, n) => {
          const before = ids.slice(0, n);
          const { thread, references } = withIds(messageId, before, before.at(-1));
          expect(references.length).toBeLessThanOrEqual(31);
          return thread;
        });
        expect(new Set(threads)).toEqual(new Set([ids[0]?.slice(1, -1)]));
      }),
      { numRuns: 30 },
    );
  });

  it("begins with what an e-mail without References answers", () => {
    expect(withIds("<b@x.y>", [], "<a@x.y>").thread).toBe("a@x.y");
  });

  it("is never the name of a thread of the agent, and has a fallback", () => {
    for (const messageId of [
      "<main>",
      "<isolated>",
      "main",
      "",
      "<a b@c>",
      `<${"x".repeat(999)}@a>`,
    ]) {
      expect(withIds(messageId, []).thread).toBe("fallback");
    }
  });
});

describe("parseMime() and bodyOf()", () => {
  const bytes = fc.oneof(
    fc.uint8Array({ maxLength: 400 }),
    fc
      .array(
        fc.constantFrom(
          ...[
            "\r\n",
            "\n",
            "\r",
            "--b",
            "--b--",
            "Content-Type: multipart/mixed; boundary=b\n",
            ":",
          ],
          ...["Content-Type: text/html; charset=x\n", "Content-Transfer-Encoding: base64\n", "A"],
          ...[
            "From: a@b.c\n",
            "Content-Disposition: attachment; filename*0*=x''%\n",
            "=3",
            "<",
            "&#",
          ],
          ...["Subject: =?utf-8?q?=ED=A0=80?=\n", "References: <a@b> <\n", " ", "\u{1F600}", "\0"],
        ),
        { maxLength: 60 },
      )
      .map((parts) => new TextEncoder().encode(parts.join(""))),
  );

  it("read any bytes, or refuse them as malformed; a body is well-formed JSON", () => {
    fc.assert(
      fc.property(bytes, (raw) => {
        const email = new Uint8Array([...new TextEncoder().encode("From: a@b.c\n"), ...raw]);
        try {
          const body = read(email);
          const text = JSON.stringify(body);
          expect(JSON.parse(text)).toEqual(body);
          expect(body.subject).not.toMatch(/[\p{Cc}]/u);
          expect(text.isWellFormed()).toBe(true);
          expect(body.text.isWellFormed()).toBe(true);
        } catch (error) {
          expect(error).toBeInstanceOf(MalformedEmailError);
        }
      }),
      { numRuns: 500 },
    );
  });

  it("decode base64 and quoted-printable of any bytes", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 300 }), fc.boolean(), (content, isBase64) => {
        const hex = [...content].map(
          (byte) => `=${byte.toString(16).padStart(2, "0").toUpperCase()}`,
        );
        const encoded = isBase64 ? btoa(String.fromCharCode(...content)) : hex.join("");
        const lines = encoded.match(/.{1,75}/g) ?? [];
        const text = [
          "From: a@b.c",
          "Content-Type: application/x-any",
          `Content-Transfer-Encoding: ${isBase64 ? "base64" : "quoted-printable"}`,
          "",
          lines.join(isBase64 ? "\r\n" : "=\r\n"),
        ].join("\r\n");
        expect([...(parseMime(new TextEncoder().encode(text)).parts[0]?.content ?? [])]).toEqual([
          ...content,
        ]);
      }),
    );
  });
});

describe("textOfHtml()", () => {
  it("has no tag of any HTML, and the text of plain paragraphs", () => {
    fc.assert(
      fc.property(fc.array(fc.stringMatching(/^[a-z]{1,9}$/), { maxLength: 9 }), (words) => {
        const html = words.map((each) => `<P class='x'>${each}<script>alert("<p>")</script></P>`);
        expect(textOfHtml(html.join("")).split(/\n+/).filter(Boolean)).toEqual(words);
      }),
    );
    expect(textOfHtml("a<b")).toBe("a");
    expect(textOfHtml("&#1114112;&#0;&#x1F600;")).toBe("\u{1F600}");
  });
});
