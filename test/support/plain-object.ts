/** A plain Durable Object with features of its own, which a test makes and starts itself. */

import { runInDurableObject } from "cloudflare:test";
import { DurableObject, env } from "cloudflare:workers";
import { Lifecycle } from "agents/lifecycle";
import { durable } from "../../src/hosts/object/index.ts";
import type { Feature } from "../../src/workflow/agent/kernel.ts";

/** Runs `work` in an object of a new name. */
export function inObject<T>(
  work: (ctx: DurableObjectState, env: Cloudflare.Env) => Promise<T>,
): Promise<T> {
  const stub = env.AlertsObject.get(env.AlertsObject.idFromName(crypto.randomUUID()));
  return runInDurableObject(stub, (_, ctx) => work(ctx, env as Cloudflare.Env));
}

export function plainObject(
  ctx: DurableObjectState,
  given: Cloudflare.Env,
  features: readonly Feature[],
) {
  class Reports extends DurableObject<Cloudflare.Env> {
    readonly lifecycle = Lifecycle.install(this);
    readonly durable = durable(this, { model: "some/model", features });
  }
  return new Reports(ctx, given);
}
