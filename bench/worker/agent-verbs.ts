/** The bench's calls of an agent, the same for Perdure and Think. */

import { RpcTarget } from "cloudflare:workers";
import type { UIMessage } from "ai";
import type { Meter } from "../../src/testing/meter.ts";
import { type Cost, costOf, counting, message } from "./cost.ts";
import { sleep } from "./marks.ts";
import { asked } from "./timed-model.ts";

/** The methods of an agent that the bench needs. */
export type BenchAgent = {
  readonly meter: Meter | undefined;
  submitMessages(messages: UIMessage[]): Promise<unknown>;
  saveMessages(messages: UIMessage[]): Promise<unknown>;
};

/** Waits for the work after an answer (deleting the delivery, the end of the turn), which belongs to its cost. */
const TAIL_MS = 300;
const APART_MS = 50;

export class AgentVerbs extends RpcTarget {
  readonly #agent: BenchAgent;

  constructor(agent: BenchAgent) {
    super();
    this.#agent = agent;
  }

  /** Starts counting. */
  reset(): void {
    counting(this.#agent.meter).reset();
  }

  /** The counts since then. */
  async cost(): Promise<Cost> {
    await sleep(TAIL_MS);
    return costOf(counting(this.#agent.meter));
  }

  /** A turn of the conversation, without a workflow or a submission. */
  async turn(): Promise<void> {
    await this.#agent.saveMessages([message(asked(50))]);
  }

  /** Submits one after the other, and returns the time until all are accepted, in milliseconds. */
  async submit(texts: readonly string[]): Promise<number> {
    const from = performance.now();
    for (const text of texts) await this.#agent.submitMessages([message(text)]);
    return performance.now() - from;
  }

  /** Submits them one by one, and waits until each is idle. */
  async submitApart(texts: readonly string[]): Promise<void> {
    for (const text of texts) {
      await this.submit([text]);
      await sleep(APART_MS);
    }
  }
}
