/**
 * Exactly-once effects on the receiving side of at-least-once delivery (O2):
 * the effect and the note that its delivery has come commit together. Owns the
 * table `perdure_received` in the receiver's own storage; needs no alarm.
 */

import { type Clock, systemClock } from "../../core/clock.ts";
import { DURATION_FORMS, type Duration, millisecondsOf } from "../../core/duration.ts";
import { byteLength } from "../../core/json.ts";
import { migrate } from "../../core/migrations.ts";
import { problemOfNames } from "../../core/options.ts";
import { isWellFormedText } from "../../core/text.ts";
import { MALFORMED } from "../errors.ts";
import type { Delivery, ReferencedDelivery } from "../types.ts";

const MIGRATIONS = [
  `CREATE TABLE perdure_received (id TEXT PRIMARY KEY, received_at INTEGER NOT NULL) WITHOUT ROWID;
   CREATE INDEX perdure_received_by_age ON perdure_received (received_at);`,
];

/** Ids are indexed. */
const MAX_ID_BYTES = 2_048;
/** Old ids that one new id removes: more than one, so that a backlog of them ends. */
const FORGOTTEN_AT_ONCE = 4;

export type DedupeOptions = {
  /**
   * How long an id is known, at least, counted from when it came first. Longer
   * than any sender may repeat it: an outbox repeats for the `maxAge` of its
   * policy, and once more whenever somebody redrives a dead letter. `Infinity`
   * forgets nothing.
   * @default "30 days"
   */
  readonly keep?: Duration;
  readonly clock?: Pick<Clock, "now">;
};

/** What came: a delivery, anything else with its `id`, or the id alone, as a webhook has it in the header `webhook-id`. */
export type Received = Delivery | ReferencedDelivery | { readonly id: string } | string;

/** An effect that is over when it returns; a promise is none. */
type Effect<T> = () => T extends PromiseLike<unknown> ? never : T;

/**
 * Runs `effect` unless one has committed for this delivery's id before.
 *
 * @returns whether it ran: true for the first time, false for a repetition
 * @throws what the effect throws; then nothing of it has lasted, and the next attempt runs it again
 * @throws TypeError for an effect that returns a promise, which is undone the same way, and for what is no id
 */
export type Once = <T>(received: Received, effect: Effect<T>) => boolean;

/**
 * Makes a receiver's effects happen exactly once, however often deliveries are
 * repeated (O2) and wherever the object crashes:
 *
 *     once = dedupe(this.ctx.storage);
 *
 *     async onDone(delivery: Delivery) {
 *       this.once(delivery, () => {
 *         this.ctx.storage.sql.exec("UPDATE totals SET done = done + 1");
 *       });
 *     }
 *
 * The effect is what it writes to this storage, and is synchronous: what
 * happens elsewhere (a request, an email) cannot commit with the id. Give such
 * work an idempotency key, the delivery's id, or put it into an outbox here.
 * Receivers of several senders whose ids could meet prefix them.
 *
 * A new id costs two rows, a repetition none.
 *
 * @param storage of the object that receives
 * @throws TypeError for options that are none
 */
export function dedupe(storage: DurableObjectStorage, options: DedupeOptions = {}): Once {
  const keepMs = keepOf(options);
  const { clock = systemClock } = options;
  migrate(storage, "received", MIGRATIONS);
  return (received, effect) => {
    const id = idOf(received);
    return storage.transactionSync(() => {
      const now = clock.now();
      if (!isFirst(storage.sql, id, now)) return false;
      forget(storage.sql, now - keepMs);
      refusePromise(effect());
      return true;
    });
  };
}

function isFirst(sql: SqlStorage, id: string, now: number): boolean {
  const noted = sql.exec(
    "INSERT INTO perdure_received (id, received_at) VALUES (?, ?) ON CONFLICT (id) DO NOTHING RETURNING id",
    id,
    now,
  );
  return noted.toArray().length > 0;
}

/** Removes some of the ids that came before `time`; there may be more. */
function forget(sql: SqlStorage, time: number): void {
  sql.exec(
    "DELETE FROM perdure_received WHERE id IN (SELECT id FROM perdure_received WHERE received_at < ? ORDER BY received_at LIMIT ?)",
    time,
    FORGOTTEN_AT_ONCE,
  );
}

/** Thrown inside the transaction, so that what the effect has written so far is undone. */
function refusePromise(result: unknown): void {
  const isPromise =
    result !== null &&
    typeof result === "object" &&
    "then" in result &&
    typeof result.then === "function";
  if (!isPromise) return;
  throw new TypeError(
    "The effect given to dedupe() returned a promise, and a promise cannot commit with the delivery's id. " +
      "Await what is needed before, and write it in an effect that is synchronous. What this one wrote before its first await was undone.",
  );
}

function idOf(received: Received): string {
  const id: unknown = typeof received === "object" && received !== null ? received.id : received;
  const isText = typeof id === "string" && id !== "" && byteLength(id) <= MAX_ID_BYTES;
  if (isText && isWellFormedText(id)) return id;
  const expected = isText ? MALFORMED : `expected a text of 1 to ${MAX_ID_BYTES} bytes`;
  const given = typeof id === "string" ? JSON.stringify(id.slice(0, 100)) : String(id);
  throw new TypeError(
    `The id of a delivery is ${given}; ${expected}. ` +
      'Give the delivery, or its id: for a webhook the value of the header "webhook-id".',
  );
}

function keepOf(options: DedupeOptions): number {
  const problem = problemOfNames("the options of dedupe()", options, ["keep", "clock"]);
  if (problem) throw new TypeError(problem.message);
  const { keep = "30 days" } = options;
  const ms = millisecondsOf(keep);
  if (ms !== undefined) return ms;
  const given = typeof keep === "string" ? JSON.stringify(keep) : String(keep);
  throw new TypeError(`keep of dedupe() is ${given}; expected ${DURATION_FORMS}, or leave it out.`);
}
