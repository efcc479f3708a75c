/** An e-mail as Email Routing passes it to a Worker. */

export type Sent = {
  readonly message: ForwardableEmailMessage;
  /** The reason of its refusal. */
  rejected: string | undefined;
  /** Bytes that were read. */
  read: number;
};

/** The header of Email Routing, as it writes it. */
export const results = (
  { dmarc = "pass", from = "example.org", dkim = "pass", spf = "pass" } = {},
  sender = "ann@example.org",
) =>
  `Authentication-Results: mx.cloudflare.net;
\tdkim=${dkim} header.d=example.org header.s=20251104 header.b=L6CZ3OJ0;
\tdmarc=${dmarc} header.from=${from} policy.dmarc=none;
\tspf=none (mx.cloudflare.net: no SPF records found for postmaster@mail.example.org) smtp.helo=mail.example.org;
\tspf=${spf} (mx.cloudflare.net: domain of ${sender} designates 2607:f8b0::112d as permitted sender) smtp.mailfrom=${sender};
\tarc=pass smtp.remote-ip="2607:f8b0::112d"`;

const RECEIVED = `Received: from mail.example.org (2607:f8b0::112d)
        by cloudflare-email.net (cloudflare) id GY1KdjWjOU9O
        for <help@shop.example>; Sun, 14 Jun 2026 21:02:54 +0000`;

export type Fields = {
  readonly authentication?: string;
  readonly headers?: readonly string[];
  readonly body?: string;
  readonly from?: string;
  readonly to?: string;
};

/** Headers with these names replace those of the plain e-mail. */
export function emailOf({ authentication = results(), headers = [], body = "Hello" }: Fields = {}) {
  const names = headers.map((header) => header.split(":")[0]?.toLowerCase());
  const plain = [
    "From: Ann <ann@example.org>",
    "To: help@shop.example",
    "Subject: A question",
    "Message-ID: <q1@example.org>",
    "Date: Sun, 14 Jun 2026 17:02:17 -0400",
  ].filter((header) => !names.includes(header.split(":")[0]?.toLowerCase()));
  const all = [RECEIVED, authentication, ...headers, ...plain].filter((header) => header !== "");
  return `${all.join("\n")}\n\n${body}`.replace(/\r?\n/g, "\r\n");
}

export function send(
  text: string | Uint8Array,
  { from = "ann@example.org", to = "help@shop.example", rawSize = -1 } = {},
): Sent {
  const bytes = typeof text === "string" ? new TextEncoder().encode(text) : text;
  const sent: Sent = { message: undefined as never, rejected: undefined, read: 0 };
  let at = 0;
  const raw = new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        if (at >= bytes.length) return controller.close();
        const chunk = bytes.slice(at, at + 4_096);
        at += chunk.length;
        sent.read = at;
        controller.enqueue(chunk);
      },
    },
    { highWaterMark: 0 },
  );
  const message = {
    ...{ from, to, raw, rawSize: rawSize === -1 ? bytes.length : rawSize },
    headers: new Headers(),
    canBeForwarded: true,
    setReject: (reason: string) => {
      sent.rejected = reason;
    },
    forward: () => Promise.reject(new Error("not in this test")),
    reply: () => Promise.reject(new Error("not in this test")),
  };
  return Object.assign(sent, { message });
}
