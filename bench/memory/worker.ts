/** One object with a ledger whose turns wait until they are let go: what 10,000 waiting submissions weigh. */

import { DurableObject } from "cloudflare:workers";
import { Lifecycle } from "agents/lifecycle";
import { Outbox } from "../../src/outbox/index.ts";
import {
  Submissions,
  type Turn,
  type TurnEnd,
  type TurnHost,
} from "../../src/submissions/index.ts";

type Env = { readonly LEDGER: DurableObjectNamespace<LoadedLedger> };

export class LoadedLedger extends DurableObject<Env> {
  readonly lifecycle = Lifecycle.install(this);
  #open = () => {};
  readonly #gate = new Promise<void>((resolve) => {
    this.#open = resolve;
  });
  readonly #outbox = new Outbox({ host: this, env: this.env });
  readonly #ledger = new Submissions(this.#host(), this.#outbox);

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.lifecycle.use(this.#outbox).use(this.#ledger);
  }

  /** Accepts so many submissions of a message of `bytes` each. */
  async fill(count: number, bytes: number): Promise<number> {
    for (let index = 0; index < count; index++) {
      const text = `${index} ${"x".repeat(bytes)}`;
      await this.#ledger.submit([
        { id: `m${index}`, role: "user", parts: [{ type: "text", text }] },
      ]);
    }
    return (await this.#ledger.stats()).pending;
  }

  /** Lets the turns go, and resolves when none is open. */
  async drain(): Promise<number> {
    this.#open();
    for (;;) {
      const { pending, running } = await this.#ledger.stats();
      if (pending + running === 0) return (await this.#ledger.list({ limit: 1 })).length;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }

  #host(): TurnHost {
    return {
      start: () => {},
      run: async ({ begin }: Turn): Promise<TurnEnd> => {
        begin();
        await this.#gate;
        return { outcome: "completed" };
      },
      stop: () => {},
      trace: async () => ({ applied: "none", hasEffects: false }),
      isRecovering: async () => false,
      takeBack: async () => {},
      onStatus: async () => {},
      isInsideTurn: () => false,
    };
  }
}

export default {
  async fetch(request, { LEDGER }) {
    const { pathname, searchParams } = new URL(request.url);
    const ledger = LEDGER.getByName("one");
    const [count, bytes] = ["count", "bytes"].map((name) => Number(searchParams.get(name)));
    if (pathname === "/fill") return Response.json(await ledger.fill(count ?? 0, bytes ?? 0));
    if (pathname === "/drain") return Response.json(await ledger.drain());
    return new Response("ready");
  },
} satisfies ExportedHandler<Env>;
