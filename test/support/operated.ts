/** Starts the Worker of test/workers/operated on 127.0.0.1, for tests in Node that operate it. */

import { join } from "node:path";
import { Runtime } from "../../examples/runtime.ts";
import { OperatorClient } from "../../src/operator/client.ts";
import { HANG_MS } from "./sizes.ts";

const WORKER = join(import.meta.dirname, "../workers/operated");

/** Not real ones. As `Authorization: Bearer`, or for browsers as the cookie `operator`. */
export const TOKENS = { act: "token-to-act", read: "token-to-read" } as const;
export const MAIN = { agent: "Shop", name: "main" } as const;

/**
 * `start()`, `kill()` and `destroy()` are those of the examples' runtime. `Shop/main` is the agent with planted data,
 * `Shop/empty` a new one, and the binding of `Missing/main` does not exist.
 */
export class Operated extends Runtime {
  /** @param variables further ones of the Worker */
  constructor(variables: Readonly<Record<string, string>> = {}) {
    super(WORKER, {
      ...variables,
      ACT_TOKEN: TOKENS.act,
      READ_TOKEN: TOKENS.read,
      ORDERS_TOKEN: "orders",
      HOOK_SECRET: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    });
  }

  /** Where the API is. */
  get operatorUrl(): string {
    return `${this.url}/perdure`;
  }

  client(token: string = TOKENS.act): OperatorClient {
    return new OperatorClient({ url: this.operatorUrl, token });
  }

  /** Plants something of each list, and waits until the work that can end has ended. */
  async plant(planted: { submissions?: number; deadLetters?: number } = {}): Promise<void> {
    const { deadLetters = 3 } = planted;
    await this.#post(planted);
    const client = this.client();
    const end = Date.now() + HANG_MS;
    for (;;) {
      const open = await client.list(MAIN, "submissions", { status: ["pending", "running"] });
      const dead = await client.list(MAIN, "dead-letters", { limit: Math.min(deadLetters, 100) });
      const asked = await client.list(MAIN, "approvals");
      // The one that hangs, the one behind it, and four that start in an hour.
      const isPlanted = open.items.length <= 6 && asked.items.length === 3;
      if (isPlanted && dead.items.length >= Math.min(deadLetters, 100)) return;
      if (Date.now() > end) {
        const counts = `${open.items.length} open, ${dead.items.length} dead, ${asked.items.length} approvals`;
        throw new Error(`Not planted within ${HANG_MS / 1_000} s: ${counts}`);
      }
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
  }

  /** Adds so many rows of ended submissions, without their runs. */
  fill(rows: number): Promise<void> {
    return this.#post({ rows });
  }

  async #post(planted: object): Promise<void> {
    const response = await fetch(`${this.url}/plant`, {
      method: "POST",
      headers: { authorization: `Bearer ${TOKENS.act}` },
      body: JSON.stringify(planted),
    });
    if (!response.ok) throw new Error(`/plant: ${response.status} ${await response.text()}`);
  }
}
