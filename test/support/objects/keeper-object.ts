/** A keeper of limits whose calls a test holds or fails, and whose rows it counts. */

import { LimitKeeper } from "../../../src/features/limits/keeper/keeper.ts";
import type { Answer, Ask } from "../../../src/features/limits/keeper/protocol.ts";
import { Meter, metered } from "../../../src/testing/index.ts";

export type KeeperScript = {
  readonly maxKeysInMemory?: number;
  /** Before each ask. */
  readonly onAsk?: (ask: Ask) => unknown;
  /** What it answers each ask, as an object of another class would. */
  readonly answer?: unknown;
};

/** By the object's name. */
export const keeperScripts = new Map<string, KeeperScript>();

export class KeeperObject extends LimitKeeper {
  readonly meter: Meter;
  readonly #script: KeeperScript;
  protected override readonly maxKeysInMemory: number;

  constructor(ctx: DurableObjectState, env: Cloudflare.Env) {
    const meter = new Meter();
    super(metered(ctx, meter), env);
    this.meter = meter;
    this.#script = keeperScripts.get(ctx.id.name ?? "") ?? {};
    this.maxKeysInMemory = this.#script.maxKeysInMemory ?? 10_000;
  }

  override async ask(ask: Ask): Promise<Answer> {
    await this.#script.onAsk?.(ask);
    const { answer } = this.#script;
    return answer === undefined ? super.ask(ask) : (answer as Answer);
  }
}
