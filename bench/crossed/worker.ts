/** Notifies a webhook of a submission's end, and returns the files whose functions have run. They note themselves. */

import { DurableThink } from "../../src/hosts/think/index.ts";
import { webhook } from "../../src/kernel/outbox/index.ts";
import { ScriptedModel } from "../../src/testing/scripted-model.ts";
import { message } from "../worker/cost.ts";

declare global {
  var crossed: Set<string> | undefined;
}

export class Notifier extends DurableThink {
  constructor(ctx: DurableObjectState, env: Cloudflare.Env) {
    super(ctx, env, { outbox: { allowPrivateAddresses: true } });
  }

  override getModel() {
    return new ScriptedModel();
  }

  async notified(url: string): Promise<string[]> {
    globalThis.crossed = new Set();
    const notify = webhook(url, { secret: "SECRET" });
    await this.submitMessages([message("Hello")], { notify });
    const { sql } = this.ctx.storage;
    const isOpen = () =>
      sql.exec("SELECT 1 FROM perdure_submissions WHERE settled_at IS NULL").toArray().length > 0 ||
      sql.exec("SELECT 1 FROM perdure_outbox").toArray().length > 0;
    while (isOpen()) await new Promise((resolve) => setTimeout(resolve, 10));
    return [...globalThis.crossed];
  }
}

export default {
  async fetch(
    request: Request,
    { Notifier: agents }: { Notifier: DurableObjectNamespace<Notifier> },
  ) {
    return Response.json(await agents.getByName("one").notified(await request.text()));
  },
};
