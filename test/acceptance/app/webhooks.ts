/** The receiver of arrivals, for the agents of every host. */

import { custom, links, webhooks } from "perdure/webhooks";
import { z } from "zod";
import { findHost } from "./hosts.ts";
import { message } from "./messages.ts";

const body = z.object({
  /** Title of the host, and name of the object. */
  host: z.string(),
  agent: z.string(),
  /** What the handler calls for, in this order. */
  calls: z.array(z.enum(["submit", "start", "ask", "note"])),
  /** Of what is submitted, and of the workflow that asks. */
  metadata: z.record(z.string(), z.string()).optional(),
  /** Key of the effect, and text of the message. */
  key: z.string(),
  filler: z.string().optional(),
});

export type ArrivalBody = z.infer<typeof body>;

export const SOURCE = "shop";

export const receiveWebhook = webhooks(
  links({ secret: "HOOK_SECRET" }),
  custom({
    name: SOURCE,
    secret: "HOOK_SECRET",
    scheme: "hmac",
    header: "x-signature",
    timestamp: "x-time",
    before: "{timestamp}.",
    id: "x-id",
    type: "x-type",
    schema: body,
    agent: ({ body }) => findHost(body.host).connect(body.agent),
    async handle({ body: { calls, host, key, metadata = {} } }, agent) {
      const { workflow } = findHost(host);
      for (const call of calls) {
        if (call === "submit")
          await agent.submitMessages([message(key, `message-${key}`)], { metadata });
        if (call === "ask")
          await agent.runWorkflow(workflow, { step: "text", prompt: key }, { metadata });
        if (call === "note") await agent.note(key);
        if (call === "start")
          await agent.runWorkflow(workflow, { step: "none" }, { id: `wf-${key}` });
      }
    },
  }),
);
