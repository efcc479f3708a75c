/** What needs inbound() and signedLinks(), for `perdure doctor`. */

import type { Functions, Needs } from "../../../engine/operated/needs.ts";

const RECEIVERS: Functions = [
  ["perdure/email", "email"],
  ...[
    ...["channel", "countRefusals", "custom", "discord", "github", "gitlab", "linear", "meta"],
    ...["queue", "scheduled", "shopify", "slack", "standardWebhooks", "stripe", "svix"],
    ...["telegram", "twilio"],
  ].map((name) => ["perdure/webhooks", name] as const),
];

export const NEEDS = {
  inbound: {
    from: "perdure/inbound",
    receiving: { by: RECEIVERS, why: "is named by a receiver of the project" },
    step: { method: "webhook", name: "step.webhook()" },
  },
  signedLinks: {
    from: "perdure/inbound",
    written: { method: "approvals.link", why: "calls approvals.link()" },
    step: { method: "webhook", flag: "url", name: "step.webhook({ url: true })" },
    served: ["perdure/webhooks", "links"],
  },
} satisfies Needs;
