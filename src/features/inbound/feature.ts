/** The feature that accepts arrivals: the log with its replays, and what steps of workflows wait for. */

import type { SubmitItem } from "../../submissions/submit-options.ts";
import type { Feature, Kernel } from "../../workflow/agent/kernel.ts";
import type { RunWorkflow } from "../../workflow/agent/workflows.ts";
import type { TransactionalVerb } from "./acceptance.ts";
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

/**
 * The verbs that an arrival calls in one transaction with its log, by their names. Those that the app's class overrides are
 * ordinary methods. Arguments come from a handler and can be anything.
 */
function arrivalVerbs({
  submissions,
  workflows,
  storage,
  isBuiltIn,
}: Pick<Kernel, "submissions" | "workflows" | "storage" | "isBuiltIn">): Readonly<
  Record<string, TransactionalVerb>
> {
  const submitMessages: TransactionalVerb = async ([messages, options], commit) => {
    const item = { messages, options } as SubmitItem;
    await submissions.submitAll([item], { commit: ([result]) => commit(result) });
  };
  const submitMany: TransactionalVerb = async ([items], commit) => {
    await submissions.submitAll(items as SubmitItem[], { verb: "submitMany()", commit });
  };
  const runWorkflow: TransactionalVerb = async (args, commit) => {
    const [name, params, options] = args as [string, unknown, RunWorkflow];
    const again = storage.transactionSync(() => {
      const start = workflows.put(name, params, options);
      if (start.error) throw start.error;
      if (start.isDead) return start.end();
      // Nothing waits for the instance, because the sender's time is short: a start that is refused becomes a dead letter.
      commit(start.id);
    });
    // It is sent again before it is recorded, so that a crash in between leaves it to the next arrival.
    if (again) commit(await again);
  };
  const verbs = Object.entries({ submitMessages, submitMany, runWorkflow });
  return Object.fromEntries(verbs.filter(([name]) => isBuiltIn(name)));
}
