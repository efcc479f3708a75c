/** What an e-mail contains, and what the errors of the binding mean. */

import { describe, expect, it } from "vitest";
import { email } from "../../../src/features/replies/index.ts";
import { endOf, sendTo, TO } from "./kinds.ts";

/** What the binding was asked to send. */
async function sentBy(
  event: unknown,
  to = TO.email,
  send: () => unknown = () => ({ messageId: "1" }),
) {
  const sent: EmailMessageBuilder[] = [];
  const EMAIL = {
    async send(message: EmailMessageBuilder) {
      sent.push(message);
      return send();
    },
  };
  return { ...(await sendTo(to, event, { env: { EMAIL } })), sent };
}

function failing(code: string | undefined) {
  return () => {
    throw Object.assign(new Error("the reason"), { code });
  };
}

describe("An e-mail", () => {
  it("O2: it answers in its thread, and says that it was sent automatically", async () => {
    const { failure, marks, sent } = await sentBy(endOf("completed", "done"));
    expect([failure, marks]).toEqual([undefined, 1]);
    expect(sent).toEqual([
      {
        from: "shop@example.com",
        to: "ann@example.org",
        subject: "Re: My order",
        text: "done",
        headers: {
          "Auto-Submitted": "auto-replied",
          "X-Perdure-Delivery": expect.stringMatching(/^[\w-]{22}$/),
          "In-Reply-To": "<b@example.org>",
          References: "<a@example.org> <b@example.org>",
        },
      },
    ]);
  });

  it("O2: the event's subject and HTML are sent", async () => {
    const { binding, from, to } = TO.email;
    const plain = email({ binding, from, to }) as typeof TO.email;
    const event = { text: "done", subject: "It has left", html: "<b>done</b>" };
    const { sent } = await sentBy(event, plain);
    expect(sent[0]).toMatchObject({ subject: "It has left", text: "done", html: "<b>done</b>" });
    expect(sent[0]?.headers).toMatchObject({ "Auto-Submitted": "auto-generated" });
    expect((await sentBy("done", plain)).sent[0]?.subject).toBe("Re: your message");
  });

  it("O2: above the limit of a header, the first reference and the newest ones are kept", async () => {
    const ids = Array.from(
      { length: 120 },
      (_, index) => `<${index}-${"x".repeat(40)}@example.org>`,
    );
    const { sent } = await sentBy("done", { ...TO.email, references: ids.join(" ") });
    const { References = "" } = sent[0]?.headers ?? {};
    expect(References.length).toBeLessThanOrEqual(2_048);
    expect(References.startsWith(`${ids[0]} `)).toBe(true);
    expect(References.endsWith(`${ids.at(-1)} <b@example.org>`)).toBe(true);
    // Two that do not fit together, as they have 1,800 bytes each.
    const long = `<${"é".repeat(900)}@example.org>`;
    const inReplyTo = long.replace(">", "2>");
    const two = await sentBy("done", { ...TO.email, references: long, inReplyTo } as never);
    expect(two.sent[0]?.headers?.References).toBe(inReplyTo);
  });

  it.each([
    ["a line break in the subject", { text: "a", subject: "a\r\nBcc: b@example.org" }],
    ["a subject that is too long", { text: "a", subject: "x".repeat(999) }],
    ["HTML that is no text", { text: "a", html: 1 }],
    ["an unknown field", { text: "a", to: "b@example.org" }],
  ])("O2: %s is refused, and nothing is sent", async (_, event) => {
    const { failure, sent, adapter } = await sentBy(event);
    expect(failure?.name).toBe("UndeliverableError");
    expect(sent).toEqual([]);
    expect(adapter.problemOfEvent?.(event)).toMatch(
      /^(Invalid event\.|Unknown option "to" in event)/,
    );
  });

  it.each([
    ["E_RATE_LIMIT_EXCEEDED", "RefusedError", 60_000],
    ["E_DAILY_LIMIT_EXCEEDED", "RefusedError", 3_600_000],
    ["E_SENDER_NOT_VERIFIED", "UndeliverableError", undefined],
    ["E_RECIPIENT_SUPPRESSED", "UndeliverableError", undefined],
    ["E_DELIVERY_FAILED", "UndeliverableError", undefined],
    ["E_INTERNAL_SERVER_ERROR", "Error", undefined],
    [undefined, "Error", undefined],
  ])("O3: the error %s", async (code, name, retryAfterMs) => {
    const { failure } = await sentBy("done", TO.email, failing(code));
    expect(failure).toMatchObject({ name, message: expect.stringContaining("the reason") });
    if (retryAfterMs !== undefined) expect(failure).toMatchObject({ retryAfterMs });
  });

  it("O3: no error has the recipient's address", async () => {
    const send = async () => {
      const text = "Ann@Example.org bounced: <ann@example.org>, from shop@example.com";
      throw Object.assign(new Error(text), { code: "E_DELIVERY_FAILED" });
    };
    const { failure } = await sendTo(TO.email, "done", { env: { EMAIL: { send } } });
    expect(failure?.message).not.toMatch(/ann@/i);
    expect(failure?.message).toContain("an address at example.org bounced");
  });

  it("O3: a binding that is missing, or is another one, is retried", async () => {
    const queue = { send: async () => {}, sendBatch: async () => {} };
    for (const env of [{}, { EMAIL: queue }, { EMAIL: "text" }]) {
      const { failure, marks } = await sendTo(TO.email, "done", { env });
      expect(failure).toMatchObject({
        name: "Error",
        message: expect.stringMatching(/^No send_email binding "EMAIL" in this Worker/),
      });
      expect(marks).toBe(0);
    }
  });
});
