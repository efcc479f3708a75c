/** Sends webhooks to the agents, signed by Standard Webhooks, until they are answered with 2xx. */

import { Webhook } from "standardwebhooks";
import type { Client } from "./client.ts";
import { type ArrivalBody, HOOK_SECRET } from "./words.ts";

export class Sender {
  readonly #client: Client;

  constructor(client: Client) {
    this.#client = client;
  }

  /**
   * Returns the verdict of the receiver, or undefined if the soak has ended before.
   *
   * @throws Error if there is none in 5 minutes
   */
  async send(id: string, body: ArrivalBody): Promise<string | undefined> {
    const text = JSON.stringify(body);
    const answer = await this.#client.insist(() => {
      const now = new Date();
      return this.#client.post("hooks/standard-webhooks", text, {
        "content-type": "application/json",
        "webhook-id": id,
        "webhook-timestamp": String(Math.floor(now.getTime() / 1_000)),
        "webhook-signature": new Webhook(HOOK_SECRET).sign(id, now, text),
      });
    });
    return answer === undefined ? undefined : (JSON.parse(answer) as { verdict: string }).verdict;
  }
}
