/** Sends deliveries until they are answered with 2xx, and records every answer. */

import { setTimeout as delay } from "node:timers/promises";
import { between, oneOf, type Random } from "../../test/acceptance/soak/random.ts";
import { type Again, type Delivery, MAX_BYTES, requestOf } from "./deliveries.ts";

const PATIENCE_MS = 30_000;
const PAUSE_MS = [200, 1_000] as const;
/** Shares of deliveries that come with a request whose signature is wrong, or whose body is too large. */
const FORGED = 0.03;
const OVERSIZED = 0.01;
const MAX_WRONG = 50;
/** Agents have room again, and the machine is back, in less. */
const INSIST_MS = 300_000;
const OTHER_SECRET = `whsec_${Buffer.from("not the secret").toString("base64")}`;

/** The answers to one delivery, with its duplicates. */
export type Record = {
  readonly delivery: Delivery;
  /** Verdicts of answers with 2xx. */
  readonly verdicts: string[];
  /** Requests without an answer. */
  lost: number;
  /** Answers other than 2xx, by their status. */
  readonly refused: Map<number, number>;
};

export class Sender {
  readonly #url: string;
  readonly #random: Random;
  readonly records = new Map<string, Record>();
  /** Ids of requests that must be refused. */
  readonly invalid: string[] = [];
  /** Answers that nothing explains. */
  readonly wrong: string[] = [];
  /** Answers with 2xx. */
  answered = 0;
  /** Requests wait while the machine is down. */
  isHeld = false;
  #afterKill: Delivery[] = [];
  readonly #later: Delivery[] = [];

  constructor(url: string, random: Random) {
    this.#url = url;
    this.#random = random;
  }

  /** Sends all of them over so many connections, then their late duplicates in order. */
  async sendAll(plan: readonly Delivery[], connections: number): Promise<void> {
    await inParallel(plan, connections, (delivery) => this.#first(delivery));
    const late = [...this.#afterKill.splice(0), ...this.#later];
    await inParallel(late, connections, (delivery) => this.send(delivery));
  }

  /** The duplicates that wait for a kill. */
  async afterKill(): Promise<void> {
    await Promise.all(this.#afterKill.splice(0).map((delivery) => this.send(delivery)));
  }

  async #first(delivery: Delivery): Promise<void> {
    const copies = (when: Again) =>
      delivery.again.filter((one) => one === when).map(() => delivery);
    const invalid: Promise<void>[] = [];
    if (this.#random() < FORGED) invalid.push(this.#invalid(delivery, 401));
    if (this.#random() < OVERSIZED) invalid.push(this.#invalid(delivery, 413));
    await Promise.all([
      ...invalid,
      ...[delivery, ...copies("together")].map((one) => this.send(one)),
    ]);
    this.#afterKill.push(...copies("after a kill"));
    this.#later.push(...copies("later"));
  }

  /**
   * Until it is answered with 2xx.
   *
   * @throws Error if it is not in 5 minutes
   */
  async send(delivery: Delivery): Promise<void> {
    const { id } = delivery;
    const deadline = Date.now() + INSIST_MS;
    const record = this.records.get(id) ?? newRecord(delivery);
    this.records.set(id, record);
    for (;;) {
      const response = await this.#answerTo(requestOf(delivery));
      if (response === undefined) record.lost++;
      else if (response.status === 200) {
        const answer = JSON.parse(response.text) as { verdict: string; id: string };
        if (answer.id !== id) this.wrong.push(`${id}: answered as ${response.text}`);
        record.verdicts.push(answer.verdict);
        this.answered++;
        return;
      } else {
        const { status, text, retryAfter } = response;
        record.refused.set(status, (record.refused.get(status) ?? 0) + 1);
        const isExpected = (status === 429 || status === 503) && Number(retryAfter) > 0;
        if (!isExpected) this.#isWrong(`${id}: ${status}, Retry-After ${retryAfter}, ${text}`);
      }
      insistUntil(deadline, `${id} is not accepted`);
      // Less than Retry-After: the agent has room again soon.
      await delay(between(this.#random, ...PAUSE_MS));
    }
  }

  /** A request that must be refused, under an id that no other has. */
  async #invalid(delivery: Delivery, expected: 401 | 413): Promise<void> {
    const id = `invalid-${expected}-${delivery.id}`;
    this.invalid.push(id);
    const options = expected === 401 ? { secret: OTHER_SECRET } : { padding: MAX_BYTES };
    const deadline = Date.now() + INSIST_MS;
    for (;;) {
      const response = await this.#answerTo(requestOf({ ...delivery, id }, options));
      if (response?.status === expected) return;
      if (response) this.#isWrong(`${id}: ${response.status} in place of ${expected}`);
      insistUntil(deadline, `${id} is not refused`);
      await delay(oneOf(this.#random, PAUSE_MS));
    }
  }

  /** @throws Error after too many of them, because such a delivery may never be accepted */
  #isWrong(what: string): void {
    this.wrong.push(what);
    if (this.wrong.length > MAX_WRONG) throw new Error(this.wrong.join("\n"));
  }

  async #answerTo({ path, ...init }: ReturnType<typeof requestOf>) {
    while (this.isHeld) await delay(PAUSE_MS[0]);
    try {
      const signal = AbortSignal.timeout(PATIENCE_MS);
      const response = await fetch(`${this.#url}${path}`, { ...init, signal });
      const { status, headers } = response;
      return { status, text: await response.text(), retryAfter: headers.get("retry-after") };
    } catch {
      return undefined;
    }
  }
}

function insistUntil(deadline: number, what: string): void {
  if (Date.now() > deadline) throw new Error(`${what} for ${INSIST_MS / 1_000} s.`);
}

function newRecord(delivery: Delivery): Record {
  return { delivery, verdicts: [], lost: 0, refused: new Map() };
}

async function inParallel<T>(
  items: readonly T[],
  connections: number,
  work: (item: T) => Promise<void>,
): Promise<void> {
  const rest = items.values();
  const one = async () => {
    for (const item of rest) await work(item);
  };
  await Promise.all(Array.from({ length: connections }, one));
}
