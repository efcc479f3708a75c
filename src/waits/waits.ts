/**
 * The waits: what workflows wait for at their agent, besides turns. Each is a
 * row that is closed once, and tells its workflow in the same transaction
 * (O1, W3). What brings the end about is up to the kind of wait.
 */

import { Capability } from "../core/capability.ts";
import { type Clock, systemClock } from "../core/clock.ts";
import { byteLength, type Json } from "../core/json.ts";
import { PART_LENGTH, partsOf } from "../core/text.ts";
import { Wake } from "../core/wake.ts";
import { workflowEvent } from "../outbox/destinations/workflow-event.ts";
import type { Outbox } from "../outbox/outbox.ts";
import type { InstanceOf } from "../outbox/types.ts";
import { checkRequest, checkResult } from "./checks.ts";
import { AGAIN_MS, Driver } from "./driver.ts";
import { InvalidWaitError, missingKind } from "./errors.ts";
import { type WaitQuery, WaitStore } from "./store.ts";
import type {
  Closing,
  Wait,
  WaitEnd,
  WaitEvent,
  WaitKind,
  WaitKindName,
  WaitKinds,
  WaitReceipt,
  WaitRequest,
} from "./types.ts";

/** How long after the step's own time a wait waits for the step to ask for its end. */
export const GRACE_MS = 86_400_000;

/** What a wait inside a closed one is closed with. */
const OVER: Closing = { status: "cancelled", result: { error: "What it was for has ended" } };

/** What an open wait is closed with that another one takes the place of. */
const REPLACED: Closing = {
  status: "cancelled",
  result: { error: "Its workflow was restarted, and asks something else now" },
};

export type WaitsOptions = {
  readonly outbox: Outbox;
  /** Others are added by `install()`. */
  readonly kinds: (waits: Waits) => WaitKinds;
  readonly clock?: Clock;
};

export class Waits extends Capability {
  readonly #outbox: Outbox;
  readonly #clock: Clock;
  readonly #driver: Driver;
  protected override readonly wake: Wake;
  #opened: WaitStore | undefined;

  constructor({ outbox, kinds, clock = systemClock }: WaitsOptions) {
    super("perdure.waits");
    this.#outbox = outbox;
    this.#clock = clock;
    this.#driver = new Driver({
      store: () => this.#store,
      kinds: kinds(this),
      clock,
      close: (wait, closing) => this.#close(wait.waitId, closing, { isOrder: true }),
      wakeAt: (time) => this.wake.request(time),
      inHostContext: (work) => this.lifecycle.runInHostContext(work) as Promise<void>,
    });
    this.wake = new Wake(
      () => this.lifecycle,
      "perdure.waits",
      async () => {
        const { work, next } = this.#driver.drive();
        this.lifecycle.trackAlarmWork(work);
        // The outbox may rely on this wake instead of one of its own.
        const backstop = this.#outbox.isBusy ? clock.now() + AGAIN_MS : Number.POSITIVE_INFINITY;
        const soonest = Math.min(next ?? Number.POSITIVE_INFINITY, backstop);
        return Number.isFinite(soonest) ? soonest : null;
      },
      clock,
    );
  }

  /** Adds a kind, in the constructor of its host: what an earlier life has left of it is driven from the start on. */
  install(name: WaitKindName, kind: WaitKind): void {
    this.#driver.install(name, kind);
  }

  override async onStart(): Promise<void> {
    await super.onStart();
    this.#store.migrate();
    this.#driver.resume();
    const next = this.#store.nextWake();
    if (next !== null) await this.wake.noLaterThan(next);
  }

  /**
   * Opens a wait, or finds the one that was opened before (W1): an open one is taken over by the run that asks, unless its
   * kind says that what is asked now has to be asked anew; a closed one answers its own run, and a later run where its kind
   * says so, unless the step refuses its result.
   *
   * @throws InvalidWaitError for a request that cannot be stored, or of a kind that this agent does not have; nothing is
   *   stored then
   */
  async open(request: WaitRequest): Promise<WaitReceipt> {
    await this.lifecycle.ready();
    checkRequest(request);
    if (!this.#driver.has(request.kind)) throw missingKind(request.kind);
    const now = this.#clock.now();
    const expiresAt = now + request.timeoutMs + GRACE_MS;
    const known = this.#store.findByKey(request.idempotencyKey);
    const isRefused = known !== undefined && known.waitId === request.refuses;
    if (known && !isRefused && this.#answers(known, request.run)) return receiptOf(known);
    if (known?.status === "open" && this.#isTaken(known, request)) {
      const taken = this.#store.takeOver(known.waitId, request.run, expiresAt);
      if (taken) await this.#look(expiresAt);
      return receiptOf(taken ?? known);
    }
    if (known?.status === "open") this.#close(known.waitId, REPLACED, { isOrder: true });
    const opened = this.#store.transaction(() => {
      if (known) this.#store.releaseKey(known.waitId);
      if (isRefused) this.#store.refuse(known.waitId);
      return this.#store.open(
        { ...request, waitId: crypto.randomUUID(), parent: undefined, expiresAt },
        now,
      );
    });
    const refused = isRefused ? this.#store.find(known.waitId) : undefined;
    if (refused) this.#announce(refused);
    await this.#begin(opened, expiresAt);
    return receiptOf(opened);
  }

  /**
   * Opens a wait for another one, which is driven again when this one is closed, and closes it with itself. Its id is
   * the caller's, so that it is opened once.
   *
   * @returns undefined where the other one was closed meanwhile: nobody would want this one
   * @throws InvalidWaitError for a request that cannot be stored
   */
  async openInside(
    { waitId: parent }: Pick<Wait, "waitId">,
    inner: Pick<WaitRequest, "kind" | "request"> & { readonly waitId: string },
  ): Promise<Wait | undefined> {
    await this.lifecycle.ready();
    const known = this.#store.find(inner.waitId);
    if (known) return known;
    checkRequest(inner);
    const outer = this.#store.find(parent);
    if (outer?.status !== "open") return undefined;
    const { run, workflow, expiresAt } = outer;
    const opened = this.#store.open(
      { ...inner, run, workflow, expiresAt, parent, idempotencyKey: undefined },
      this.#clock.now(),
    );
    await this.#begin(opened, expiresAt);
    return opened;
  }

  /** Closes a wait and tells who waits. Returns it, or undefined where it was closed before, or is unknown. */
  async close(waitId: string, closing: Closing): Promise<Wait | undefined> {
    await this.lifecycle.ready();
    return this.#close(waitId, closing, { isOrder: false });
  }

  /**
   * How a wait was closed: the end that is there wins (W2). An open one is closed as the step says that waits no longer.
   *
   * @param closing null to ask only; null is the answer then, as long as it is open
   * @throws InvalidWaitError for an unknown wait
   */
  async expire(waitId: string, closing: Closing | null): Promise<WaitEnd | null> {
    await this.lifecycle.ready();
    const found = closing ? this.#store.find(waitId) : undefined;
    const last = found?.status === "open" ? await this.#driver.lastLook(found) : undefined;
    // A later run may have taken it over during the look: its time is not over.
    const isOver = found !== undefined && this.#store.find(waitId)?.run === found.run;
    const closed =
      closing && isOver ? this.#close(waitId, last ?? closing, { isOrder: true }) : undefined;
    const wait = closed ?? this.#store.find(waitId);
    if (!wait)
      throw new InvalidWaitError("waitId", `There is no wait ${waitId}: it was forgotten.`);
    this.#driver.reportMissing(wait);
    return wait.status === "open" ? null : endOf(wait);
  }

  /** A part of the result of a closed wait, from 0 on; null where there is none (O4). */
  async read(waitId: string, part: number): Promise<{ text: string; parts: number } | null> {
    await this.lifecycle.ready();
    const found = this.#store.find(waitId);
    if (found?.result === undefined) return null;
    const parts = partsOf(JSON.stringify(found.result));
    const text = parts[part];
    return text === undefined ? null : { text, parts: parts.length };
  }

  /** The step could not take what the wait was closed with (W4): it stays the answer for this run, and for no later one (W1). */
  async refuse(waitId: string): Promise<void> {
    await this.lifecycle.ready();
    this.#store.refuse(waitId);
  }

  /** Notes how far an open wait has come, for its next drive. Returns whether it is open. */
  async note(waitId: string, state: Json): Promise<boolean> {
    await this.lifecycle.ready();
    return this.#store.note(waitId, state) !== undefined;
  }

  /** Closes what a workflow instance waits for: it is gone, and nobody wants the end (W5). */
  async cancelFor(of: InstanceOf, reason: string): Promise<void> {
    await this.lifecycle.ready();
    for (const { waitId } of this.#store.ofInstance(of)) {
      const closing = { status: "cancelled", result: { error: reason } } as const;
      this.#close(waitId, closing, { isOrder: true });
    }
  }

  /** Closes what its workflow waits for, where that was terminated and the agent was not told of it (W5). */
  async cancelIfGone({ workflow: { name, id } }: Wait): Promise<void> {
    const of = { workflow: name, instance: id };
    const isGone = await this.#outbox
      .isGone(workflowEvent({ ...of, eventType: "none" }))
      .catch((error: unknown) => {
        // A decision counts all the same: the workflow may well be there.
        console.error(`[perdure] the status of workflow ${name} ${id} could not be read:`, error);
        return false;
      });
    if (isGone) await this.cancelFor(of, "The workflow that waited for it was terminated");
  }

  /** Drives an open wait soon: something has happened that it waits for. */
  async nudge(waitId: string): Promise<void> {
    await this.lifecycle.ready();
    const wait = this.#store.find(waitId);
    if (wait?.status === "open") this.#drive(wait);
  }

  /** What is known of it answers no other run any more: what was done for it has been undone. */
  async release(waitId: string): Promise<void> {
    await this.lifecycle.ready();
    this.#store.releaseKey(waitId);
  }

  async find(waitId: string): Promise<Wait | undefined> {
    await this.lifecycle.ready();
    return this.#store.find(waitId);
  }

  /** Newest first. */
  async list(query: WaitQuery): Promise<Wait[]> {
    await this.lifecycle.ready();
    return this.#store.list(query);
  }

  /** Open waits inside another. */
  async inside(parent: string): Promise<Wait[]> {
    await this.lifecycle.ready();
    return this.#store.inside(parent);
  }

  /** Whether what is known of a wait is the answer for that run. */
  #answers(wait: Wait, run: string): boolean {
    if (wait.status === "open") return false;
    return wait.run === run || this.#driver.kindOf(wait).answersLaterRuns(wait);
  }

  /** Whether a run that asks for an open wait takes it over. */
  #isTaken(wait: Wait, { run, request }: WaitRequest): boolean {
    const kind = this.#driver.kindOf(wait);
    return wait.run === run || !kind.asksAnew || isSame(wait.request, request);
  }

  #announce(wait: Wait): void {
    const { waitId, kind, status } = wait;
    this.lifecycle.events.emit(status === "open" ? "wait:create" : `wait:${status}`, {
      waitId,
      kind,
    });
    this.#driver.announce(wait);
  }

  async #begin(wait: Wait, expiresAt: number): Promise<void> {
    this.#announce(wait);
    if (this.#driver.kindOf(wait).drive === undefined) return this.#look(expiresAt);
    this.#driver.begin(wait);
    await this.#look(this.#clock.now() + AGAIN_MS);
  }

  /** In the background, and again by a wake if this life does not see its end. */
  #drive(wait: Wait): void {
    this.#driver.begin(wait);
    this.wake.request(this.#clock.now() + AGAIN_MS);
  }

  /**
   * The wake that waits for the day on which a closed wait would have expired comes soon instead, and finds the next one.
   * Until then it covers the delivery of the end, so that the outbox needs none.
   */
  #drawNear(now: number): void {
    if (this.wake.armedFor !== null) this.wake.request(now + AGAIN_MS);
  }

  async #look(time: number): Promise<void> {
    await this.wake
      .noLaterThan(time)
      .catch((error) => console.error("[perdure] the wake could not be armed:", error));
  }

  /**
   * The end, and its entry in the outbox, or the waking of the wait that it is inside of, commit together (O1).
   *
   * @param isOrder whether the workflow wants it, which needs no word of it, and what is under way has to be stopped
   */
  #close(waitId: string, closing: Closing, { isOrder }: { isOrder: boolean }): Wait | undefined {
    checkResult(closing);
    const now = this.#clock.now();
    const all = this.#store.transaction(() => {
      const closed = this.#closeAll(waitId, closing, { isOrder, now });
      const [wait] = closed;
      if (wait?.parent !== undefined) this.#store.wakeAt(wait.parent, now);
      else if (wait && !isOrder) this.#put(wait, closing, now);
      return closed;
    });
    const [closed] = all;
    if (!closed) return undefined;
    for (const wait of all) {
      this.#announce(wait);
      if (wait.isLive) this.#drive(wait);
    }
    const parent = closed.parent === undefined ? undefined : this.#store.find(closed.parent);
    if (parent?.status === "open") this.#drive(parent);
    this.#drawNear(now);
    if (closed.parent === undefined && !isOrder) this.#outbox.flush(this.wake.armedFor);
    return closed;
  }

  /** The wait, and those inside it: nobody wants their ends any more. */
  #closeAll(
    waitId: string,
    closing: Closing,
    { isOrder, now }: { isOrder: boolean; now: number },
  ): Wait[] {
    const open = this.#store.find(waitId);
    const hasToStop = isOrder && open && this.#driver.kindOf(open).stop !== undefined;
    const wait = this.#store.close(waitId, closing, { now, isDone: !hasToStop });
    if (!wait) return [];
    const inside = this.#store.inside(waitId);
    return [
      wait,
      ...inside.flatMap((inner) => this.#closeAll(inner.waitId, OVER, { isOrder: true, now })),
    ];
  }

  #put({ waitId, workflow, proof }: Wait, { status, result }: Closing, now: number): void {
    const event = {
      type: `wait.${status}`,
      timestamp: new Date(now).toISOString(),
      data: { waitId, status, settledAt: now, result },
    } satisfies WaitEvent;
    const destination = {
      kind: "workflow",
      workflow: workflow.name,
      instance: workflow.id,
      eventType: eventTypeOf(waitId),
      proof,
    } as const;
    this.#outbox.enqueue(crypto.randomUUID(), destination, JSON.stringify(event));
  }

  get #store(): WaitStore {
    this.#opened ??= new WaitStore(this.lifecycle.storage);
    return this.#opened;
  }
}

/** The event that reports the end of this wait, and of no other (W3). */
function eventTypeOf(waitId: string): string {
  return `perdure-wait-${waitId}`;
}

function receiptOf(wait: Wait): WaitReceipt {
  const { waitId, proof, status } = wait;
  const receipt = { waitId, eventType: eventTypeOf(waitId), proof };
  return { ...receipt, ...(status !== "open" && { end: endOf(wait) }) };
}

function endOf({ waitId, status, settledAt, result = null }: Wait): WaitEnd {
  if (status === "open" || settledAt === undefined) throw new Error(`Wait ${waitId} is open`);
  const text = JSON.stringify(result);
  if (text.length <= PART_LENGTH) return { waitId, status, settledAt, result };
  return { waitId, status, settledAt, reference: { bytes: byteLength(text) } };
}

function isSame(one: Json, other: Json): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}
