/**
 * The log of arrivals, with its public verbs. It needs no wake: an arrival is accepted within one request, its
 * sender or a replay repeats a request that a crash has interrupted, and old rows are deleted while new ones are stored.
 */

import { LifecycleCapability } from "agents/lifecycle";
import { type Clock, systemClock } from "../../core/clock.ts";
import { type Failure, failureOf } from "../../core/failures.ts";
import { hook, readOptions } from "../../core/options/option-schemas.ts";
import type { Page } from "../../engine/page.ts";
import { Acceptor, type AcceptorOptions, type Replay, refusal } from "./acceptance.ts";
import { replayIdOf, withWaits } from "./calls.ts";
import { InboundBusyError, ReplayError, unknownSource } from "./errors.ts";
import { type InboundFacts, inboundFacts } from "./facts.ts";
import { handlers, type Offered, offer } from "./offer.ts";
import {
  ARRIVALS,
  checkRef,
  type Limits,
  type Matches,
  REPLAYS,
  type RecentOptions,
  readPage,
  readRefused,
  readReplay,
  readRequest,
  readSettings,
  type Selection,
} from "./options.ts";
import type {
  Acceptance,
  AcceptRequest,
  RawArrival,
  RefusedRequests,
  WaitedArrival,
} from "./protocol.ts";
import { addRefused } from "./refusals.ts";
import { Serial } from "./serial.ts";
import { InboundStore, MAX_SCANNED, type StoredArrival } from "./store.ts";
import type {
  InboundSettings,
  InspectedArrival,
  ListInboundOptions,
  LoggedArrival,
  ReplayFilter,
  ReplayPage,
  ReplayResult,
  WaitMatch,
} from "./types.ts";

export type InboundOptions = InboundSettings & AcceptorOptions & { readonly clock?: Clock };

const ON_PROBLEM = hook().optional();
/** Rows that one count reads. */
const MAX_COUNTED = 10 * MAX_SCANNED;

/** How a replay has ended, and the arrival that it was. */
type Replayed = { readonly offered: Offered; readonly arrival: RawArrival };

export class Inbound extends LifecycleCapability {
  readonly #limits: Limits;
  readonly #clock: Clock;
  readonly #serial: Serial;
  /** Replays in flight, by the arrival's `seq`. */
  readonly #replays = new Map<number, Promise<Replayed>>();
  readonly #acceptor: Acceptor;
  #opened: InboundStore | undefined;

  /** @throws InvalidOptionError */
  constructor({
    agent,
    verbs,
    matchWaits,
    onProblem,
    clock = systemClock,
    ...settings
  }: InboundOptions) {
    super("perdure.inbound");
    readOptions(ON_PROBLEM, onProblem, "onProblem");
    this.#limits = readSettings(settings);
    this.#clock = clock;
    this.#serial = new Serial(this.#limits.maxInFlight);
    const options = {
      agent,
      ...(verbs && { verbs }),
      ...(matchWaits && { matchWaits }),
      ...(onProblem && { onProblem }),
    };
    this.#acceptor = new Acceptor(
      options,
      clock,
      () => this.lifecycle,
      () => this.#store,
    );
  }

  /**
   * Accepts an arrival, and runs a call of its handler in the same transaction. What the call throws is in the answer.
   *
   * @param replay set where the request is one of a replay
   * @throws InvalidArrivalError for an invalid request; nothing is stored
   * @throws the error of storage; nothing is stored, and the sender may send the arrival again
   */
  async accept(request: AcceptRequest, replay?: Replay): Promise<Acceptance> {
    const read = readRequest(request);
    await this.lifecycle.ready();
    const { source, id } = read.arrival;
    try {
      return await this.#serial.run(`${source}:${id}`, () => this.#acceptor.accept(read, replay));
    } catch (error) {
      // Nothing is stored: a body would take the memory that there is too little of.
      if (error instanceof InboundBusyError) return refusal(error);
      throw error;
    }
  }

  /** Counts requests that a receiver has refused. @throws InvalidArrivalError */
  async countRefused(request: RefusedRequests): Promise<void> {
    const refused = readRefused(request);
    await this.lifecycle.ready();
    // The store makes the table.
    addRefused(this.#store.storage, refused, this.#clock.now());
  }

  /** Arrivals in the log, newest first, without their bodies. @throws InvalidFilterError */
  async list(options: ListInboundOptions = {}): Promise<Page<LoggedArrival>> {
    const { selection, limit, cursor } = readPage(options);
    await this.lifecycle.ready();
    const { arrivals, next } = this.#store.list(selection, limit, cursor);
    return {
      items: arrivals.map(shown),
      ...(next !== undefined && { cursor: ARRIVALS.at(next) }),
    };
  }

  /** An arrival with its body; null if it is unknown. @throws InvalidFilterError */
  async inspect(source: string, id: string): Promise<InspectedArrival | null> {
    checkRef("inbound.inspect()", source, id);
    await this.lifecycle.ready();
    const found = this.#store.inspect(source, id);
    return found ? shown(found) : null;
  }

  /**
   * For the waits: the newest arrivals since a time with their bodies, oldest first. They are read one by one. Call it after
   * the start of the object.
   */
  recent({ since, source, limit }: RecentOptions): {
    arrivals: Iterable<WaitedArrival>;
    hasMore: boolean;
  } {
    return this.#store.recent(since, source, limit);
  }

  /** For the waits: a wait that was opened later has received the arrival. Call it in the transaction that closes the wait. */
  recordWait(source: string, id: string, match: WaitMatch): void {
    const known = this.#store.find(source, id);
    if (!known) return;
    const calls = withWaits(known.calls, [match]);
    const decision = {
      verdict: "accepted",
      calls,
      error: known.error,
      hasConflict: false,
    } as const;
    this.#store.decide(known.seq, decision);
  }

  /**
   * Offers an arrival of the log to its handler again. One whose handler has not ended keeps its id, so that what it has
   * started is not started twice; so does a filtered one. An accepted one gets a new id.
   *
   * @returns null for an unknown arrival
   * @throws ReplayError, InvalidFilterError; nothing is stored then
   */
  async replay(source: string, id: string): Promise<ReplayResult | null> {
    checkRef("inbound.replay()", source, id);
    await this.lifecycle.ready();
    const found = this.#store.inspect(source, id);
    if (!found) return null;
    const { offered, arrival } = await this.#replay(found);
    const error = errorOf(offered);
    return { source, id: arrival.id, verdict: offered.verdict, ...(error && { error }) };
  }

  /**
   * {@link replay} of many, one after the other, the oldest first. Stops when the agent has no room.
   *
   * @param matches only those whose failure it returns true for
   * @throws InvalidFilterError
   */
  async replayMany(filter: ReplayFilter = {}, matches?: Matches): Promise<ReplayPage> {
    const { selection, limit, cursor } = readReplay(filter, matches);
    await this.lifecycle.ready();
    // Rows that the replays themselves store are not replayed.
    const { after, until } = cursor ?? { after: 0, until: this.#store.newest };
    const page = this.#store.keys(selection, limit, after, until);
    const failed: { source: string; id: string; error: Failure }[] = [];
    let [replayed, accepted, next] = [0, 0, page.next];
    for (const { seq, source, id } of page.keys) {
      const found = this.#store.inspect(source, id);
      // Deleted, or accepted or replayed by another call meanwhile.
      if (!found || !isSelected(found, selection) || this.#replays.has(seq)) continue;
      replayed++;
      const offered = await this.#replay(found).then(
        (one) => one.offered,
        (error: unknown): Partial<Offered> => ({ error }),
      );
      if (offered.verdict === "accepted") accepted++;
      const error = errorOf(offered);
      if (error) failed.push({ source, id, error });
      if (offered.retryAfter === undefined) continue;
      next = seq - 1;
      break;
    }
    return {
      replayed,
      accepted,
      failed,
      ...(next !== undefined && { cursor: REPLAYS.at(next, until) }),
    };
  }

  /**
   * How many arrivals {@link replayMany} would replay, of at most 100,000 in the log.
   *
   * @returns the first of them, with a `cursor` where the log has more: pass it to continue
   * @throws InvalidFilterError
   */
  async countReplayable(filter: ReplayFilter = {}, matches?: Matches) {
    const { selection, limit, cursor } = readReplay(filter, matches);
    await this.lifecycle.ready();
    const { after: from, until } = cursor ?? { after: 0, until: this.#store.newest };
    let [count, after] = [0, from];
    const first: { source: string; id: string; failure: string }[] = [];
    while (after - from < MAX_COUNTED) {
      const page = this.#store.keys(selection, MAX_SCANNED, after, until);
      count += page.keys.length;
      first.push(...page.keys.slice(0, limit - first.length));
      if (page.next === undefined) return { count, first };
      after = page.next;
    }
    return { count, first, cursor: REPLAYS.at(after, until) };
  }

  /** @throws InvalidFilterError for a filter that no replay takes */
  checkReplay(filter: ReplayFilter): void {
    readReplay(filter);
  }

  /** What a health report knows of the log. */
  async facts(now: number): Promise<InboundFacts> {
    await this.lifecycle.ready();
    return inboundFacts(this.lifecycle.storage.sql, now);
  }

  /** Replays of an arrival at the same time are one. @throws ReplayError, or the error of storage */
  #replay(found: InspectedArrival & StoredArrival): Promise<Replayed> {
    const { seq } = found;
    const running = this.#replays.get(seq) ?? this.#replayOnce(found);
    this.#replays.set(seq, running);
    const forget = () => {
      if (this.#replays.get(seq) === running) this.#replays.delete(seq);
    };
    running.then(forget, forget);
    return running;
  }

  async #replayOnce(found: InspectedArrival & StoredArrival): Promise<Replayed> {
    const { source, id, type, bytes, hash, receivedAt, body, verdict, error, seq } = found;
    const handler = handlers.get(source);
    if (!handler) throw unknownSource(source, id, [...handlers.keys()]);
    if (body === undefined) {
      const problem =
        "its body is not in the log. It was larger than 1.5 MB, or retention.maxBytes has deleted it";
      throw new ReplayError(source, id, `${problem}. Ask the sender to send it again.`);
    }
    const offerAs = async (newId: string, of: string | undefined) => {
      const arrival: RawArrival = { source, id: newId, type, body, bytes, hash, receivedAt };
      const offered = await offer(handler, arrival, {
        callKernel: (_, request) => this.accept(request, { of }),
      });
      if (offered.isUnreachable) throw offered.error;
      return { offered, arrival };
    };
    // Its request may have been cut between two calls: what is recorded is not run again.
    const continued = await offerAs(id, undefined);
    const hasEnded = verdict === "accepted" && error === undefined;
    if (!hasEnded || continued.offered.verdict !== "duplicate") return continued;
    for (;;) {
      const number = this.#store.countReplay(seq);
      // Deleted meanwhile.
      if (number === undefined) return continued;
      const replayId = replayIdOf(id, number);
      // Its sender may have used the id.
      if (!this.#store.find(source, replayId)) return offerAs(replayId, id);
    }
  }

  get #store(): InboundStore {
    this.#opened ??= new InboundStore(this.lifecycle.storage, this.#limits);
    return this.#opened;
  }
}

function isSelected(
  { verdict, error }: StoredArrival,
  { verdicts, isUnfinished }: Selection,
): boolean {
  return isUnfinished ? error !== undefined : (verdicts?.includes(verdict) ?? true);
}

/** Why a replay was refused. */
function errorOf({ verdict, error }: Partial<Offered>): Failure | undefined {
  return verdict === undefined || verdict === "refused" ? failureOf(error) : undefined;
}

/** Without what only the log uses. */
function shown<Arrival extends StoredArrival>(
  arrival: Arrival,
): Omit<Arrival, "seq" | "hasConflict"> {
  const { seq: _, hasConflict: __, ...rest } = arrival;
  return rest;
}
