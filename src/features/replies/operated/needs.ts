/** What needs replies(), for `perdure doctor`. */

import type { Functions, Needs } from "../../../engine/operated/needs.ts";

const from = "perdure/replies";

/** Receivers whose deliveries have a destination for the answer. */
const ANSWERING: Functions = [
  ["perdure/email", "email"],
  ...["channel", "discord", "github", "slack", "telegram"].map(
    (name) => ["perdure/webhooks", name] as const,
  ),
];

export const NEEDS = {
  replies: {
    from,
    written: {
      calls: ["slack", "discord", "telegram", "githubComment", "email"].map((name) => [from, name]),
      why: "sends a reply of perdure/replies",
    },
    receiving: {
      by: ANSWERING,
      // The token of the sender's API, or the destination of a delivery.
      properties: ["token", "reply"],
      why: "is named by a receiver that answers",
    },
  },
} satisfies Needs;
