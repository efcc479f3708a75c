/** A plain object that runs turns, with `limits()` where its name asks for it, and the keeper that lends it capacity. */

import { DurableObject } from "cloudflare:workers";
import { Lifecycle } from "agents/lifecycle";
import { LimitKeeper, limit, limits } from "../../src/features/limits/index.ts";
import { durable } from "../../src/hosts/object/index.ts";
import { ask, ScriptedModel } from "../../src/testing/scripted-model.ts";
import { message } from "./cost.ts";
import type { Env } from "./env.ts";

const LIMITED = "limited-";

/** Asks of all keepers. Objects of the local runtime share the isolate. */
let asks = 0;

export class CountedKeeper extends LimitKeeper {
  override ask(...args: Parameters<LimitKeeper["ask"]>): ReturnType<LimitKeeper["ask"]> {
    asks++;
    return super.ask(...args);
  }
}

/** Limits that never fill: of an account, and of money by a key. */
const WIDE = limits({
  limits: [
    limit("account", {
      models: "perdure/*",
      requests: "10_000_000 per minute",
      tokens: "1_000_000_000_000 per minute",
      concurrency: 1_000,
    }),
    limit("tenant", { key: ({ metadata }) => metadata.tenant, usd: "1_000_000 per day" }),
  ],
  prices: { "perdure/*": { input: 0.25, output: 2 } },
});

export class TurnObject extends DurableObject<Env> {
  readonly lifecycle = Lifecycle.install(this);
  readonly #durable = durable(this, {
    model: new ScriptedModel(),
    features: this.ctx.id.name?.startsWith(LIMITED) ? [WIDE] : [],
  });

  /** Milliseconds from the acceptance of a turn with one model call until its end: the mean of some. */
  async turns(count: number): Promise<number> {
    await this.lifecycle.start();
    const from = performance.now();
    for (let turn = 0; turn < count; turn++) {
      const text = ask({ text: "Yes", id: crypto.randomUUID() });
      const options = { metadata: { tenant: "acme" }, thread: `${turn}` };
      const { submissionId } = await this.#durable.submitMessages([message(text)], options);
      await this.#durable.waitForSubmission(submissionId);
    }
    return (performance.now() - from) / count;
  }
}

export const turnRequests = {
  /**
   * Runs turns alternately on an object with limits() and on one without, `together` at a time. Returns how many milliseconds a turn
   * of each took. Pairs that ask a keeper are left out, and so are the first ones.
   */
  async limitedTurns(
    { TurnObject: objects }: Env,
    { first, pairs, together }: { first: number; pairs: number; together: number },
  ): Promise<{ limited: number; free: number }[]> {
    const name = crypto.randomUUID();
    const limited = objects.getByName(`${LIMITED}${name}`);
    const free = objects.getByName(name);
    const found: { limited: number; free: number }[] = [];
    for (let pair = -first; pair < pairs; pair++) {
      const before = asks;
      const isLimitedFirst = pair % 2 === 0;
      const theirs = isLimitedFirst ? undefined : await free.turns(together);
      const mine = await limited.turns(together);
      const other = theirs ?? (await free.turns(together));
      if (pair >= 0 && asks === before) found.push({ limited: mine, free: other });
    }
    return found;
  },
};
