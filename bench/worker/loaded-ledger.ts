/** A ledger on a plain Durable Object, whose turns end at once, or on request. */

import { DurableObject } from "cloudflare:workers";
import { Lifecycle } from "agents/lifecycle";
import { Outbox } from "../../src/outbox/index.ts";
import type { Turn, TurnEnd, TurnHost } from "../../src/submissions/host.ts";
import { Submissions } from "../../src/submissions/submissions.ts";
import type { Meter } from "../../src/testing/meter.ts";
import { fillEnded } from "../../test/support/ledger-scale.ts";
import { type Cost, costOf, counting, message, meterOf } from "./cost.ts";
import type { Env } from "./env.ts";
import { sleep } from "./marks.ts";

export class LoadedLedger extends DurableObject<Env> {
  readonly lifecycle = Lifecycle.install(this);
  readonly #meter: Meter | undefined;
  #open: () => void = () => {};
  #wait = Promise.resolve();
  readonly #outbox = new Outbox({ host: this, env: this.env });
  readonly #ledger = ledgerOf((turn) => this.#run(turn), this.#outbox);

  constructor(ctx: DurableObjectState, env: Env) {
    const meter = meterOf(ctx);
    super(ctx, env);
    this.#meter = meter;
    this.lifecycle.use(this.#outbox).use(this.#ledger);
  }

  /** Accepts submissions with a message of `bytes` each, which stay pending. Returns their number, with the running one. */
  async hold(count: number, bytes: number): Promise<number> {
    this.#wait = new Promise((resolve) => {
      this.#open = resolve;
    });
    for (let index = 0; index < count; index++) {
      await this.#ledger.submit([message(`${index} ${"x".repeat(bytes)}`)]);
    }
    const { pending, running } = await this.#ledger.stats();
    return pending + running;
  }

  /** Ends the turns, and resolves when none is open. */
  async drain(): Promise<void> {
    this.#open();
    for (;;) {
      const { pending, running } = await this.#ledger.stats();
      if (pending + running === 0) return;
      await sleep(50);
    }
  }

  /** Adds ended submissions. Returns the duration in milliseconds. */
  async fill(count: number): Promise<number> {
    await this.lifecycle.start();
    return fillEnded(this.ctx.storage, 1, count);
  }

  /** Accepts, claims and settles submissions one by one. Returns the milliseconds of each, and deletes them. */
  async pass(times: number): Promise<number> {
    const ids: string[] = [];
    this.#meter?.reset();
    const from = performance.now();
    for (let index = 0; index < times; index++) ids.push(await this.#passOne());
    const ms = (performance.now() - from) / times;
    for (const id of ids) await this.#ledger.delete(id);
    return ms;
  }

  /** The total cost of one. */
  async cost(): Promise<Cost> {
    const meter = counting(this.#meter);
    meter.reset();
    await this.#passOne();
    await sleep(20);
    return costOf(meter);
  }

  async #passOne(): Promise<string> {
    const { submissionId } = await this.#ledger.submit([message("x")]);
    await this.#ledger.wait(submissionId);
    return submissionId;
  }

  async #run({ begin }: Turn): Promise<TurnEnd> {
    begin();
    await this.#wait;
    return { outcome: "completed" };
  }
}

/** A host without recovery, because a bench has no crashes. */
function ledgerOf(run: TurnHost["run"], outbox: Outbox): Submissions {
  const host: TurnHost = {
    start: () => {},
    run,
    stop: () => {},
    inspectConversation: async () => ({ applied: "none", hasEffects: false }),
    isRecovering: async () => false,
    removeMessages: async () => {},
    onStatus: async () => {},
    submissionOf: () => undefined,
    isInHostContext: () => false,
    isInsideTurn: () => false,
  };
  return new Submissions(host, outbox);
}
