/** An object with an outbox, whose queues receive a load. It puts the entries, drains them, and returns the measurements. */

import { DurableObject } from "cloudflare:workers";
import { Lifecycle } from "agents/lifecycle";
import {
  type Delivery,
  Outbox,
  type QueueDestination,
  queue,
  type ReferencedDelivery,
} from "perdure/outbox";
import { Meter, metered } from "perdure/testing";
import {
  type Crowd,
  type Delays,
  Load,
  type LoadEvent,
  STATEMENTS,
  type Tally,
  tally,
} from "../../test/outbox/outbox-load.ts";
import { kindsWith } from "../../test/support/kinds.ts";
import { Recorder } from "../../test/support/ledger-scale.ts";

/** Entries that are put in one transaction. */
const TOGETHER = 100;

export type Task = Crowd & { readonly entries: number; readonly concurrency: number };

export type Result = {
  readonly putMs: number;
  /** Until the last one arrived: of the healthy destinations, and of all. */
  readonly healthyMs: number;
  readonly allMs: number;
  readonly delays: Delays;
  readonly problems: readonly string[];
  readonly setAlarms: number;
  readonly total: Tally;
  readonly statements: Record<keyof typeof STATEMENTS, Tally>;
  /** Counts that must be 0 at the end. */
  readonly left: { readonly entries: number; readonly jobs: number; readonly alarm: number | null };
};

type Env = { readonly OUTBOX: DurableObjectNamespace<LoadedOutbox> };

export class LoadedOutbox extends DurableObject<Env> {
  readonly lifecycle = Lifecycle.install(this);
  readonly #meter: Meter;
  #load = new Load(0, { healthy: 1, slow: 0, failing: 0 });

  constructor(ctx: DurableObjectState, env: Env) {
    const meter = new Meter();
    super(metered(ctx, meter), env);
    this.#meter = meter;
  }

  async run({ entries, concurrency, ...crowd }: Task): Promise<Result> {
    const load = new Load(entries, crowd);
    this.#load = load;
    const outbox = this.#outbox(concurrency);
    this.lifecycle.use(outbox);
    await this.lifecycle.start();
    const { storage } = this.ctx;
    await storage.sync();
    this.#meter.reset();
    const start = Date.now();
    let putAt = start;
    const statements = await new Recorder(this.#meter).during(async () => {
      for (let first = 0; first < entries; first += TOGETHER) {
        storage.transactionSync(() => {
          const end = Math.min(entries, first + TOGETHER);
          for (let index = first; index < end; index++) this.#put(outbox, index);
        });
        await storage.sync();
      }
      putAt = Date.now();
      while (!load.isDone) await sleep(10);
      // Waits for the work after the last arrival, and for the removal of the wake.
      await sleep(100);
    });
    return {
      putMs: putAt - start,
      healthyMs: load.lastAt("healthy") - start,
      allMs:
        Math.max(...(["healthy", "slow", "failing"] as const).map((kind) => load.lastAt(kind))) -
        start,
      delays: load.delays("healthy"),
      problems: load.problems(),
      setAlarms: this.#meter.read().setAlarms,
      total: tally(statements),
      statements: mapValues(STATEMENTS, (pattern) => tally(statements, pattern)),
      left: {
        entries: (await outbox.stats()).waiting,
        jobs: storage.sql
          .exec<{ count: number }>("SELECT COUNT(*) AS count FROM cf_agents_jobs")
          .one().count,
        alarm: await storage.getAlarm(),
      },
    };
  }

  #put(outbox: Outbox, index: number): void {
    const event: LoadEvent = { index, putAt: Date.now() };
    // A short backoff, to measure the outbox and not the delay of retries.
    outbox.put(
      queue(this.#load.nameOf(index), { policy: { backoff: { base: 50, cap: 200 } } }),
      event,
    );
  }

  #outbox(concurrency: number): Outbox {
    const outbox = new Outbox({ host: this, env: this.env, concurrency });
    const taken = {
      problemOf: () => undefined,
      keyOf: ({ queue }: QueueDestination) => queue,
      maxBytes: Number.POSITIVE_INFINITY,
      timeoutMs: 30_000,
      deliver: async ({ queue }: QueueDestination, delivery: Delivery | ReferencedDelivery) => {
        if (!("event" in delivery)) throw new Error("The event came as a reference");
        await this.#load.receive(queue, delivery.attempt, delivery.event as LoadEvent);
      },
    };
    outbox.install(kindsWith({ queue: taken }));
    return outbox;
  }
}

const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

function mapValues<Key extends string, From, To>(
  values: Readonly<Record<Key, From>>,
  change: (value: From) => To,
): Record<Key, To> {
  const entries = Object.entries<From>(values).map(([key, value]) => [key, change(value)]);
  return Object.fromEntries(entries) as Record<Key, To>;
}

export default {
  async fetch(request, { OUTBOX }) {
    const task = await request.json<Task>();
    return Response.json(await OUTBOX.getByName(JSON.stringify(task)).run(task));
  },
} satisfies ExportedHandler<Env>;
