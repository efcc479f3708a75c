/**
 * One attempt to deliver an entry: claim it, send it, store the outcome.
 *
 * The claim also finds attempts that a crash of the object interrupted. Any delivery in flight may have caused the
 * crash, so such an attempt backs off and is not counted. After two of them in a row the entry is a suspect: it is tried
 * alone, and then a crash counts against it. A webhook is never a suspect, because a request cannot crash its sender.
 *
 * An adapter whose receiver does not recognize a repetition marks its attempt before the request leaves. If the outcome of
 * that attempt never becomes known, the entry becomes a dead letter: a person decides whether it is sent again.
 */

import { TimeoutError, withTimeout } from "../../core/clock.ts";
import { because, type Failure, failureOf, transientOf } from "../../core/failures.ts";
import { byteLength } from "../../core/json.ts";
import { inSpan, type SpanAttributes } from "../../core/spans.ts";
import type { WorkLoop } from "../../engine/work-loop.ts";
import type { AttemptContext, Delivery, ReferencedDelivery } from "../destinations/adapter.ts";
import type { Destinations } from "../destinations/index.ts";
import { isUndeliverable, NotNeededError, RefusedError } from "../errors.ts";
import { submissionOf } from "../event.ts";
import type { OutboxLimits } from "../options.ts";
import type { OutboxEntry } from "../store/entries.ts";
import { SUSPECT_AFTER } from "../store/entries.ts";
import type { Stores } from "../store/stores.ts";
import type { DeadLetterNotifier } from "./dead-letter-notifier.ts";
import { afterInterruption, nextAttempt, type Policy, policyOf } from "./policy.ts";
import type { ReadyQueue } from "./ready-queue.ts";
import type { Reports } from "./reports.ts";
import { isWebhookKey, PreemptedError, type Slots } from "./slots.ts";

/** A longer Retry-After is cut to this. */
const MAX_RETRY_AFTER_MS = 86_400_000;
/** Bytes that a delivery adds to its event; the limits of the adapters leave room for a little more. */
const ENVELOPE_BYTES = 1_024;

/** The remedy for a dead letter that may have arrived. */
const MAY_HAVE_ARRIVED =
  "It may have been delivered: check that, then send it again with outbox.redrive(id), or delete it with outbox.deleteDeadLetter(id)";

type Sent =
  | { readonly isWhole: boolean }
  | { readonly error: unknown; readonly unsureSince: number | null };

export class AttemptRunner {
  /** Destinations whose entry was found that the earlier object instance may have attempted last. */
  readonly #checkedKeys = new Set<string>();
  /** The entry that ran alone when the object crashed; null: none; undefined: not read yet. */
  #interruptedAlone: string | null | undefined;

  constructor(
    private readonly loop: WorkLoop,
    private readonly stores: Stores,
    private readonly destinations: Destinations,
    private readonly limits: OutboxLimits,
    private readonly reports: Reports,
    private readonly queue: ReadyQueue,
    private readonly slots: Slots,
    private readonly notifier: DeadLetterNotifier,
  ) {}

  /**
   * @param isAlone whether no other attempt is in flight, and none starts until this one has ended
   * @param preempted rejects when another endpoint needs the slot
   * @throws what storage throws; the entry is then found again by a later wake
   */
  async run(id: string, isAlone: boolean, preempted: Promise<never>): Promise<void> {
    const entry = this.#claim(id, isAlone);
    if (!entry) return;
    const sent = await this.#send(entry, preempted);
    if (!("error" in sent)) this.#delivered(entry, sent.isWhole);
    else if (sent.error instanceof NotNeededError) this.#discard(entry, sent.error.message);
    else this.#failed(entry, sent.error, sent.unsureSince);
  }

  /** Counts the attempt and returns the entry; undefined where it is not to be attempted now. */
  #claim(id: string, isAlone: boolean): OutboxEntry | undefined {
    const { entries } = this.stores;
    const { clock } = this.loop;
    const entry = entries.get(id);
    // It can be queued twice: its transaction was rolled back and repeated, and the first attempt has failed.
    if (!entry || entry.dueAt > clock.now()) return undefined;
    const wasInterrupted = this.#wasInterrupted(entry);
    if (this.#isDisabled(entry)) {
      const attempts = wasInterrupted ? entry.attempt : entry.attempt - 1;
      this.#bury(id, attempts, { message: "The endpoint is disabled" }, false);
      return undefined;
    }
    if (!this.#mayRepeat(entry, entry.unsureSince, clock.now())) {
      const attempts = entry.isStarted ? entry.attempt : entry.attempt - 1;
      const message = "The object was restarted, or was not awake, before the outcome was known";
      this.#bury(id, attempts, { message }, true);
      return undefined;
    }
    if (wasInterrupted) {
      this.#interrupted(entry);
      return undefined;
    }
    // Read it before this object instance marks an entry as alone itself.
    if (isAlone) this.#readInterruptedAlone();
    // The insert has counted the first attempt already.
    if (!entry.isStarted || isAlone) entries.start(id, entry.attempt, isAlone);
    return entry;
  }

  /**
   * Whether a crash may have interrupted the attempt with this number. A first attempt starts without a write, so of the
   * first attempts of one destination only the first in the queue can have been in flight.
   */
  #wasInterrupted(entry: OutboxEntry): boolean {
    const { id, key, isStarted, attempt, earlierAttempts, dueAt, interruptions } = entry;
    if (!isStarted || dueAt >= this.loop.startedAt) return false;
    const alone = this.#readInterruptedAlone();
    if (alone !== null) return id === alone;
    const isFirst = attempt === earlierAttempts + 1 && interruptions === 0;
    if (isFirst && this.#checkedKeys.has(key)) return false;
    this.#checkedKeys.add(key);
    return true;
  }

  #readInterruptedAlone(): string | null {
    if (this.#interruptedAlone === undefined) {
      this.#interruptedAlone = this.stores.entries.startedAlone() ?? null;
    }
    return this.#interruptedAlone;
  }

  /** waiting → waiting, later, or → dead: a crash may have interrupted the attempt. */
  #interrupted(entry: OutboxEntry): void {
    const { entries } = this.stores;
    const { clock, wake } = this.loop;
    const { id, key, attempt } = entry;
    const wasAlone = id === this.#readInterruptedAlone();
    const isCounted = wasAlone || isWebhookKey(key);
    // Beside others it becomes a suspect, and no more than that.
    const interruptions = isCounted
      ? entry.interruptions + 1
      : Math.max(entry.interruptions, Math.min(entry.interruptions + 1, SUSPECT_AFTER));
    const tried = { ...triedOf(entry), interruptions, wasAlone };
    const next = afterInterruption(tried, this.#policyOf(entry), clock);
    if ("givenUp" in next) {
      const failure = { message: next.givenUp, cause: { code: "crashed" } } as const;
      this.#bury(id, attempt, failure, entry.unsureSince !== null);
      return;
    }
    // Once for each suspect: a deploy may cause the first interruption, and a dead letter reports the last.
    if (
      interruptions === SUSPECT_AFTER &&
      entry.interruptions < interruptions &&
      !isWebhookKey(key)
    ) {
      console.warn(`[perdure] the object did not survive delivery ${id} twice: it is tried alone`);
    }
    const error = "The object may not have survived the attempt";
    entries.interrupted(id, next.dueAt, interruptions, !wasAlone, error);
    wake.request(next.dueAt);
    if (entry.isOrdered) this.queue.drop(key);
  }

  async #send(entry: OutboxEntry, preempted: Promise<never>): Promise<Sent> {
    const { destinations, loop } = this;
    const { key, destination } = entry;
    const abort = new AbortController();
    let { unsureSince } = entry;
    const attempt: AttemptContext = {
      createdAt: entry.createdAt,
      isRepeated: entry.attempt > 1 || unsureSince !== null,
      traceparent: entry.traceParent,
      markSending: async () => {
        abort.signal.throwIfAborted();
        const now = loop.clock.now();
        this.stores.entries.unsure(entry.id, now);
        unsureSince ??= now;
        // Stored before the request leaves, also where the receiver is in this process.
        await loop.lifecycle.storage.sync();
        abort.signal.throwIfAborted();
      },
    };
    try {
      const adapter = destinations.adapterOf(destination);
      const { name } = destinations.host as { readonly name?: unknown };
      const delivery = deliveryOf(entry, adapter.maxBytes, name);
      // The platform holds back requests until writes are durable. A method call is not held back.
      if (destination.kind === "method") await loop.lifecycle.storage.sync();
      this.reports.attempt("outbox:attempt", entry);
      const sending = inSpan("perdure.deliver", spanOf(entry), () =>
        adapter.deliver(destination, delivery, abort.signal, attempt),
      );
      const timeoutMs = this.#policyOf(entry).timeoutMs ?? adapter.timeoutMs;
      await withTimeout(Promise.race([sending, preempted]), timeoutMs);
      this.slots.responded(key);
      return { isWhole: "event" in delivery };
    } catch (error) {
      if (error instanceof TimeoutError || error instanceof PreemptedError) {
        this.slots.timedOut(key);
        return { error: because(error, "too-late"), unsureSince };
      }
      this.slots.responded(key);
      return { error, unsureSince };
    } finally {
      abort.abort();
    }
  }

  /** waiting → delivered. */
  #delivered(entry: OutboxEntry, isWhole: boolean): void {
    const { entries, ended, endpoints } = this.stores;
    this.reports.attempt("outbox:delivered", entry);
    const { key, destination } = entry;
    const isTelemetry = this.destinations.isTelemetry(destination);
    const isKept = (this.limits.kept.all && !isTelemetry) || !isWhole;
    entries.left(ended.delivered(entry, { isKept, isWhole }, this.loop.clock.now()));
    if (destination.kind === "webhook" && endpoints.succeeded(key)) {
      this.reports.endpoint(destination.url, "healthy");
    }
  }

  /** waiting → discarded: the receiver has ended and does not need it. */
  #discard(entry: OutboxEntry, reason: string): void {
    this.reports.discarded(entry, reason);
    const { entries, ended } = this.stores;
    entries.left(ended.discard(entry, reason, this.loop.clock.now()));
    if (entry.isOrdered) this.queue.drop(entry.key);
  }

  /**
   * waiting → waiting, later, or → dead.
   *
   * @param sentSince when an attempt was marked whose outcome was not known, this one included; null: there was none
   */
  #failed(entry: OutboxEntry, error: unknown, sentSince: number | null): void {
    const { entries } = this.stores;
    const { clock, wake } = this.loop;
    const failure = failureOf(error);
    const now = clock.now();
    const isRefused = error instanceof RefusedError;
    const retryAfterMs = isRefused ? error.retryAfterMs : transientOf(error, now)?.retryAfterMs;
    const heldUntil = retryAfterMs ? now + Math.min(retryAfterMs, MAX_RETRY_AFTER_MS) : null;
    if (isRefused && heldUntil !== null) this.#hold(entry.key, heldUntil - now);
    const isCertain = isRefused || isUndeliverable(error);
    const unsureSince = isCertain ? entry.unsureSince : sentSince;
    const isFinal =
      isUndeliverable(error) ||
      this.#isDisabled(entry) ||
      !this.#mayRepeat(entry, unsureSince, now);
    const tried = { ...triedOf(entry), isCounted: !(error instanceof PreemptedError) };
    const next = isFinal
      ? { givenUp: "" }
      : nextAttempt(tried, this.#policyOf(entry), clock, heldUntil);
    if ("dueAt" in next) {
      entries.retryAt(entry.id, next.dueAt, failure, unsureSince);
      wake.request(next.dueAt);
    } else {
      const { message } = failure;
      const reason = next.givenUp ? `${next.givenUp}: ${message}` : message;
      if (this.destinations.isTelemetry(entry.destination)) {
        this.reports.dropped(entry.destination, reason);
        this.#discard(entry, reason);
      } else {
        const last = { ...failure, message: reason };
        this.#bury(entry.id, entry.attempt, last, unsureSince !== null, now);
      }
    }
    // The entries behind it may have to wait for it now: read them again.
    if (entry.isOrdered) this.queue.drop(entry.key);
    this.#updateEndpoint(entry, error, now, heldUntil);
  }

  /**
   * What a failure means for the whole endpoint. A permanent refusal concerns the event alone, unless the endpoint is gone.
   *
   * @param now the time of the dead letter as well: enabling the endpoint redrives dead letters since then
   */
  #updateEndpoint(
    { key, destination }: OutboxEntry,
    error: unknown,
    now: number,
    heldUntil: number | null,
  ): void {
    if (destination.kind !== "webhook") return;
    const { endpoints, entries } = this.stores;
    const { url } = destination;
    const failure = failureOf(error);
    const { message } = failure;
    if (!isUndeliverable(error)) {
      if (heldUntil !== null) this.queue.drop(key);
      if (endpoints.failed(key, url, failure, now, heldUntil)) {
        this.reports.endpoint(url, "failing", message);
      }
    } else if (error.isGone) {
      endpoints.disable(key, url, failure, now);
      entries.retryAllNow(key, now);
      this.queue.clear();
      this.reports.endpoint(url, "disabled", message);
    }
  }

  /** waiting → dead. */
  #bury(
    id: string,
    attempts: number,
    { message, cause }: Pick<Failure, "message" | "cause">,
    isUncertain: boolean,
    now = this.loop.clock.now(),
  ): void {
    const shown = isUncertain ? `${message}. ${MAY_HAVE_ARRIVED}` : message;
    const { ended, entries } = this.stores;
    entries.left(ended.bury(id, attempts, { message: shown, cause }, isUncertain, now));
    this.notifier.added();
  }

  /** Nothing is sent to the destination for a time. Kept in memory: a restart costs one more refusal. */
  #hold(key: string, ms: number): void {
    const { loop } = this;
    loop.wake.request(loop.pause(key, ms));
    this.queue.drop(key);
  }

  /** Whether an earlier attempt had no effect, or the receiver recognizes a repetition at this time, or none is feared. */
  #mayRepeat(entry: OutboxEntry, unsureSince: number | null, now: number): boolean {
    if (unsureSince === null || this.#policyOf(entry).mayRepeat) return true;
    return now - unsureSince < this.destinations.repeatableMsOf(entry.destination);
  }

  #isDisabled({ key, destination }: OutboxEntry): boolean {
    return destination.kind === "webhook" && this.stores.endpoints.isDisabled(key);
  }

  #policyOf({ destination }: OutboxEntry): Policy {
    return policyOf(destination.policy, this.limits.policy);
  }
}

function spanOf({ id, attempt, destination }: OutboxEntry): SpanAttributes {
  return {
    "perdure.delivery.id": id,
    "perdure.delivery.attempt": attempt,
    "perdure.destination.kind": destination.kind,
    "perdure.submission.id": submissionOf(id),
  };
}

function triedOf({ attempt, earlierAttempts, queuedAt }: OutboxEntry) {
  return { attempts: attempt - earlierAttempts, queuedAt };
}

/** The event whole, or a reference to it where the destination does not take so much. */
function deliveryOf(
  { id, attempt, payload }: OutboxEntry,
  maxBytes: number,
  sender: unknown,
): Delivery | ReferencedDelivery {
  const limit = maxBytes - ENVELOPE_BYTES;
  // A code unit is at most three bytes: most events need not be measured.
  const isSmall = payload.length * 3 <= limit;
  const bytes = isSmall ? 0 : byteLength(payload);
  if (isSmall || bytes <= limit) return { id, attempt, event: JSON.parse(payload) as unknown };
  return { id, attempt, reference: { bytes, ...(typeof sender === "string" && { sender }) } };
}
