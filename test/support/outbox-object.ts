/**
 * The outbox alone on a plain Durable Object. What its destinations do is
 * scripted by the test that has named the object; an event reaches them only
 * after what was written before is durable, as a request would leave.
 */

import { DurableObject } from "cloudflare:workers";
import { Lifecycle } from "agents/lifecycle";
import { type Clock, systemClock } from "../../src/core/clock.ts";
import {
  type DeadLetter,
  type Delivery,
  type Destination,
  Outbox,
  type OutboxSettings,
  type ReferencedDelivery,
  type Transport,
} from "../../src/outbox/index.ts";
import { Meter, metered } from "../../src/testing/index.ts";

export type Sent = Delivery | ReferencedDelivery;

export type OutboxScript = {
  readonly settings?: OutboxSettings;
  readonly clock?: Clock;
  /** Takes what is sent, or throws. */
  readonly deliver: (sent: Sent, to: Destination, object: OutboxObject) => Promise<void> | void;
  /** The app is told of a dead letter. */
  readonly told?: (letter: DeadLetter) => void | Promise<void>;
  /** At the birth of each life, before it starts. */
  readonly born?: (object: OutboxObject, ctx: DurableObjectState) => void;
};

/** By the object's name. */
export const outboxScripts = new Map<string, OutboxScript>();

/** Bytes that a queue takes; the other destinations take all. */
const QUEUE_BYTES = 8_192;

export class OutboxObject extends DurableObject<Cloudflare.Env> {
  readonly meter: Meter;
  readonly lifecycle = Lifecycle.install(this);
  readonly outbox: Outbox;

  constructor(ctx: DurableObjectState, env: Cloudflare.Env) {
    const meter = new Meter();
    super(metered(ctx, meter), env);
    this.meter = meter;
    const script = outboxScripts.get(ctx.id.name ?? "") ?? { deliver: () => {} };
    const scripted = <To extends Destination>(
      keyOf: (to: To) => string,
      maxBytes = Number.POSITIVE_INFINITY,
    ): Partial<Transport<To>> => ({
      problemOf: () => undefined,
      keyOf,
      maxBytes,
      timeoutMs: 30_000,
      deliver: async (to, sent) => {
        await ctx.storage.sync();
        await script.deliver(sent, to, this);
      },
    });
    this.outbox = new Outbox({
      ...script.settings,
      host: this,
      env,
      clock: script.clock ?? systemClock,
      onDeadLetter: (letter) => script.told?.(letter),
      transports: {
        workflow: scripted(({ instance }) => `workflow ${instance}`),
        queue: scripted(({ queue }) => `queue ${queue}`, QUEUE_BYTES),
        webhook: scripted(({ url }) => `webhook ${url}`),
      },
    });
    this.lifecycle.use(this.outbox);
    script.born?.(this, ctx);
  }
}
