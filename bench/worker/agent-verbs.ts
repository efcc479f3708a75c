/** What the bench does with an agent, the same for Perdure's and the built-in's. */

import { RpcTarget } from "cloudflare:workers";
import type { UIMessage } from "ai";
import type { Meter } from "../../src/testing/meter.ts";
import { type Cost, costOf, counting, message } from "./cost.ts";
import { sleep } from "./marks.ts";
import { asked } from "./timed-model.ts";

/** What the bench needs of an agent. */
export type BenchAgent = {
  readonly meter: Meter | undefined;
  submitMessages(messages: UIMessage[]): Promise<unknown>;
  saveMessages(messages: UIMessage[]): Promise<unknown>;
};

/** Until what follows on an answer is done (forgetting the delivery, the turn's own tail), which is part of the price. */
const TAIL_MS = 300;
const APART_MS = 50;

export class AgentVerbs extends RpcTarget {
  readonly #agent: BenchAgent;

  constructor(agent: BenchAgent) {
    super();
    this.#agent = agent;
  }

  /** From here on it is counted. */
  reset(): void {
    counting(this.#agent.meter).reset();
  }

  /** What was done since, all of it. */
  async cost(): Promise<Cost> {
    await sleep(TAIL_MS);
    return costOf(counting(this.#agent.meter));
  }

  /** A turn of the conversation, without a workflow or a submission. */
  async turn(): Promise<void> {
    await this.#agent.saveMessages([message(asked(50))]);
  }

  /** Submits one after the other, and returns how long that took until all are accepted, in milliseconds. */
  async submit(texts: readonly string[]): Promise<number> {
    const from = performance.now();
    for (const text of texts) await this.#agent.submitMessages([message(text)]);
    return performance.now() - from;
  }

  /** Submits them one by one, and lets what each has started come to rest. */
  async submitApart(texts: readonly string[]): Promise<void> {
    for (const text of texts) {
      await this.submit([text]);
      await sleep(APART_MS);
    }
  }
}
