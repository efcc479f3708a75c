/**
 * The outbox delivers events at least once, and stores them in the transaction of the state that they report. This file
 * has the public verbs. `put()` inserts an entry; delivery/dispatcher.ts starts it, delivery/attempt.ts sends it and
 * stores the outcome.
 */

import { type Clock, monotonic, systemClock, withTimeout } from "../core/clock.ts";
import { type Json, preview } from "../core/json.ts";
import type { Instant } from "../core/options/instant.ts";
import { invalidMessage, objectOf } from "../core/options/options.ts";
import { invalidFilter, type Page, type PageOptions, readFilter } from "../engine/page.ts";
import { Capability } from "../engine/work-loop.ts";
import { Dispatcher } from "./delivery/dispatcher.ts";
import { isOrdered } from "./delivery/policy.ts";
import { Reports } from "./delivery/reports.ts";
import type { DestinationKind } from "./destinations/adapter.ts";
import { type Destination, Destinations, isStart } from "./destinations/index.ts";
import { checkUrl, keyOfEndpoint } from "./destinations/webhook.ts";
import {
  type StartWorkflow,
  startId,
  type WorkflowStart,
  type WorkflowStartDestination,
  type WorkflowStartEvent,
} from "./destinations/workflow-start.ts";
import { InvalidDestinationError, InvalidEventError, OutboxFullError } from "./errors.ts";
import { deliveryId, payloadOf } from "./event.ts";
import {
  checkId,
  checkReason,
  DEAD_LETTER_FILTER,
  DEAD_LETTER_LIST,
  DELIVERY_LIST,
  ENDPOINT_LIST,
  type ReadFilter,
  readBefore,
} from "./filters.ts";
import {
  type KeepLimits,
  type OutboxLimits,
  type OutboxSettings,
  readSettings,
} from "./options.ts";
import { EndedStore, type Selection } from "./store/ended.ts";
import { EndpointStore } from "./store/endpoints.ts";
import { EntryStore } from "./store/entries.ts";
import { listDeliveries } from "./store/listing.ts";
import type { Stores } from "./store/stores.ts";
import type {
  DeadLetter,
  DeadLetterFilter,
  DeliveryInfo,
  DeliveryState,
  Endpoint,
  ListDeadLettersOptions,
  ListDeliveriesOptions,
  OutboxStats,
} from "./types.ts";

/** The time limit for the platform to return the status of a workflow. A person may be waiting for it. */
const STATUS_TIMEOUT_MS = 5_000;

export type OutboxOptions = OutboxSettings & {
  /** The object that has the outbox. `method()` names its methods. */
  readonly host: object;
  /** Its bindings. */
  readonly env: object;
  readonly clock?: Clock;
  /**
   * How a Workflow instance is started and tracked. Its id is then unique over all Workflows.
   * @default `create()` of the binding
   */
  readonly startWorkflow?: StartWorkflow;
  /** What is wrong with a start, as a sentence after "The workflow"; undefined for a valid one. */
  readonly problemOfStart?: (event: WorkflowStartEvent) => string | undefined;
};

export class Outbox extends Capability {
  /** Identifies this instance of the object: another after each restart. */
  readonly #objectInstance = crypto.randomUUID();
  /** @internal */
  readonly destinations: Destinations;
  /** @internal */
  readonly limits: OutboxLimits;
  readonly #reports: Reports;
  #stores: Stores | undefined;
  #dispatching: Dispatcher | undefined;
  readonly #problemOfStart: OutboxOptions["problemOfStart"];
  readonly #tracksWorkflows: boolean;
  #hasReportedFull = false;

  /**
   * Install it in the constructor of an agent, or of a Durable Object with a Lifecycle:
   * `this.lifecycle.use(this.outbox)`.
   *
   * @throws InvalidOptionError for an unknown or invalid option
   */
  constructor(options: OutboxOptions) {
    const {
      host,
      env,
      clock = systemClock,
      startWorkflow,
      problemOfStart,
      ...settings
    } = objectOf("options of Outbox", options);
    // An entry with an earlier time would look interrupted by a crash, one with a later time would wait.
    super("perdure.outbox", monotonic(clock));
    this.limits = readSettings(settings);
    this.#problemOfStart = problemOfStart;
    this.#tracksWorkflows = startWorkflow !== undefined;
    this.destinations = new Destinations({
      host,
      env,
      now: clock.now,
      allowPrivateAddresses: this.limits.allowPrivateAddresses,
      inHostContext: this.loop.inHostContext,
      objectInstance: this.#objectInstance,
      startWorkflow,
      reportProblem: (problem) => this.#reports.problem(problem),
    });
    this.#reports = new Reports(this.loop, this.destinations, settings);
  }

  /** Its tables. The object's storage is there once the capability is installed. @internal */
  get stores(): Stores {
    const { storage } = this.lifecycle;
    this.#stores ??= {
      entries: new EntryStore(storage, () => this.destinations.installed),
      ended: new EndedStore(storage, this.limits.deadLetters),
      endpoints: new EndpointStore(storage.sql),
    };
    // Before the start, a rolled-back transaction may have removed the tables again.
    if (!this.#dispatching?.hasStarted) this.#stores.entries.migrate();
    return this.#stores;
  }

  get #dispatcher(): Dispatcher {
    const { loop, stores, destinations, limits } = this;
    this.#dispatching ??= new Dispatcher(loop, stores, destinations, limits, this.#reports);
    return this.#dispatching;
  }

  override async onStart(): Promise<void> {
    await super.onStart();
    await this.#dispatcher.start();
  }

  protected override async drive(): Promise<number | null> {
    return this.#dispatcher.drive();
  }

  /** Adds kinds of destinations. Call it in the object's constructor, so that stored deliveries find their kind. */
  install(kinds: Readonly<Record<string, DestinationKind>>): void {
    this.destinations.install(kinds);
  }

  /** What a feature puts into the outbox when a submission or a workflow ends, in its transaction. Returns how many entries. @internal */
  atEnd: (ended: { submissionId: string } | { workflowId: string }) => number = () => 0;

  /** Keeps delivered entries, unless the app has said for how long. Call it in the object's constructor. @internal */
  keepDelivered(kept: KeepLimits): void {
    const { limits } = this;
    if (!limits.kept.all) limits.kept = { ...kept, all: true };
  }

  /**
   * Stores an event for a destination. The delivery starts after the caller's synchronous code. Within
   * `ctx.storage.transactionSync()` the event commits or is rolled back with the rest. Do not call it within an
   * asynchronous `transaction()`: the event may be delivered before that is rolled back.
   *
   * @param event anything that JSON can hold
   * @param options.id the delivery id, a new UUID by default. While an entry or a dead letter has this id, another
   *   `put()` changes nothing
   * @returns the delivery id
   * @throws InvalidDestinationError for an invalid destination; nothing is stored
   * @throws InvalidEventError for an event that JSON cannot hold or that is too large, or an id that an event for another
   *   destination has; nothing is stored
   * @throws OutboxFullError when `maxWaiting` entries wait; nothing is stored
   * @throws RootAgentError in a sub-agent whose root cannot wake it; nothing is stored
   */
  put(destination: Destination, event: unknown, options?: { id?: string }): string;
  /**
   * Starts a Workflow instance once the caller's transaction has committed.
   *
   * @returns the delivery id
   * @throws InvalidDestinationError, InvalidEventError; nothing is stored
   * @throws WorkflowExistsError in an agent where a start of another Workflow with this id is stored; nothing is stored
   * @example this.outbox.put(workflow("ORDER_WORKFLOW", { id: order.id, params: order }))
   */
  put(start: WorkflowStart): string;
  put(to: Destination | WorkflowStart, event?: unknown, options: { id?: string } = {}): string {
    if (isStart(to)) {
      const wrong = this.#problemOfStart?.(to.event);
      if (wrong) throw new InvalidDestinationError(`The workflow ${wrong}`);
      const start = { ...to.event, putBy: this.#objectInstance };
      return this.put(to.destination, start, { id: this.startId(to.destination) });
    }
    const problem = this.problemOf(to);
    if (problem) throw new InvalidDestinationError(problem);
    const payload = payloadOf(event);
    const unfit = this.destinations.problemOfEvent(to, payload);
    if (unfit) throw new InvalidEventError(unfit);
    this.wake.check();
    const id = deliveryId(options);
    this.#insert(id, to, payload, true);
    this.#dispatcher.flushSoon();
    return id;
  }

  /**
   * What is wrong with a destination, as a sentence; undefined for a valid one.
   *
   * @param name what the message calls it
   * @param isOfForm whether only its form counts, and neither `env` nor the outbox's options
   */
  problemOf(destination: unknown, name = "destination", isOfForm = false): string | undefined {
    return isOfForm
      ? this.destinations.problemOfForm(destination, name)
      : this.destinations.problemOf(destination, name);
  }

  /** @internal The delivery id of a start of this host. */
  startId(start: WorkflowStartDestination): string {
    return startId(start, this.#tracksWorkflows);
  }

  /**
   * {@link inspect} at once, within the caller's transaction, with the destination.
   *
   * @internal
   */
  infoOf(id: string): DeliveryInfo | null {
    return this.stores.entries.info(id);
  }

  /**
   * How a receiver has ended, or null: a Workflow instance that has completed or failed, or that was terminated or deleted.
   *
   * @throws the platform's error, or an Error after 5 seconds without an answer
   * @internal
   */
  async endOf(destination: Destination): Promise<"ended" | "gone" | null> {
    const answer = this.destinations.adapterOf(destination).endOf?.(destination);
    return answer === undefined ? null : withTimeout(answer, STATUS_TIMEOUT_MS);
  }

  /**
   * {@link put} for a module of Perdure that has checked the destination before, and that calls {@link flush} after its
   * commit. Stores the entry even when the outbox is full: the end of accepted work must commit.
   *
   * @param payload the event as JSON
   * @param traceParent the W3C trace context of its requests
   * @internal
   */
  enqueue(id: string, destination: Destination, payload: string, traceParent?: string): void {
    if (this.destinations.isTelemetry(destination) && this.#isCrowded(destination)) return;
    this.#insert(id, destination, payload, false, traceParent);
  }

  /** Telemetry leaves half of the outbox to the work. */
  #isCrowded(destination: Destination): boolean {
    const { limits } = this;
    const { entries } = this.stores;
    const waiting = entries.countAtLimit(Math.ceil(limits.maxWaiting / 2));
    if (waiting === undefined) return false;
    const reason = `${waiting} entries wait, and traces may use half of maxWaiting, ${limits.maxWaiting}`;
    this.#reports.dropped(destination, reason);
    return true;
  }

  #insert(
    id: string,
    destination: Destination,
    payload: string,
    mayRefuse: boolean,
    traceParent?: string,
  ): void {
    const { limits, loop } = this;
    const { entries } = this.stores;
    const waiting = entries.countAtLimit(limits.maxWaiting);
    // Put again, an entry stays as it is.
    if (waiting !== undefined && !entries.has(id)) this.#full(waiting, mayRefuse);
    const key = this.destinations.keyOf(destination);
    const ordered = isOrdered(destination.policy, limits.policy);
    const entry = { id, key, destination, payload, isOrdered: ordered, traceParent };
    if (entries.put(entry, loop.clock.now())) this.#dispatcher.added(entry);
  }

  #full(waiting: number, mayRefuse: boolean): void {
    const { maxWaiting } = this.limits;
    const full = new OutboxFullError(waiting, maxWaiting);
    if (!this.#hasReportedFull) {
      this.#hasReportedFull = true;
      const message = mayRefuse
        ? full.message
        : `${full.message} Ends of submissions are still stored.`;
      const ids = { waiting, maxWaiting };
      this.#reports.problem({ type: "outbox:full", level: "error", message, ids });
    }
    if (mayRefuse) throw full;
  }

  /**
   * Starts to deliver what has committed, without waiting for it.
   *
   * @internal
   */
  flush(): void {
    this.#dispatcher.flush();
  }

  /**
   * Lists deliveries, newest first, without their events. A delivery that changes its state between two pages may be
   * missing in the second. `submissionId` uses an index; other lists read all waiting entries.
   *
   * @throws InvalidFilterError for an unknown option or an invalid value
   * @example const { items, cursor } = await this.outbox.listDeliveries({ state: "waiting", kind: "webhook" })
   */
  async listDeliveries(options: ListDeliveriesOptions = {}): Promise<Page<DeliveryInfo>> {
    const read = readFilter(DELIVERY_LIST, "listDeliveries()", options);
    const { state, submissionId, kind, destination, limit, cursor } = read;
    const { kinds } = this.destinations;
    if (kind !== undefined && !kinds.includes(kind)) {
      const expected = `expected one of ${kinds.join(", ")}`;
      throw invalidFilter("kind", invalidMessage("kind", preview(kind), expected));
    }
    const filter = { states: state, submissionId, kind, key: this.#keyOf(destination) };
    await this.#ready();
    return listDeliveries(this.lifecycle.storage.sql, filter, limit, cursor);
  }

  /** The state of a delivery; null for an unknown id, or a delivered one that is not kept. */
  async inspect(id: string): Promise<DeliveryState | null> {
    checkId("inspect()", id);
    return (await this.#ready()).entries.inspect(id);
  }

  /** The whole event of a delivery, e.g. of one that was sent as a reference; null for an unknown id. */
  async read(id: string): Promise<Json> {
    checkId("read()", id);
    const payload = (await this.#ready()).entries.read(id);
    return payload === undefined ? null : (JSON.parse(payload) as Json);
  }

  /** How many deliveries wait, and how many are dead letters. */
  async stats(): Promise<OutboxStats> {
    const { entries, ended } = await this.#ready();
    const { waiting, oldestAt } = entries.stats();
    const dead = ended.count({ since: 0 });
    return { waiting, ...(oldestAt !== null && { oldestAt }), deadLetters: dead };
  }

  /**
   * Lists dead letters, newest first.
   *
   * @throws InvalidFilterError for an unknown option or an invalid value
   */
  async listDeadLetters(options: ListDeadLettersOptions = {}): Promise<Page<DeadLetter>> {
    const filter = readFilter(DEAD_LETTER_LIST, "listDeadLetters()", options);
    const { ended } = await this.#ready();
    return ended.list(this.#selection(filter), filter.limit, filter.cursor);
  }

  /**
   * @param isSent counts only those that a redrive would send: not those of disabled endpoints
   * @throws InvalidFilterError for an unknown option or an invalid value
   */
  async countDeadLetters(options: DeadLetterFilter = {}, isSent = false): Promise<number> {
    const filter = readFilter(DEAD_LETTER_FILTER, "countDeadLetters()", options);
    return (await this.#ready()).ended.count(this.#selection(filter), isSent);
  }

  /**
   * Retries a delivery now: a dead letter, with the same id and the attempts of a new entry, or one that waits for its
   * next attempt.
   *
   * @returns whether it is sent: false for an unknown id, and for a dead letter of a disabled endpoint
   */
  async redrive(id: string): Promise<boolean> {
    checkId("redrive()", id);
    const { ended, entries } = await this.#ready();
    const { clock } = this.loop;
    const now = clock.now();
    const isFound = ended.redrive(id, now) || entries.retryNow(id, now);
    if (isFound) this.#dispatcher.flushAgain();
    return isFound;
  }

  /**
   * Redrives dead letters: since a time, for a destination, or both; all by default. Those that may have been delivered
   * are left out, because a redrive may deliver them twice: `{ isUncertain: true }` redrives only these.
   *
   * @returns how many are sent: those of disabled endpoints stay dead letters
   * @throws InvalidFilterError for an unknown option or an invalid value
   */
  async redriveAll(options: DeadLetterFilter = {}): Promise<number> {
    const filter = readFilter(DEAD_LETTER_FILTER, "redriveAll()", options);
    const { ended } = await this.#ready();
    const { clock } = this.loop;
    const selection = this.#selection({ isUncertain: false, ...filter });
    const count = ended.redriveAll(selection, clock.now());
    if (count > 0) this.#dispatcher.flushAgain();
    return count;
  }

  /** Deletes a dead letter with its event. Returns whether there was one. */
  async deleteDeadLetter(id: string): Promise<boolean> {
    checkId("deleteDeadLetter()", id);
    return (await this.#ready()).ended.delete(id);
  }

  /**
   * Deletes the dead letters from before a time. Returns how many.
   *
   * @throws InvalidFilterError for an invalid time
   */
  async deleteDeadLetters(options: { before: Instant }): Promise<number> {
    const time = readBefore(options);
    return (await this.#ready()).ended.deleteBefore(time);
  }

  /** The webhooks' URLs that are not healthy, by URL. */
  async listEndpoints(options: PageOptions = {}): Promise<Page<Endpoint>> {
    const { limit, cursor } = readFilter(ENDPOINT_LIST, "listEndpoints()", options);
    return (await this.#ready()).endpoints.page(limit, cursor);
  }

  /** The state of a webhook's URL. */
  async inspectEndpoint(url: string): Promise<Endpoint> {
    return (await this.#ready()).endpoints.get(keyOfEndpoint(url), url);
  }

  /**
   * Stops deliveries to a URL: they become dead letters, until it is enabled.
   *
   * @throws InvalidDestinationError for a URL that no webhook can have
   */
  async disableEndpoint(url: string, reason = "The endpoint was disabled by hand"): Promise<void> {
    checkReason(reason);
    checkUrl(url);
    const { endpoints, entries } = await this.#ready();
    const { clock } = this.loop;
    const key = keyOfEndpoint(url);
    endpoints.disable(key, url, { message: reason }, clock.now());
    // The waiting ones become dead letters now, and not at their next attempt.
    entries.retryAllNow(key, clock.now());
    this.#reports.endpoint(url, "disabled", reason);
    this.#dispatcher.flushAgain();
  }

  /**
   * Resumes deliveries to a URL: first the waiting ones, and the dead letters since it began to fail.
   *
   * @returns the number of these dead letters
   */
  async enableEndpoint(url: string): Promise<number> {
    const { endpoints, ended, entries } = await this.#ready();
    const { clock } = this.loop;
    const key = keyOfEndpoint(url);
    const since = endpoints.enable(key);
    if (since === undefined) return 0;
    this.#dispatcher.enabled(key);
    entries.retryAllNow(key, clock.now());
    const count = ended.redriveAll({ key, since }, clock.now());
    this.#reports.endpoint(url, "healthy");
    this.#dispatcher.flushAgain();
    return count;
  }

  async #ready(): Promise<Stores> {
    await this.lifecycle.ready();
    return this.stores;
  }

  #selection({ since, destination, isUncertain }: ReadFilter): Selection {
    return { since, isUncertain, key: this.#keyOf(destination) };
  }

  /** @throws InvalidFilterError for an invalid destination */
  #keyOf(destination: Destination | undefined): string | undefined {
    if (destination === undefined) return undefined;
    try {
      this.destinations.check(destination);
    } catch (error) {
      throw invalidFilter("destination", (error as Error).message);
    }
    return this.destinations.keyOf(destination);
  }
}
