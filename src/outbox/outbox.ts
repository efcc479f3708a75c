/**
 * The outbox: events that committed together with what they report, delivered
 * at least once (O1-O5). This file has the public verbs; the engine keeps it
 * going, the stores write, an adapter knows the destination.
 */

import { Capability } from "../core/capability.ts";
import { type Clock, monotonic, systemClock } from "../core/clock.ts";
import type { Instant } from "../core/instant.ts";
import { type Json, preview } from "../core/json.ts";
import { withTimeout } from "../core/timeout.ts";
import type { Wake } from "../core/wake.ts";
import { type AdapterOverrides, Adapters } from "./destinations/destinations.ts";
import { isStart } from "./destinations.ts";
import { Engine } from "./engine.ts";
import { InvalidDestinationError, InvalidFilterError } from "./errors.ts";
import { deliveryId, payloadOf } from "./event.ts";
import { checkFilter, checkId, checkList, checkReason, readListed, timeOf } from "./filters.ts";
import { type OutboxLimits, type OutboxSettings, readSettings } from "./options.ts";
import type { Selection } from "./store/dead-letters.ts";
import { listDeliveries } from "./store/listing.ts";
import type {
  DeadLetterFilter,
  DeadLetterPage,
  DeliveryPage,
  DeliveryState,
  Destination,
  Endpoint,
  ListDeadLettersOptions,
  ListDeliveriesOptions,
  OutboxStats,
  StartWorkflow,
  WorkflowStart,
  WorkflowStartEvent,
} from "./types.ts";

const DEFAULT_LIMIT = 100;
/** How long the platform may take to tell the status of a workflow: a person may be waiting for the answer. */
const STATUS_MS = 5_000;

export type OutboxOptions = OutboxSettings & {
  /** The object that the outbox belongs to: whose methods `method()` names. */
  readonly host: object;
  /** Its bindings. */
  readonly env: object;
  readonly clock?: Clock;
  /** Other ways to tell a kind of destination. */
  readonly adapters?: AdapterOverrides;
  /**
   * How a Workflow instance is started.
   * @default `create()` of the binding
   */
  readonly startWorkflow?: StartWorkflow;
  /** What is wrong with a start, to be read after "The workflow"; undefined for one that {@link Outbox.put} takes. */
  readonly problemOfStart?: (event: WorkflowStartEvent) => string | undefined;
};

export class Outbox extends Capability {
  /** Tells this instance of the object from those before and after a restart. */
  readonly #life = crypto.randomUUID();
  readonly #clock: Clock;
  readonly #limits: OutboxLimits;
  readonly #adapters: Adapters;
  readonly #engine: Engine;
  readonly #problemOfStart: OutboxOptions["problemOfStart"];

  /**
   * Install it in the constructor of an agent, or of a Durable Object with a Lifecycle:
   * `this.lifecycle.use(this.outbox)`.
   *
   * @throws InvalidOptionError for an option that cannot be meant
   */
  constructor(options: OutboxOptions) {
    const {
      host,
      env,
      clock = systemClock,
      adapters,
      startWorkflow,
      problemOfStart,
      ...settings
    } = options;
    super("perdure.outbox");
    // An entry that seems to come from before this life, or from later than now, would be taken for a crash or left lying.
    this.#clock = monotonic(clock);
    this.#limits = readSettings(settings);
    this.#problemOfStart = problemOfStart;
    this.#adapters = new Adapters({
      host,
      env,
      now: clock.now,
      allowPrivateAddresses: this.#limits.allowPrivateAddresses,
      inHostContext: <T>(work: () => Promise<T>) =>
        this.lifecycle.runInHostContext(work) as Promise<T>,
      life: this.#life,
      startWorkflow,
      overrides: adapters,
    });
    this.#engine = new Engine({
      host,
      clock: this.#clock,
      limits: this.#limits,
      adapters: this.#adapters,
      onDeadLetter: settings.onDeadLetter,
      onProblem: settings.onProblem,
      lifecycle: () => this.lifecycle,
    });
  }

  override async onStart(): Promise<void> {
    await super.onStart();
    await this.#engine.start();
  }

  protected override get wake(): Wake {
    return this.#engine.wake;
  }

  /**
   * Stores an event for a destination, and begins to deliver it once the code
   * that has called this has come to its next `await`. Within
   * `ctx.storage.transactionSync()` it commits or is rolled back with the rest
   * (O1). An asynchronous `transaction()` is no place for it: what is delivered
   * in the middle of one could still be rolled back.
   *
   * @param event what is told: anything that JSON can hold
   * @param options.id the delivery id: put again while it waits, or as a dead letter, it is the same event,
   *   and stays as it is. A new one by default
   * @returns the delivery id
   * @throws InvalidDestinationError for a destination to which nothing can be sent; nothing is stored then
   * @throws InvalidEventError for an event that JSON cannot hold, or that is too large, or an id that
   *   is that of an event for another destination
   * @throws OutboxFullError when `maxWaiting` entries wait; nothing is stored then
   */
  put(destination: Destination, event: unknown, options?: { id?: string }): string;
  /**
   * Starts a Workflow instance in the same way: once, when the caller's transaction has committed.
   *
   * @returns the delivery id
   * @throws InvalidDestinationError, InvalidEventError; nothing is stored then
   * @example this.outbox.put(workflow("ORDER_WORKFLOW", { id: order.id, params: order }))
   */
  put(start: WorkflowStart): string;
  put(
    to: Destination | WorkflowStart,
    event?: unknown,
    options: { id?: string } | undefined = {},
  ): string {
    if (isStart(to)) {
      const wrong = this.#problemOfStart?.(to.event);
      if (wrong) throw new InvalidDestinationError(`The workflow ${wrong}`);
      return this.put(to.destination, { ...to.event, life: this.#life }, { id: to.id });
    }
    const destination = to;
    const problem = this.problemOf(destination);
    if (problem) throw new InvalidDestinationError(`The destination ${problem}`);
    const payload = payloadOf(event, this.#limits.maxEventBytes);
    const id = deliveryId(options);
    this.#engine.put(id, destination, payload, true);
    this.#engine.flushSoon();
    return id;
  }

  /** What is wrong with a destination, to be read after its name; undefined for one that {@link put} takes. */
  problemOf(destination: unknown): string | undefined {
    return this.#adapters.problemOf(destination);
  }

  /**
   * {@link inspect} at once, within the caller's transaction.
   *
   * @internal
   */
  stateOf(id: string): DeliveryState | null {
    return this.#engine.store.inspect(id);
  }

  /**
   * Whether nobody is there to be told, and nobody wants what it would be told: a Workflow instance that was
   * terminated, or is gone. False for all other kinds.
   *
   * @throws what the platform throws when it cannot tell, or an Error when it does not answer within 5 seconds
   * @internal
   */
  async isGone(destination: Destination): Promise<boolean> {
    const answer = this.#adapters.of(destination).isGone?.(destination);
    return answer === undefined ? false : withTimeout(answer, STATUS_MS);
  }

  /**
   * {@link put} for a room of Perdure that has checked the destination before,
   * and that calls {@link flush} after its commit. Taken even when the outbox is full, so that the end of
   * what was accepted always commits.
   *
   * @param payload the event as JSON
   * @internal
   */
  enqueue(id: string, destination: Destination, payload: string): void {
    this.#engine.put(id, destination, payload, false);
  }

  /**
   * Starts to deliver what has been committed, now and without waiting for it (O2).
   *
   * @param nextWake when this object is woken anyway, or null. Where that is soon enough to
   *   find what a crash would leave behind, the outbox takes no wake of its own, which saves a
   *   row and an alarm on each event; the caller keeps that wake while {@link isBusy}.
   * @internal
   */
  flush(nextWake: number | null = null): void {
    this.#engine.flush(nextWake);
  }

  /**
   * Whether a delivery is under way.
   *
   * @internal
   */
  get isBusy(): boolean {
    return this.#engine.isBusy;
  }

  /**
   * Lists deliveries, the newest first, without their events. One that changes its state between two pages may be left
   * out of the second. Those of a submission are found by an index; those that wait are read through.
   *
   * @throws InvalidFilterError for an option or a value that there is none of
   * @example const { deliveries, cursor } = await this.outbox.listDeliveries({ state: "waiting", kind: "webhook" })
   */
  async listDeliveries(options: ListDeliveriesOptions = {}): Promise<DeliveryPage> {
    const listed = readListed(options, this.#adapters.kinds);
    const { limit = DEFAULT_LIMIT, cursor, destination } = options;
    const { key } = this.#selection(destination ? { destination } : {});
    await this.#ready();
    return listDeliveries(this.lifecycle.storage.sql, { ...listed, key }, limit, cursor);
  }

  /** Where the event with this delivery id is; null for one that is unknown, or delivered and not kept. */
  async inspect(id: string): Promise<DeliveryState | null> {
    checkId("inspect()", id);
    return (await this.#ready()).store.inspect(id);
  }

  /** The whole event with this delivery id, for who got a reference to it (O4); null for an unknown one. */
  async read<Event = Json>(id: string): Promise<Event | null> {
    checkId("read()", id);
    const payload = (await this.#ready()).store.read(id);
    return payload === undefined ? null : (JSON.parse(payload) as Event);
  }

  /** How much waits, and how much was given up. */
  async stats(): Promise<OutboxStats> {
    const { store, deadLetters } = await this.#ready();
    const { waiting, oldestAt } = store.stats();
    const dead = deadLetters.count({ key: undefined, since: 0 });
    return { waiting, ...(oldestAt !== null && { oldestAt }), deadLetters: dead };
  }

  /**
   * Entries that were given up, newest first (O3).
   *
   * @throws InvalidFilterError for what cannot be meant
   */
  async listDeadLetters(options: ListDeadLettersOptions = {}): Promise<DeadLetterPage> {
    checkList(options);
    const { deadLetters } = await this.#ready();
    const { limit = DEFAULT_LIMIT, cursor } = options;
    return deadLetters.list(this.#selection(options), limit, cursor);
  }

  /** @throws InvalidFilterError for what cannot be meant */
  async countDeadLetters(filter: DeadLetterFilter = {}): Promise<number> {
    checkFilter("countDeadLetters()", filter);
    return (await this.#ready()).deadLetters.count(this.#selection(filter));
  }

  /**
   * Tries one again now: a dead letter, with the attempts of a new entry and
   * the id that it had (O3), or one that waits for its next attempt.
   *
   * @returns whether it is sent: false for an unknown id, and for a dead letter of a disabled endpoint
   */
  async redrive(id: string): Promise<boolean> {
    checkId("redrive()", id);
    const { deadLetters, store } = await this.#ready();
    const now = this.#clock.now();
    const isThere = deadLetters.redrive(id, now) || store.hasten(id, now);
    if (isThere) this.#engine.flushAgain();
    return isThere;
  }

  /**
   * Tries again what was given up at `since` or later, or for a destination, or both; all, where nothing is said.
   *
   * @returns how many are sent: those of disabled endpoints stay dead letters
   * @throws InvalidFilterError for what cannot be meant
   */
  async redriveAll(filter: DeadLetterFilter = {}): Promise<number> {
    checkFilter("redriveAll()", filter);
    const { deadLetters } = await this.#ready();
    const count = deadLetters.redriveAll(this.#selection(filter), this.#clock.now());
    if (count > 0) this.#engine.flushAgain();
    return count;
  }

  /** Forgets a dead letter for good. Returns whether there was one. */
  async deleteDeadLetter(id: string): Promise<boolean> {
    checkId("deleteDeadLetter()", id);
    return (await this.#ready()).deadLetters.delete(id);
  }

  /**
   * Forgets dead letters that were given up before a time for good. Returns how many.
   *
   * @throws InvalidFilterError for what is no time
   */
  async deleteDeadLetters(options: { before: Instant }): Promise<number> {
    const time = timeOf("before", options?.before);
    return (await this.#ready()).deadLetters.deleteBefore(time);
  }

  /** The webhooks' URLs that are not healthy. */
  async listEndpoints(): Promise<Endpoint[]> {
    return (await this.#ready()).endpoints.list();
  }

  /** The state of a webhook's URL. */
  async inspectEndpoint(url: string): Promise<Endpoint> {
    return (await this.#ready()).endpoints.get(this.#endpointKey(url), url);
  }

  /** Sends nothing more to a URL: what is for it becomes a dead letter, until it is enabled. */
  async disableEndpoint(url: string, reason = "The endpoint was disabled by hand"): Promise<void> {
    checkReason(reason);
    const { endpoints, store } = await this.#ready();
    const key = this.#endpointKey(url);
    endpoints.disable(key, url, reason, this.#clock.now());
    store.dueNow(key, this.#clock.now());
    this.#engine.changed(url, "disabled", reason);
    // What waits for it is given up now, and not when its time would have come.
    this.#engine.flushAgain();
  }

  /**
   * Sends to a URL again, beginning with what waits for it and what was given
   * up since it began to fail. Returns how many the latter are.
   */
  async enableEndpoint(url: string): Promise<number> {
    const { endpoints, deadLetters, store } = await this.#ready();
    const key = this.#endpointKey(url);
    const since = endpoints.enable(key);
    if (since === undefined) return 0;
    this.#engine.enabled(key);
    store.dueNow(key, this.#clock.now());
    const count = deadLetters.redriveAll({ key, since }, this.#clock.now());
    this.#engine.changed(url, "healthy");
    this.#engine.flushAgain();
    return count;
  }

  async #ready(): Promise<Engine> {
    await this.lifecycle.ready();
    return this.#engine;
  }

  /** @throws InvalidFilterError for what is no destination */
  #selection({ since, destination }: DeadLetterFilter): Selection {
    const malformed = this.#adapters.problemOfTexts(destination);
    if (malformed) throw new InvalidFilterError(`destination ${malformed}`);
    try {
      const key = destination && this.#adapters.keyOf(destination);
      return { key, since: since === undefined ? 0 : timeOf("since", since) };
    } catch (error) {
      throw new InvalidFilterError(
        `destination is ${preview(withoutSecrets(destination))}; expected what webhook(), queue(), method(), agent() or workflowEvent() returns.`,
        { cause: error },
      );
    }
  }

  /** @throws InvalidDestinationError for what is no URL */
  #endpointKey(url: string): string {
    const malformed = this.#adapters.problemOfTexts({ url });
    if (malformed) throw new InvalidDestinationError(`The endpoint ${malformed}`);
    if (URL.canParse(url)) return this.#adapters.keyOf({ kind: "webhook", url, secrets: [] });
    throw new InvalidDestinationError(
      `${JSON.stringify(url)} is no URL; expected that of a webhook, e.g. "https://example.com/hook".`,
    );
  }
}

/** A secret itself may stand where its name is expected. */
function withoutSecrets(destination: unknown): unknown {
  if (typeof destination !== "object" || destination === null) return destination;
  return { ...destination, secrets: undefined };
}
