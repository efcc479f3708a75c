/** The operator's HTTP calls: read the agents' reports, approve, wake. */

import type { AgentReport } from "../src/triage.ts";

const REQUEST_TIMEOUT_MS = 15_000;

export class Operator {
  readonly #url: () => string;
  readonly #token: string;
  readonly #signal: AbortSignal;

  constructor(url: () => string, token: string, signal: AbortSignal) {
    this.#url = url;
    this.#token = token;
    this.#signal = signal;
  }

  async reports(agents: string[], platform: boolean): Promise<AgentReport[]> {
    const query = new URLSearchParams(agents.map((agent) => ["agent", agent]));
    if (platform) query.set("platform", "1");
    const { agents: reports } = (await this.#send(`/results?${query}`)) as {
      agents: AgentReport[];
    };
    return reports;
  }

  async approve(agent: string, delivery: string, approvedBy: string): Promise<boolean> {
    const { approved } = (await this.#send("/approve", { agent, delivery, approvedBy })) as {
      approved: boolean;
    };
    return approved;
  }

  async wake(agent: string): Promise<number> {
    const { woken } = (await this.#send("/wake", { agent })) as { woken: number };
    return woken;
  }

  async #send(path: string, body?: unknown): Promise<unknown> {
    const response = await fetch(`${this.#url()}${path}`, {
      method: body === undefined ? "GET" : "POST",
      headers: { Authorization: `Bearer ${this.#token}` },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal: AbortSignal.any([this.#signal, AbortSignal.timeout(REQUEST_TIMEOUT_MS)]),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${path} answered ${response.status}: ${text.slice(0, 300)}`);
    return JSON.parse(text);
  }
}
