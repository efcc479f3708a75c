/** A plain Durable Object with an outbox of its own. Only compiled, by TypeScript 7 and by 5.9 (`npm run check:consumer`). */

import { DurableObject } from "cloudflare:workers";
import { Lifecycle } from "agents/lifecycle";
import { Outbox } from "perdure/outbox";
import { replies, telegram } from "perdure/replies";

export class OutboxApp extends DurableObject<Cloudflare.Env> {
  readonly lifecycle = Lifecycle.install(this);
  readonly outbox = new Outbox({ host: this, env: this.env });

  constructor(ctx: DurableObjectState, env: Cloudflare.Env) {
    super(ctx, env);
    this.lifecycle.use(this.outbox);
    replies().install({ outbox: this.outbox });
  }

  hello() {
    return this.outbox.put(telegram(1, { token: "BOT" }), { text: "Hello" });
  }
}
