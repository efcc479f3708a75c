/** An outbox on a plain agent: no ledger, no conversation, no model. */

import { Agent } from "agents";
import { type Delivery, type Destination, Outbox } from "../../src/outbox/index.ts";

/** What the agents' own methods received, by delivery id. */
export const agentsReceived = new Map<string, Delivery>();

export class OutboxAgent extends Agent<Cloudflare.Env> {
  readonly outbox = new Outbox({ host: this, env: this.env, allowPrivateAddresses: true });

  constructor(ctx: DurableObjectState, env: Cloudflare.Env) {
    super(ctx, env);
    this.lifecycle.use(this.outbox);
  }

  override onStart(): void {
    this.sql`CREATE TABLE IF NOT EXISTS orders (id TEXT PRIMARY KEY)`;
  }

  /** Stores an order and tells of it, in one transaction (O1). Returns the delivery ids. */
  order(id: string, destinations: Destination[]): string[] {
    return this.ctx.storage.transactionSync(() => {
      this.sql`INSERT INTO orders (id) VALUES (${id})`;
      return destinations.map((to) => this.outbox.put(to, `ordered ${id}`));
    });
  }

  orders(): string[] {
    return this.sql<{ id: string }>`SELECT id FROM orders`.map(({ id }) => id);
  }

  onOrder(delivery: Delivery<string>): void {
    agentsReceived.set(delivery.id, { ...delivery, event: `${delivery.event}, says ${this.name}` });
  }
}
