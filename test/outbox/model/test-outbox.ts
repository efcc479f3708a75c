/**
 * The real outbox of the model test, whose destinations answer as planned, and a snapshot of all that can be seen of it.
 * Deliveries are recorded outside of the object, so that no crash undoes them. Only the sequence moves the clock.
 */

import { TimeoutError } from "../../../src/core/clock.ts";
import type { DeliveryPolicy, Destination, Outbox } from "../../../src/outbox/index.ts";
import { UndeliverableError } from "../../../src/outbox/index.ts";
import { notByItself, sleep } from "../../support/ledger.ts";
import type { OutboxObject, OutboxScript, Sent } from "../../support/objects/outbox-object.ts";
import {
  type Box,
  crashBox,
  givenOutbox,
  inside,
  orphansIn,
  WEBHOOK,
  wakeBox,
  wakesOf,
  workflowNamed,
} from "../../support/outbox.ts";
import {
  type Answer,
  type Call,
  deathOf,
  type Entry,
  type Found,
  type Letter,
  type NewEvent,
  PLACES,
  type Place,
  type Rules,
} from "./outbox-model.ts";

const DAY_MS = 86_400_000;
const LARGE_LENGTH = 300_000;
/** How long an attempt hangs before its time is over. Others are attempted meanwhile. */
const ATTEMPT_MS = 50;

export const RULES: Rules = {
  plain: { maxAttempts: 5, maxAgeMs: 200_000, takesLarge: true },
  ordered: { maxAttempts: 3, maxAgeMs: DAY_MS, takesLarge: true },
  hasty: { maxAttempts: 2, maxAgeMs: DAY_MS, takesLarge: true },
  queue: { maxAttempts: 3, maxAgeMs: DAY_MS, takesLarge: false },
  hook: { maxAttempts: 4, maxAgeMs: DAY_MS, takesLarge: true },
  delayMs: (failures) => Math.min(30_000 * 2 ** (failures - 1), 1_800_000),
  lostDelayMs: (lost) => Math.min(500 * 2 ** (lost - 1), 1_800_000),
  maxLost: 8,
  retryAfterMs: 100_000,
};

const policyAt = (place: Place): DeliveryPolicy => ({
  maxAttempts: RULES[place].maxAttempts,
  maxAge: RULES[place].maxAgeMs,
  // Drawn in the middle, so that half of it is waited.
  backoff: { base: 60_000, cap: 3_600_000 },
  ...(place === "ordered" && { ordered: true }),
});

export const DESTINATIONS: { readonly [P in Place]: Destination } = {
  plain: workflowNamed("plain", policyAt("plain")),
  ordered: workflowNamed("ordered", policyAt("ordered")),
  hasty: workflowNamed("hasty", policyAt("hasty")),
  queue: { kind: "queue", queue: "queue", policy: policyAt("queue") },
  hook: { ...WEBHOOK, policy: policyAt("hook") },
};

const KEYS: { readonly [P in Place]: string } = {
  plain: "workflow plain",
  ordered: "workflow ordered",
  hasty: "workflow hasty",
  queue: "queue queue",
  hook: `webhook ${WEBHOOK.url}`,
};

export const eventOf = ({ id, isLarge }: Pick<NewEvent, "id" | "isLarge">) => ({
  of: id,
  text: "x".repeat(isLarge ? LARGE_LENGTH : 10),
});

type Row = {
  id: string;
  destination_key: string;
  seq: number;
  attempts: number;
  earlier_attempts: number;
  queued_at: number;
  due_at: number;
  started: number;
  interruptions: number;
  is_notified: number;
  ended_at: number;
  length: number;
};

export type Snapshot = Found & {
  readonly unnotified: readonly string[];
  readonly job: number | null;
  readonly alarm: number | null;
  readonly orphans: readonly string[];
};

export class TestOutbox {
  readonly calls: Call[] = [];
  /** How often the app was notified of each death. */
  readonly notified = new Map<string, number>();
  /** Attempts of each id since it was put. */
  readonly used = new Map<string, number>();
  /** Ids of events that arrived changed. */
  readonly wrong: string[] = [];
  /** A delivery has crashed the object. */
  hasCrashed = false;
  now = Date.now() + DAY_MS;
  readonly #box: Box;

  /** @param answerTo the answer to the nth attempt of an id, 0 for the first since it was put */
  constructor(
    private readonly answerTo: (id: string, place: Place, nth: number) => Answer,
    keepDelivered: { maxAge: number; maxCount: number } | undefined,
  ) {
    const script: OutboxScript = {
      settings: { onProblem: () => {}, concurrency: 2, ...(keepDelivered && { keepDelivered }) },
      clock: { now: () => this.now, random: () => 0.5 },
      deliver: (sent, to, object) => this.#deliver(sent, to, object),
      onDeadLetter: ({ id, attempts, diedAt }) => {
        const death = deathOf(id, attempts, diedAt);
        this.notified.set(death, (this.notified.get(death) ?? 0) + 1);
      },
    };
    this.#box = givenOutbox(script);
  }

  async #deliver(sent: Sent, to: Destination, object: OutboxObject): Promise<void> {
    const { id, attempt } = sent;
    const place = PLACES.find((one) => sameDestination(DESTINATIONS[one], to)) ?? "plain";
    const nth = this.used.get(id) ?? 0;
    this.used.set(id, nth + 1);
    const answer = this.answerTo(id, place, nth);
    const { isWhole, isLarge } = this.#verify(sent);
    this.calls.push({ id, place, attempt, answer, isLarge, isWhole });
    if (answer === "take") return;
    if (answer === "hang") {
      await sleep(ATTEMPT_MS);
      // As the outbox's own timer throws it. A real one would also end attempts that answer, on a busy machine.
      throw new TimeoutError("hang");
    }
    if (answer === "kill") {
      this.hasCrashed = true;
      // It is protected.
      (object as unknown as { ctx: DurableObjectState }).ctx.abort("killed by a delivery");
    }
    if (answer === "refuse" || answer === "gone") {
      throw new UndeliverableError(answer, { isGone: answer === "gone" });
    }
    const retryAfter = { "retry-after-ms": String(RULES.retryAfterMs) };
    const later = { statusCode: 429, responseHeaders: retryAfter };
    throw Object.assign(new Error(answer), answer === "later" && later);
  }

  #verify(sent: Sent): { isWhole: boolean; isLarge: boolean } {
    if (!("event" in sent)) return { isWhole: false, isLarge: sent.reference.bytes > LARGE_LENGTH };
    const { of, text } = sent.event as ReturnType<typeof eventOf>;
    const isLarge = text.length > 10;
    if (of !== sent.id || text !== eventOf({ id: of, isLarge }).text) this.wrong.push(sent.id);
    return { isWhole: true, isLarge };
  }

  inside<T>(work: (object: OutboxObject, ctx: DurableObjectState) => T | Promise<T>): Promise<T> {
    return inside(this.#box, work);
  }

  run<T>(work: (outbox: Outbox) => T | Promise<T>): Promise<T> {
    return this.inside(({ outbox }) => work(outbox));
  }

  put(events: readonly NewEvent[], commits: boolean): Promise<void> {
    return this.inside(async ({ lifecycle, outbox }, { storage }) => {
      await lifecycle.start();
      const undo = new Error("undo");
      try {
        storage.transactionSync(() => {
          for (const event of events) {
            outbox.put(DESTINATIONS[event.place], eventOf(event), { id: event.id });
          }
          if (!commits) throw undo;
        });
      } catch (error) {
        if (error !== undo) throw error;
      }
    });
  }

  async wake(): Promise<void> {
    // It starts first: by its own clock, which is ahead, a job that is due by the machine's clock seems long overdue.
    await this.inside(async ({ lifecycle }, ctx) => {
      if ((await wakesOf(ctx)).job !== null) await lifecycle.start();
    });
    try {
      await wakeBox(this.#box);
    } catch (error) {
      await inside(this.#box, (_, ctx) => notByItself(ctx, this.now));
      throw error;
    }
  }

  async crash(): Promise<void> {
    await crashBox(this.#box);
  }

  /** The next start is at a later time than the crash. */
  restart(): void {
    this.hasCrashed = false;
    this.now++;
  }

  look(): Promise<Snapshot> {
    return this.inside(async (_, ctx) => {
      const { sql } = ctx.storage;
      const hasBegun =
        sql.exec("SELECT 1 FROM sqlite_master WHERE name = 'perdure_outbox'").toArray().length > 0;
      const rows = (query: string) => (hasBegun ? sql.exec<Row>(query).toArray() : []);
      if (hasBegun) sql.exec(VALUES);
      const length = `coalesce(length(payload),
        (SELECT SUM(length(text)) FROM perdure_values WHERE owner = 'delivery:' || e.id)) AS length`;
      const dead = rows(
        `SELECT *, ${length}, 0 AS earlier_attempts, 0 AS queued_at, 0 AS due_at, 0 AS started, 0 AS interruptions
         FROM perdure_outbox_ended e WHERE state = 'dead' ORDER BY seq`,
      );
      const [row] = hasBegun ? sql.exec("SELECT * FROM perdure_endpoints").toArray() : [];
      const endpoint = row && {
        since: Number(row.failing_since),
        heldUntil: row.held_until as number | null,
        isDisabled: row.disabled_at !== null,
      };
      return {
        waiting: rows(`SELECT *, ${length} FROM perdure_outbox e ORDER BY seq`).map(toEntry),
        dead: dead.map((letter): Letter => ({ ...toEntry(letter), diedAt: letter.ended_at })),
        unnotified: dead.filter(({ is_notified }) => is_notified === 0).map(({ id }) => id),
        endpoint,
        calls: this.calls,
        orphans: hasBegun ? orphansIn(ctx) : [],
        ...(await wakesOf(ctx)),
      };
    });
  }
}

/** The table is made by the first long event. */
const VALUES = `CREATE TABLE IF NOT EXISTS perdure_values
  (owner TEXT NOT NULL, part INTEGER NOT NULL, text TEXT NOT NULL, PRIMARY KEY (owner, part)) WITHOUT ROWID`;

const sameDestination = (a: Destination, b: Destination) => JSON.stringify(a) === JSON.stringify(b);

function toEntry(row: Row): Entry {
  return {
    id: row.id,
    place: PLACES.find((place) => KEYS[place] === row.destination_key) ?? "plain",
    seq: row.seq,
    isLarge: row.length > LARGE_LENGTH,
    attempt: row.attempts,
    before: row.earlier_attempts,
    since: row.queued_at,
    dueAt: row.due_at,
    isFresh: row.started > 0,
    lost: row.interruptions,
    wasAlone: row.started === 2,
  };
}
