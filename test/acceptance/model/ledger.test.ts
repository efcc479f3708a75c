/** The ledger against a model: keys, lanes, cancellation, retries, deletion, cleared threads, crashes and time. */

import fc from "fast-check";
import { method } from "perdure/outbox";
import { type VirtualClock, virtualClock } from "perdure/testing";
import { expect, it } from "vitest";
import { afterRestart, type GivenAgent, givenAgent } from "../app/given.ts";
import { Hold } from "../app/hold.ts";
import { HOSTS, type Host } from "../app/hosts.ts";
import { message } from "../app/messages.ts";
import { deliveries } from "../app/receivers.ts";
import { isHeld, type Kind, LedgerModel, type ModelSubmission } from "./ledger-model.ts";
import { playSequences, type Subject } from "./sequences.ts";

type Command =
  | {
      readonly op: "submit";
      readonly kind: Kind;
      readonly thread: string;
      readonly key: number | undefined;
    }
  | { readonly op: "cancel" | "retry" | "delete" | "wait"; readonly nth: number }
  | { readonly op: "clear"; readonly thread: string }
  | { readonly op: "crash" | "release" | "pass" };

const THREADS = ["main", "side", "isolated"] as const;
const nth = fc.nat({ max: 20 });

const commands: fc.Arbitrary<Command> = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      op: fc.constant("submit" as const),
      kind: fc.constantFrom<Kind>("answer", "answer", "fail", "held", "held", "deaf", "later"),
      thread: fc.constantFrom(...THREADS),
      key: fc.option(fc.nat({ max: 3 }), { nil: undefined }),
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({ op: fc.constantFrom("cancel", "retry", "delete", "wait"), nth }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ op: fc.constant("clear" as const), thread: fc.constant("side") }),
  },
  { weight: 4, arbitrary: fc.record({ op: fc.constantFrom("crash", "release", "pass") }) },
);

const HOUR = 3_600_000;

class LedgerSubject implements Subject<Command> {
  readonly #model = new LedgerModel();
  readonly #agent: GivenAgent;
  /** By the id of the message. */
  readonly #holds = new Map<string, Hold>();

  constructor(
    host: Host,
    private readonly clock: VirtualClock,
  ) {
    this.#agent = givenAgent(host);
  }

  async perform(command: Command): Promise<void> {
    const verbs = await this.#agent.verbs();
    switch (command.op) {
      case "submit":
        return this.#submit(command);
      case "cancel": {
        const { id } = this.#pick(command.nth);
        const reply = await verbs.cancelSubmission(id);
        return expect(reply.outcome).toBe(this.#model.cancel(id));
      }
      case "retry": {
        const { id } = this.#pick(command.nth);
        const reply = await verbs.retrySubmission(id);
        const wanted = this.#model.retry(id, reply?.submissionId ?? "");
        return expect(reply && [reply.submissionId, reply.accepted]).toEqual(
          wanted ? [wanted.id, wanted.accepted] : null,
        );
      }
      case "delete": {
        const { id, retriedBy, isRetry } = this.#pick(command.nth);
        // A retry of a deleted one, or a deleted retry, has no promise.
        if (retriedBy !== undefined || isRetry) return;
        const isDeleted = await verbs.deleteSubmission(id);
        return expect(isDeleted).toBe(this.#model.delete(id));
      }
      case "wait": {
        const { id, status } = this.#pick(command.nth);
        if (status === "pending" || status === "running") return;
        const found = await verbs.waitForSubmission(id);
        return expect(found?.status ?? null).toBe(this.#model.find(id)?.status ?? null);
      }
      case "clear":
        await verbs.clearThread(command.thread);
        return this.#model.clear(command.thread);
      case "crash":
        await this.#agent.crash();
        return this.#wake();
      case "release": {
        const [first] = this.#holds;
        if (!first) return;
        this.#holds.delete(first[0]);
        first[1].release();
        return this.#model.release(first[0]);
      }
      case "pass":
        await this.clock.advance("2 hours", this.#agent.root);
        return this.#model.passTime();
    }
  }

  async #submit({ kind, thread, key }: Extract<Command, { op: "submit" }>): Promise<void> {
    const hold = new Hold({ ignoresAbort: kind === "deaf" });
    // The id of a hold is that of its script.
    const messageId = hold.id;
    if (!isHeld(kind)) hold.release();
    const script = {
      id: hold.id,
      text: `answer of ${hold.id}`,
      ...(kind === "fail" && { fail: "The model fails", status: 400 }),
    };
    const verbs = await this.#agent.verbs();
    // A turn that was cancelled and goes on keeps its lane, and a later one joins it at its time.
    const place = kind === "later" || kind === "deaf" ? "isolated" : thread;
    const named = key === undefined ? undefined : `key-${key}`;
    const reply = await verbs.submitMessages([message(script, messageId)], {
      thread: place,
      notify: method("receive"),
      retry: { maxAttempts: kind === "fail" ? 1 : 20 },
      ...(named ? { idempotencyKey: named } : { submissionId: `s-${messageId}` }),
      ...(kind === "later" && { notBefore: this.clock.now() + HOUR }),
    });
    const id = reply.submissionId;
    const wanted = this.#model.submit({ id, kind, thread: place, messageId, key: named });
    if (wanted.accepted && isHeld(kind)) this.#holds.set(messageId, hold);
    expect([id, reply.accepted]).toEqual([wanted.id, wanted.accepted]);
  }

  /** Only the alarm wakes the object after a crash. */
  async #wake(): Promise<void> {
    const needsWake = this.#model.submissions.some(
      ({ status }) => status === "pending" || status === "running",
    );
    const hasAlarm = await this.#agent.ring();
    if (needsWake) expect(hasAlarm, "the object has an alarm").toBe(true);
  }

  /** One that was submitted, or an unknown one. */
  #pick(nth: number): Pick<ModelSubmission, "id" | "status" | "retriedBy" | "isRetry"> {
    const { submissions } = this.#model;
    return submissions[nth % (submissions.length + 1)] ?? { id: "unknown", status: "skipped" };
  }

  look = async (): Promise<object> =>
    afterRestart(async () => {
      const verbs = await this.#agent.verbs();
      const submissions = await verbs.listSubmissions({ limit: 1_000 });
      const threads: Record<string, string[]> = {};
      for (const thread of ["main", "side"]) {
        const messages = await verbs.threadMessages(thread);
        threads[thread] = messages.filter(({ role }) => role === "user").map(({ id }) => id);
      }
      const ends = [...this.#model.received].map((id) => {
        const received = deliveries.get(id);
        const event = received[0]?.event as { data: { status: string } } | undefined;
        return [id, new Set(received.map((one) => one.id)).size, event?.data.status];
      });
      return {
        submissions: submissions
          .reverse()
          .map(({ submissionId, status, output }) => [submissionId, status, output ?? null]),
        threads,
        ends,
      };
    });

  expected = (): object => {
    const { submissions, threads, received } = this.#model;
    return {
      submissions: submissions.map(({ id, status, messageId }) => [
        id,
        status,
        status === "completed" ? `answer of ${messageId}` : null,
      ]),
      threads: { main: threads.get("main") ?? [], side: threads.get("side") ?? [] },
      ends: [...received].map((id) => [id, 1, this.#ends.get(id) ?? this.#remember(id)]),
    };
  };

  /** Statuses of ends, also of deleted submissions. */
  readonly #ends = new Map<string, string>();

  #remember(id: string): string | undefined {
    const status = this.#model.find(id)?.status;
    if (status !== undefined) this.#ends.set(id, status);
    return status;
  }

  async finish(): Promise<void> {
    for (const [messageId, hold] of this.#holds) {
      hold.release();
      this.#model.release(messageId);
    }
    await this.perform({ op: "pass" });
  }

  end(): void {
    for (const hold of this.#holds.values()) hold.release();
  }
}

for (const host of HOSTS.filter(({ entry, depth }) => entry !== "perdure/chat" && depth === 0)) {
  it(`L1 L2 L3 L4 L5 L7 O1 O2: the ledger of ${host.title} does what its model does`, async () => {
    using clock = virtualClock();
    await playSequences(commands, () => new LedgerSubject(host, clock), 5);
  }, 3_600_000);
}
