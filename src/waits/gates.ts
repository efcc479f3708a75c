/**
 * The gates: what workflows wait for at their agent, besides turns. Each is a
 * row that is closed once, and tells its workflow in the same transaction
 * (O1, W3). What brings the end about is up to the kind of gate.
 */

import { type Clock, systemClock } from "../core/clock.ts";
import { byteLength, type Json } from "../core/json.ts";
import { PART_LENGTH, partsOf } from "../core/parts.ts";
import { Room } from "../core/room.ts";
import { Wake } from "../core/wake.ts";
import { workflowEvent } from "../outbox/destinations.ts";
import type { Outbox } from "../outbox/outbox.ts";
import type { InstanceOf } from "../outbox/types.ts";
import { checkRequest, checkResult } from "./checks.ts";
import { AGAIN_MS, Driver } from "./driver.ts";
import { InvalidGateError, missingKind } from "./errors.ts";
import { type GateQuery, GateStore } from "./store.ts";
import type {
  Closing,
  Gate,
  GateEnd,
  GateEvent,
  GateKind,
  GateKindName,
  GateKinds,
  GateReceipt,
  GateRequest,
} from "./types.ts";

/** How long after the step's own time a gate waits for the step to ask for its end. */
export const GRACE_MS = 86_400_000;

/** What a gate inside a closed one is closed with. */
const OVER: Closing = { status: "cancelled", result: { error: "What it was for has ended" } };

/** What an open gate is closed with that another one takes the place of. */
const REPLACED: Closing = {
  status: "cancelled",
  result: { error: "Its workflow was restarted, and asks something else now" },
};

export type GatesOptions = {
  readonly outbox: Outbox;
  /** Others are added by `install()`. */
  readonly kinds: (gates: Gates) => GateKinds;
  readonly clock?: Clock;
};

export class Gates extends Room {
  readonly #outbox: Outbox;
  readonly #clock: Clock;
  readonly #driver: Driver;
  protected override readonly wake: Wake;
  #opened: GateStore | undefined;

  constructor({ outbox, kinds, clock = systemClock }: GatesOptions) {
    super("perdure.gates");
    this.#outbox = outbox;
    this.#clock = clock;
    this.#driver = new Driver({
      store: () => this.#store,
      kinds: kinds(this),
      clock,
      close: (gate, closing) => this.#close(gate.gateId, closing, { isOrder: true }),
      wakeAt: (time) => this.wake.request(time),
      inHostContext: (work) => this.lifecycle.runInHostContext(work) as Promise<void>,
    });
    this.wake = new Wake(
      () => this.lifecycle,
      "perdure.gates",
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
  install(name: GateKindName, kind: GateKind): void {
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
   * Opens a gate, or finds the one that was opened before (W1): an open one is taken over by the run that asks, unless its
   * kind says that what is asked now has to be asked anew; a closed one answers its own run, and a later run where its kind
   * says so, unless the step refuses its result.
   *
   * @throws InvalidGateError for a request that cannot be stored, or of a kind that this agent does not have; nothing is
   *   stored then
   */
  async open(request: GateRequest): Promise<GateReceipt> {
    await this.lifecycle.ready();
    checkRequest(request);
    if (!this.#driver.has(request.kind)) throw missingKind(request.kind);
    const now = this.#clock.now();
    const expiresAt = now + request.timeoutMs + GRACE_MS;
    const known = this.#store.findByKey(request.idempotencyKey);
    const isRefused = known !== undefined && known.gateId === request.refuses;
    if (known && !isRefused && this.#answers(known, request.run)) return receiptOf(known);
    if (known?.status === "open" && this.#isTaken(known, request)) {
      const taken = this.#store.takeOver(known.gateId, request.run, expiresAt);
      if (taken) await this.#look(expiresAt);
      return receiptOf(taken ?? known);
    }
    if (known?.status === "open") this.#close(known.gateId, REPLACED, { isOrder: true });
    const opened = this.#store.transaction(() => {
      if (known) this.#store.releaseKey(known.gateId);
      if (isRefused) this.#store.refuse(known.gateId);
      return this.#store.open(
        { ...request, gateId: crypto.randomUUID(), parent: undefined, expiresAt },
        now,
      );
    });
    const refused = isRefused ? this.#store.find(known.gateId) : undefined;
    if (refused) this.#announce(refused);
    await this.#begin(opened, expiresAt);
    return receiptOf(opened);
  }

  /**
   * Opens a gate for another one, which is driven again when this one is closed, and closes it with itself. Its id is
   * the caller's, so that it is opened once.
   *
   * @returns undefined where the other one was closed meanwhile: nobody would want this one
   * @throws InvalidGateError for a request that cannot be stored
   */
  async openInside(
    { gateId: parent }: Pick<Gate, "gateId">,
    inner: Pick<GateRequest, "kind" | "request"> & { readonly gateId: string },
  ): Promise<Gate | undefined> {
    await this.lifecycle.ready();
    const known = this.#store.find(inner.gateId);
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

  /** Closes a gate and tells who waits. Returns it, or undefined where it was closed before, or is unknown. */
  async close(gateId: string, closing: Closing): Promise<Gate | undefined> {
    await this.lifecycle.ready();
    return this.#close(gateId, closing, { isOrder: false });
  }

  /**
   * How a gate was closed: the end that is there wins (W2). An open one is closed as the step says that waits no longer.
   *
   * @param closing null to ask only; null is the answer then, as long as it is open
   * @throws InvalidGateError for an unknown gate
   */
  async expire(gateId: string, closing: Closing | null): Promise<GateEnd | null> {
    await this.lifecycle.ready();
    const found = closing ? this.#store.find(gateId) : undefined;
    const last = found?.status === "open" ? await this.#driver.lastLook(found) : undefined;
    // A later run may have taken it over during the look: its time is not over.
    const isOver = found !== undefined && this.#store.find(gateId)?.run === found.run;
    const closed =
      closing && isOver ? this.#close(gateId, last ?? closing, { isOrder: true }) : undefined;
    const gate = closed ?? this.#store.find(gateId);
    if (!gate)
      throw new InvalidGateError("gateId", `There is no gate ${gateId}: it was forgotten.`);
    this.#driver.reportMissing(gate);
    return gate.status === "open" ? null : endOf(gate);
  }

  /** A part of the result of a closed gate, from 0 on; null where there is none (O4). */
  async read(gateId: string, part: number): Promise<{ text: string; parts: number } | null> {
    await this.lifecycle.ready();
    const found = this.#store.find(gateId);
    if (found?.result === undefined) return null;
    const parts = partsOf(JSON.stringify(found.result));
    const text = parts[part];
    return text === undefined ? null : { text, parts: parts.length };
  }

  /** The step could not take what the gate was closed with (W4): it stays the answer for this run, and for no later one (W1). */
  async refuse(gateId: string): Promise<void> {
    await this.lifecycle.ready();
    this.#store.refuse(gateId);
  }

  /** Notes how far an open gate has come, for its next drive. Returns whether it is open. */
  async note(gateId: string, state: Json): Promise<boolean> {
    await this.lifecycle.ready();
    return this.#store.note(gateId, state) !== undefined;
  }

  /** Closes what a workflow instance waits for: it is gone, and nobody wants the end (W5). */
  async cancelFor(of: InstanceOf, reason: string): Promise<void> {
    await this.lifecycle.ready();
    for (const { gateId } of this.#store.ofInstance(of)) {
      const closing = { status: "cancelled", result: { error: reason } } as const;
      this.#close(gateId, closing, { isOrder: true });
    }
  }

  /** Closes what its workflow waits for, where that was terminated and the agent was not told of it (W5). */
  async cancelIfGone({ workflow: { name, id } }: Gate): Promise<void> {
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

  /** Drives an open gate soon: something has happened that it waits for. */
  async nudge(gateId: string): Promise<void> {
    await this.lifecycle.ready();
    const gate = this.#store.find(gateId);
    if (gate?.status === "open") this.#drive(gate);
  }

  /** What is known of it answers no other run any more: what was done for it has been undone. */
  async release(gateId: string): Promise<void> {
    await this.lifecycle.ready();
    this.#store.releaseKey(gateId);
  }

  async find(gateId: string): Promise<Gate | undefined> {
    await this.lifecycle.ready();
    return this.#store.find(gateId);
  }

  /** Newest first. */
  async list(query: GateQuery): Promise<Gate[]> {
    await this.lifecycle.ready();
    return this.#store.list(query);
  }

  /** Open gates inside another. */
  async inside(parent: string): Promise<Gate[]> {
    await this.lifecycle.ready();
    return this.#store.inside(parent);
  }

  /** Whether what is known of a gate is the answer for that run. */
  #answers(gate: Gate, run: string): boolean {
    if (gate.status === "open") return false;
    return gate.run === run || this.#driver.kindOf(gate).answersLaterRuns(gate);
  }

  /** Whether a run that asks for an open gate takes it over. */
  #isTaken(gate: Gate, { run, request }: GateRequest): boolean {
    const kind = this.#driver.kindOf(gate);
    return gate.run === run || !kind.asksAnew || isSame(gate.request, request);
  }

  #announce(gate: Gate): void {
    const { gateId, kind, status } = gate;
    this.lifecycle.events.emit(status === "open" ? "gate:create" : `gate:${status}`, {
      gateId,
      kind,
    });
    this.#driver.announce(gate);
  }

  async #begin(gate: Gate, expiresAt: number): Promise<void> {
    this.#announce(gate);
    if (this.#driver.kindOf(gate).drive === undefined) return this.#look(expiresAt);
    this.#driver.begin(gate);
    await this.#look(this.#clock.now() + AGAIN_MS);
  }

  /** In the background, and again by a wake if this life does not see its end. */
  #drive(gate: Gate): void {
    this.#driver.begin(gate);
    this.wake.request(this.#clock.now() + AGAIN_MS);
  }

  /**
   * The wake that waits for the day on which a closed gate would have expired comes soon instead, and finds the next one.
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
   * The end, and its entry in the outbox, or the waking of the gate that it is inside of, commit together (O1).
   *
   * @param isOrder whether the workflow wants it, which needs no word of it, and what is under way has to be stopped
   */
  #close(gateId: string, closing: Closing, { isOrder }: { isOrder: boolean }): Gate | undefined {
    checkResult(closing);
    const now = this.#clock.now();
    const all = this.#store.transaction(() => {
      const closed = this.#closeAll(gateId, closing, { isOrder, now });
      const [gate] = closed;
      if (gate?.parent !== undefined) this.#store.wakeAt(gate.parent, now);
      else if (gate && !isOrder) this.#put(gate, closing, now);
      return closed;
    });
    const [closed] = all;
    if (!closed) return undefined;
    for (const gate of all) {
      this.#announce(gate);
      if (gate.isLive) this.#drive(gate);
    }
    const parent = closed.parent === undefined ? undefined : this.#store.find(closed.parent);
    if (parent?.status === "open") this.#drive(parent);
    this.#drawNear(now);
    if (closed.parent === undefined && !isOrder) this.#outbox.flush(this.wake.armedFor);
    return closed;
  }

  /** The gate, and those inside it: nobody wants their ends any more. */
  #closeAll(
    gateId: string,
    closing: Closing,
    { isOrder, now }: { isOrder: boolean; now: number },
  ): Gate[] {
    const open = this.#store.find(gateId);
    const hasToStop = isOrder && open && this.#driver.kindOf(open).stop !== undefined;
    const gate = this.#store.close(gateId, closing, { now, isDone: !hasToStop });
    if (!gate) return [];
    const inside = this.#store.inside(gateId);
    return [
      gate,
      ...inside.flatMap((inner) => this.#closeAll(inner.gateId, OVER, { isOrder: true, now })),
    ];
  }

  #put({ gateId, workflow, proof }: Gate, { status, result }: Closing, now: number): void {
    const event = {
      type: `gate.${status}`,
      timestamp: new Date(now).toISOString(),
      data: { gateId, status, settledAt: now, result },
    } satisfies GateEvent;
    const destination = {
      kind: "workflow",
      workflow: workflow.name,
      instance: workflow.id,
      eventType: eventTypeOf(gateId),
      proof,
    } as const;
    this.#outbox.enqueue(crypto.randomUUID(), destination, JSON.stringify(event));
  }

  get #store(): GateStore {
    this.#opened ??= new GateStore(this.lifecycle.storage);
    return this.#opened;
  }
}

/** The event that reports the end of this gate, and of no other (W3). */
function eventTypeOf(gateId: string): string {
  return `perdure-gate-${gateId}`;
}

function receiptOf(gate: Gate): GateReceipt {
  const { gateId, proof, status } = gate;
  const receipt = { gateId, eventType: eventTypeOf(gateId), proof };
  return { ...receipt, ...(status !== "open" && { end: endOf(gate) }) };
}

function endOf({ gateId, status, settledAt, result = null }: Gate): GateEnd {
  if (status === "open" || settledAt === undefined) throw new Error(`Gate ${gateId} is open`);
  const text = JSON.stringify(result);
  if (text.length <= PART_LENGTH) return { gateId, status, settledAt, result };
  return { gateId, status, settledAt, reference: { bytes: byteLength(text) } };
}

function isSame(one: Json, other: Json): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}
