/** The feature that accepts arrivals: the log with its replays, and what steps of workflows wait for. */

import type { Feature } from "../kernel/index.ts";
import { arrivalVerbs } from "./arrival-verbs.ts";
import { Inbound } from "./inbound.ts";
import type { Links } from "./links.ts";
import { readSettings } from "./options.ts";
import type { InboundCalls } from "./protocol.ts";
import type { InboundSettings } from "./types.ts";
import { WebhookWaits } from "./waits/webhook-waits.ts";

export type InstalledInbound = { readonly log: Inbound; readonly stepWaits: WebhookWaits };

/**
 * Lets an agent accept arrivals of receivers (`perdure/webhooks`, `perdure/email`), list and replay them, and lets its
 * workflows wait for one: `step.webhook()`.
 *
 * @throws InvalidOptionError
 * @example
 * export class Support extends DurableThink<Env> {
 *   static override readonly features = [inbound()];
 * }
 */
export function inbound(settings: InboundSettings = {}): Feature<"inbound", InstalledInbound> {
  readSettings(settings);
  return {
    feature: "inbound",
    install: (kernel) => {
      const { object: agent, waits, features, onProblem } = kernel;
      const log: Inbound = new Inbound({
        ...settings,
        agent,
        verbs: arrivalVerbs(kernel),
        matchWaits: (arrival) => stepWaits.match(arrival),
        onProblem,
      });
      const links = () => features.get("signedLinks", "step.webhook({ url: true })") as Links;
      const stepWaits = new WebhookWaits({ waits, arrivals: log, links, onProblem });
      waits.install("webhook", stepWaits);
      kernel.use(log);
      const acceptArrival: InboundCalls["acceptArrival"] = (request) => log.accept(request);
      const countRefused: InboundCalls["countRefused"] = (request) => log.countRefused(request);
      kernel.calls.set("acceptArrival", acceptArrival);
      kernel.calls.set("countRefused", countRefused);
      return { log, stepWaits };
    },
  };
}
