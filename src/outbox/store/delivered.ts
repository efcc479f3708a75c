/** What is kept of entries that were delivered, and for how long. Owns `perdure_delivered`. */

export type KeptLimits = {
  /** Whether all are kept, or only those whose event the receiver has still to fetch (O4). */
  readonly all: boolean;
  readonly maxAgeMs: number;
  readonly maxCount: number;
};

/** Rows that one look at what can go deletes at most. */
const AT_ONCE = 256;

export class Delivered {
  readonly #sql: SqlStorage;

  constructor(
    private readonly storage: DurableObjectStorage,
    private readonly limits: KeptLimits,
  ) {
    this.#sql = storage.sql;
  }

  /** Forgets some of those that are too old, and of too many; one that went as a reference goes by its age alone. */
  prune(now: number): void {
    const { maxAgeMs, maxCount } = this.limits;
    this.storage.transactionSync(() => {
      const rows = this.#sql
        .exec<{ id: string; isInParts: number }>(
          `DELETE FROM perdure_delivered WHERE id IN (
             SELECT id FROM perdure_delivered WHERE delivered_at < ?
             UNION SELECT id FROM (
               SELECT id FROM perdure_delivered WHERE is_whole ORDER BY delivered_at DESC, id DESC LIMIT -1 OFFSET ?
             )
             LIMIT ?
           ) RETURNING id, payload IS NULL AS isInParts`,
          now - maxAgeMs,
          Number.isFinite(maxCount) ? maxCount : Number.MAX_SAFE_INTEGER,
          AT_ONCE,
        )
        .toArray();
      for (const { id, isInParts } of rows) {
        if (isInParts) this.#sql.exec("DELETE FROM perdure_outbox_parts WHERE id = ?", id);
      }
    });
  }
}
