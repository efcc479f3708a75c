/** Limits as an app declares them on each host. Only compiled, by TypeScript 7 and by 5.9 (`npm run check:consumer`). */

import { DurableObject } from "cloudflare:workers";
import { Lifecycle } from "agents/lifecycle";
import { DurableAgent } from "perdure/agent";
import { DurableChatAgent } from "perdure/chat";
import { limit, limits } from "perdure/limits";
import { type DurableVerbs, durable } from "perdure/object";
import { capabilitiesOf, DurableThink } from "perdure/think";

export { LimitKeeper } from "perdure/limits";

const accounts = limits({
  limits: [
    limit("openai", {
      models: "openai/*",
      requests: "1000 per minute",
      tokens: "2000000 per minute",
      concurrency: 200,
    }),
    limit("tenant", {
      key: ({ metadata }) => metadata.tenant,
      usd: "20 per day",
      zone: "Asia/Tokyo",
      share: "fair",
    }),
  ],
  prices: { "openai/gpt-5-mini": { input: 0.25, cachedInput: 0.03, output: 2 } },
});

export class ThinkApp extends DurableThink<Cloudflare.Env> {
  static override readonly features = [accounts];
}

export class AgentApp extends DurableAgent<Cloudflare.Env> {
  static override readonly features = [accounts, limits({ keeper: "OTHER" })];
  ask(key: string) {
    return this.submitMessages([], {
      concurrency: { key, limit: 2 },
      rate: { key, limit: "10 per minute" },
      singleton: "replace",
      budget: { usd: 0.5 },
    });
  }
  async stop(tenant: string) {
    await this.limits.pause("tenant", tenant, "The invoice is overdue");
    const { items } = await this.limits.list();
    return items.some(({ pausedAt }) => pausedAt !== undefined);
  }
}

export class ChatApp extends DurableChatAgent<Cloudflare.Env> {
  static override readonly features = [accounts];
}

// biome-ignore lint/suspicious/noUnsafeDeclarationMerging: durable() adds the verbs to the class.
export class ObjectApp extends DurableObject<Cloudflare.Env> {
  readonly lifecycle = Lifecycle.install(this);
  readonly durable = durable(this, { model: "some/model", features: [accounts] });
}
export interface ObjectApp extends DurableVerbs {}

export async function waitingFor(stub: DurableObjectStub<AgentApp>, id: string) {
  await capabilitiesOf(stub).limits.resume("tenant", "acme");
  const found = await stub.inspectSubmission(id);
  return found?.status === "pending" ? found.waitingFor?.limit : undefined;
}

// @ts-expect-error "per" must be followed by second, minute, hour, day or month
limit("a", { requests: "1000 per fortnight" });
// @ts-expect-error expected a number greater than 0
limit("a", { tokens: "0 per minute" });
// @ts-expect-error expected a number in digits
limit("a", { usd: "-1 per minute" });
// @ts-expect-error a share needs a key
limit("a", { requests: "1 per minute", share: "fair" });
const [a, b] = [limit("a", { concurrency: 1 }), limit("b", { usd: "0.01 per minute" })];
// @ts-expect-error another limit of the list is called "a"
limits({ limits: [a, b, a] });
// @ts-expect-error a price has an output
limits({ prices: { "openai/*": { input: 1 } } });
