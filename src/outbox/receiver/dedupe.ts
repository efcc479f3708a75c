/**
 * Exactly-once effects on the receiving side of at-least-once delivery: the effect and the delivery's id commit together.
 * Owns the table `perdure_received` in the receiver's storage; needs no alarm.
 */

import * as z from "zod";
import { type Clock, systemClock } from "../../core/clock.ts";
import { duration, optionsOf, readOptions, text } from "../../core/options/option-schemas.ts";
import type { Duration } from "../../core/options/options.ts";
import { migrate } from "../../engine/migrations.ts";
import type { Delivery, ReferencedDelivery } from "../destinations/adapter.ts";

const MIGRATIONS = [
  `CREATE TABLE perdure_received (id TEXT PRIMARY KEY, received_at INTEGER NOT NULL) WITHOUT ROWID;
   CREATE INDEX perdure_received_by_age ON perdure_received (received_at);`,
];

const INSERT =
  "INSERT INTO perdure_received (id, received_at) VALUES (?, ?) ON CONFLICT (id) DO NOTHING RETURNING id";
/** One new id deletes more than one old id, so that a backlog of them ends. */
const PRUNE = `DELETE FROM perdure_received WHERE id IN
  (SELECT id FROM perdure_received WHERE received_at < ? ORDER BY received_at LIMIT 4)`;

export type DedupeOptions = {
  /**
   * How long an id is stored, at least, from its first delivery. Use a longer time than any sender repeats a delivery: an
   * outbox does so for the `maxAge` of its policy, and again when a dead letter is redriven. `Infinity` keeps all ids.
   * @default "30 days"
   */
  readonly keep?: Duration;
  readonly clock?: Pick<Clock, "now">;
};

/** An index contains it. */
const ID = text({ maxBytes: 2_048 });
const OPTIONS = optionsOf<DedupeOptions>()({
  keep: duration({ infinity: true }).prefault("30 days"),
  clock: z.custom<Pick<Clock, "now">>().optional(),
});

/** A delivery, any object with its `id`, or the id alone. A webhook has it in the header `webhook-id`. */
export type Received = Delivery | ReferencedDelivery | { readonly id: string } | string;

/** A synchronous effect: it must not return a promise. */
type Effect<T> = () => T extends PromiseLike<unknown> ? never : T;

/**
 * Runs `effect` unless one has committed for this delivery's id before.
 *
 * @returns whether it ran: true for the first time, false for a repetition
 * @throws what the effect throws; it is rolled back then, and the next attempt runs it again
 * @throws TypeError for an effect that returns a promise, which is rolled back as well, and for an invalid id
 */
export type Once = <T>(received: Received, effect: Effect<T>) => boolean;

/**
 * Makes a receiver's effects happen exactly once, however often deliveries are repeated and wherever the object crashes:
 *
 *     once = dedupe(this.ctx.storage);
 *
 *     async onDone(delivery: Delivery) {
 *       this.once(delivery, () => {
 *         this.ctx.storage.sql.exec("UPDATE totals SET done = done + 1");
 *       });
 *     }
 *
 * The effect is synchronous, and is what it writes to this storage. A request or an email cannot commit with the id: use
 * the delivery's id as its idempotency key, or put it into an outbox here. If the ids of several senders could be equal,
 * prefix them.
 *
 * A new id costs two rows, a repetition none.
 *
 * @param storage of the receiving object
 * @throws TypeError for invalid options
 */
export function dedupe(storage: DurableObjectStorage, options: DedupeOptions = {}): Once {
  const invalid = (_: string, message: string) => new TypeError(message);
  const read = readOptions(OPTIONS, options, "options of dedupe()", invalid);
  const { keep, clock = systemClock } = read;
  migrate(storage, "received", MIGRATIONS);
  return (received, effect) => {
    const id = idOf(received);
    return storage.transactionSync(() => {
      const now = clock.now();
      if (storage.sql.exec(INSERT, id, now).toArray().length === 0) return false;
      storage.sql.exec(PRUNE, now - keep);
      refusePromise(effect());
      return true;
    });
  };
}

/** Thrown inside the transaction, so that the effect is rolled back. */
function refusePromise(result: unknown): void {
  const isPromise =
    result !== null &&
    typeof result === "object" &&
    "then" in result &&
    typeof result.then === "function";
  if (!isPromise) return;
  throw new TypeError(
    "The effect given to dedupe() returned a promise, and a promise cannot commit with the delivery's id. " +
      "Await before the call, and write in a synchronous effect. What this one wrote before its first await was rolled back.",
  );
}

function idOf(received: Received): string {
  const id: unknown = typeof received === "object" && received !== null ? received.id : received;
  return readOptions(ID, id, "delivery id", (_, message) => {
    return new TypeError(
      `${message} Pass the delivery, or its id: for a webhook the value of the header "webhook-id".`,
    );
  });
}
