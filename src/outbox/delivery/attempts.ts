/**
 * Takes an entry for its next attempt, and finds out which attempts were lost:
 * begun, and interrupted by a crash of the object. What was lost beside others
 * backs off, and does not count: any of them may have killed the object (O3).
 * After two such attempts the entry is a suspect: it is tried alone, and then a
 * crash counts against it. An endpoint is never one, because a request cannot
 * kill its sender; it is retried until its `maxAge`.
 */

import type { Clock } from "../../core/clock.ts";
import type { OutboxLimits } from "../options.ts";
import type { DeadLetters } from "../store/dead-letters.ts";
import { type Entry, type OutboxStore, SUSPECT_AFTER } from "../store/entries.ts";
import { afterLost, policyOf } from "./policy.ts";
import { isEndpoint } from "./slots.ts";

export type ClaimsOwner = {
  readonly store: OutboxStore;
  readonly deadLetters: DeadLetters;
  readonly limits: OutboxLimits;
  readonly clock: Clock;
  /** The object must be awake at that time. */
  wakeAt(time: number): void;
  /** Somebody is to be told of dead letters. */
  died(): void;
  /** Whether nothing is to be sent to the destination. */
  isDisabled(entry: Entry): boolean;
  /** An entry that the others of its destination may have to wait for has been put off. */
  putOff(entry: Entry): void;
};

export class Claims {
  readonly #bornAt: number;
  /** Destinations of which the one has been found that an earlier life may have attempted last. */
  readonly #doubted = new Set<string>();
  /** The entry that was tried alone when the object crashed; null: there is none; undefined: not read yet. */
  #loner: string | null | undefined;

  constructor(private readonly owner: ClaimsOwner) {
    this.#bornAt = owner.clock.now();
  }

  /** What was begun before this time was begun by an earlier life. */
  get bornAt(): number {
    return this.#bornAt;
  }

  /**
   * The entry to be attempted, its attempt counted; or none, when it is not to be.
   *
   * @param isAlone whether no other attempt is under way, and none begins until this one is over
   */
  claim(id: string, isAlone: boolean): Entry | undefined {
    const { store, clock } = this.owner;
    const entry = store.get(id);
    // It may be in line twice, where a transaction that put it was rolled back, and its first attempt has failed.
    if (!entry || entry.dueAt > clock.now()) return undefined;
    const isLost = this.#isLost(entry);
    if (this.owner.isDisabled(entry)) {
      return this.#bury(
        entry,
        isLost ? entry.attempt : entry.attempt - 1,
        "The endpoint is disabled",
      );
    }
    if (isLost) return this.#putOff(entry);
    // An entry that is noted as alone from now on was not so before this life.
    if (isAlone) this.#readLoner();
    // The first attempt was counted when it was put.
    if (!entry.isBegun || isAlone) store.begin(id, entry.attempt, isAlone);
    return entry;
  }

  /** waiting → waiting, later, or → dead: the object may not have survived the attempt. */
  #putOff(entry: Entry): undefined {
    const { store, limits, clock, wakeAt } = this.owner;
    const { id, key, destination, attempt, attemptsBefore, since } = entry;
    const wasAlone = id === this.#readLoner();
    const isCounted = wasAlone || isEndpoint(key);
    // Beside others it becomes a suspect, and no more than that.
    const lost = isCounted
      ? entry.lost + 1
      : Math.max(entry.lost, Math.min(entry.lost + 1, SUSPECT_AFTER));
    const tried = { attempts: attempt - attemptsBefore, since, lost, wasAlone };
    const next = afterLost(tried, policyOf(destination.policy, limits.policy), clock);
    if ("givenUp" in next) return this.#bury(entry, attempt, next.givenUp);
    // Once for each suspect: the first loss may be a deploy's, and a dead letter tells of the last one.
    if (lost === SUSPECT_AFTER && entry.lost < lost && !isEndpoint(key)) {
      console.warn(`[perdure] the object did not survive delivery ${id} twice: it is tried alone`);
    }
    const why = "The object may not have survived the attempt";
    store.lost(id, { dueAt: next.dueAt, lost, isFree: !wasAlone }, why);
    wakeAt(next.dueAt);
    this.owner.putOff(entry);
    return undefined;
  }

  #bury({ id }: Entry, attempts: number, why: string): undefined {
    this.owner.deadLetters.bury(id, attempts, why, this.owner.clock.now());
    this.owner.died();
  }

  /**
   * Whether an earlier life may have ended in the middle of this attempt, which
   * then counts. A first attempt is not noted before it begins; of those of a
   * destination, only the first in line can have been under way.
   */
  #isLost({ id, key, isBegun, attempt, attemptsBefore, dueAt, lost }: Entry): boolean {
    if (!isBegun || dueAt >= this.#bornAt) return false;
    const loner = this.#readLoner();
    if (loner !== null) return id === loner;
    const isFirst = attempt === attemptsBefore + 1 && lost === 0;
    if (isFirst && this.#doubted.has(key)) return false;
    this.#doubted.add(key);
    return true;
  }

  #readLoner(): string | null {
    if (this.#loner === undefined) this.#loner = this.owner.store.loner() ?? null;
    return this.#loner;
  }
}
