/**
 * What workflows wait for at their agent. A kind of wait may keep its waits elsewhere; the waits of all other kinds are rows here.
 * A row is closed once, in one transaction with the event that reports the end to the workflow.
 */

import { type Clock, earliest, systemClock } from "../../core/clock.ts";
import type { Json } from "../../core/json.ts";
import { partsOf } from "../../core/text.ts";
import type { Page } from "../../engine/page.ts";
import { Capability, HEARTBEAT_MS } from "../../engine/work-loop.ts";
import type { InstanceOf } from "../../outbox/destinations/workflow-event.ts";
import type { Outbox } from "../../outbox/outbox.ts";
import type { Submissions } from "../../submissions/submissions.ts";
import type { OwnerOptions } from "../../submissions/submit-options.ts";
import { isOfEndedRun, overdue, REPLACED } from "./closings.ts";
import { Driver } from "./driver.ts";
import { checkRequest, InvalidWaitError, missingKind } from "./errors.ts";
import type { Approval, LinkApprovalOptions } from "./kinds/approval-types.ts";
import type {
  Closing,
  Ending,
  RunRef,
  StoredKind,
  Wait,
  WaitEnd,
  WaitKind,
  WaitPart,
  WaitReceipt,
  WaitRef,
  WaitRequest,
} from "./protocol.ts";
import { endOf, receiptOf } from "./reports.ts";
import { Runs } from "./runs.ts";
import { Settlement } from "./settlement.ts";
import { type WaitQuery, WaitStore } from "./store.ts";

/** How long after the step's own timeout a wait stays open for the step to ask for its end. */
export const GRACE_MS = 86_400_000;

export type WaitsOptions = {
  readonly outbox: Outbox;
  /** The error of a step whose kind is not installed. */
  readonly missingKind?: (kind: string) => Error | undefined;
  /** The kinds of features, which may have left rows, installed or not. */
  readonly ofFeatures?: readonly string[];
  readonly clock?: Clock;
};

export class Waits extends Capability implements WaitKind {
  readonly #outbox: Outbox;
  readonly #missingKind: WaitsOptions["missingKind"];
  readonly #kinds = new Map<string, WaitKind>();
  readonly #driver: Driver;
  readonly #settlement: Settlement;
  readonly #runs: Runs;
  readonly #ofFeatures: readonly string[];
  #opened: WaitStore | undefined;

  constructor(options: WaitsOptions) {
    const { outbox, missingKind, ofFeatures = [], clock = systemClock } = options;
    super("perdure.waits", clock);
    this.#outbox = outbox;
    this.#missingKind = missingKind;
    this.#ofFeatures = ofFeatures;
    this.#driver = new Driver(
      this.loop,
      () => this.#store,
      (wait) => this.#settlement.settle(wait.waitId, overdue(wait), { isForced: true }),
    );
    this.#settlement = new Settlement(this.loop, outbox, this.#driver, () => this.#store);
    this.#runs = new Runs(
      this.loop.clock,
      outbox,
      this.#driver,
      this.#settlement,
      () => this.#store,
    );
  }

  /** Adds a kind, in the constructor of its host, so that its open waits are driven from the start on. */
  install(name: string, kind: WaitKind | StoredKind): void {
    if ("open" in kind) this.#kinds.set(name, kind);
    else this.#driver.kinds.set(name, kind);
  }

  /** The kinds whose waits have rows. */
  get stored(): readonly string[] {
    return [...new Set([...this.#driver.kinds.keys(), ...this.#ofFeatures])];
  }

  /** A kind, as the steps of workflows call it. */
  kind(name: string): WaitKind {
    return this.#kinds.get(name) ?? this;
  }

  #missing(kind: string): Error {
    return this.#missingKind?.(kind) ?? missingKind(kind);
  }

  /** A deploy may have left a kind out. Its waits go on with a deploy that has it. */
  #reportMissing(kind: string, problem: string): void {
    if (this.#driver.has(kind)) return;
    console.warn(`[perdure] ${problem}: ${this.#missing(kind).message}`);
  }

  override async onStart(): Promise<void> {
    await super.onStart();
    this.#store.migrate();
    this.#driver.resume();
    const wakes = this.#store.wakes();
    for (const { kind } of wakes) {
      this.#runs.note(kind);
      this.#reportMissing(kind, "Stored work in perdure_waits waits");
    }
    const next = earliest(wakes.map(({ time }) => time));
    if (next !== null) await this.wake.noLaterThan(next);
  }

  protected override async drive(): Promise<number | null> {
    return this.#driver.drive();
  }

  /**
   * Opens a wait, or finds the one that was opened before. An open wait is taken over by a later run, unless its kind asks
   * anew. A closed one answers its own run, and a later run if its kind says so, unless the step refuses its result.
   *
   * @throws InvalidWaitError for a request that cannot be stored; FeatureNotInstalledError, or InvalidWaitError, for a kind that
   *   this agent does not have. Nothing is stored then
   */
  async open(asked: WaitRequest): Promise<WaitReceipt> {
    const { kind, idempotencyKey, run, workflow, timeoutMs, refuses } = asked;
    if (!this.#driver.has(kind)) throw this.#missing(kind);
    await this.lifecycle.ready();
    await this.wake.reach();
    const request = asked.request as Json;
    checkRequest(kind, request);
    const own = this.#driver.kinds.get(kind) as StoredKind;
    await own.check?.(request);
    const waitId = crypto.randomUUID();
    const store = await own.opening?.(waitId, request);
    const now = this.#now();
    const expiresAt = now + timeoutMs + GRACE_MS;
    this.#runs.note(kind);
    const known = this.#store.findByKey(idempotencyKey);
    const isRefused = known !== undefined && known.waitId === refuses;
    if (known && isLeft(known) && this.#isTakenOver(known, run, request))
      return this.#receiptOf(await this.#reopen(known, run, expiresAt));
    if (known && !isRefused && this.#answers(known, run)) return this.#receiptOf(known);
    if (known?.status === "open" && this.#isTakenOver(known, run, request)) {
      const taken = this.#store.takeOver(known.waitId, run, expiresAt);
      if (taken) await this.#wakeAt(expiresAt);
      return this.#receiptOf(taken ?? known);
    }
    const old = isRefused ? known : undefined;
    const topic = own.topicOf?.(request, old);
    if (known?.status === "open")
      this.#settlement.settle(known.waitId, REPLACED, { isForced: true });
    const [opened, closed] = this.#store.transaction(() => {
      if (known) this.#store.releaseKey(known.waitId);
      if (isRefused) this.#store.refuse(known.waitId);
      const wait = this.#store.open(
        {
          waitId,
          idempotencyKey,
          kind,
          run,
          workflow,
          parent: undefined,
          request,
          expiresAt,
          topic,
        },
        now,
      );
      store?.(wait);
      const end = own.endAtOpen?.(wait, old);
      return [wait, end && this.#settlement.closeBy(waitId, end, { isForced: true, now })[0]];
    });
    if (store) this.#outbox.flush();
    const refused = isRefused ? this.#store.find(known.waitId) : undefined;
    if (refused) this.#settlement.announce(refused);
    if (!closed) await this.#startOpened(opened, expiresAt);
    else for (const wait of [opened, closed]) this.#settlement.announce(wait);
    return this.#receiptOf(closed ?? opened);
  }

  async #receiptOf(wait: Wait): Promise<WaitReceipt> {
    return { ...receiptOf(wait), ...(await this.#driver.kindOf(wait).receiptOf?.(wait)) };
  }

  /**
   * Opens a wait for another one, which is driven again when this one is closed, and closes it with itself. Its id is
   * the caller's, so that it is opened once.
   *
   * @returns undefined if the other one was closed meanwhile
   * @throws InvalidWaitError for a request that cannot be stored
   */
  async openInside(
    { waitId: parent }: Pick<Wait, "waitId">,
    { waitId, kind, request }: Pick<Wait, "waitId" | "kind" | "request">,
  ): Promise<Wait | undefined> {
    await this.lifecycle.ready();
    const known = this.#store.find(waitId);
    if (known) return known;
    checkRequest(kind, request);
    const outer = this.#store.find(parent);
    if (outer?.status !== "open") return undefined;
    const { run, workflow, expiresAt } = outer;
    const opened = this.#store.open(
      { waitId, kind, request, run, workflow, expiresAt, parent, idempotencyKey: undefined },
      this.#now(),
    );
    await this.#startOpened(opened, expiresAt);
    return opened;
  }

  /** For its kind: closes a wait, and notifies its workflow. Returns it, or undefined if it was closed before, or is unknown. */
  async settle(waitId: string, closing: Closing): Promise<Wait | undefined> {
    await this.lifecycle.ready();
    return this.#settlement.settle(waitId, closing, { isForced: false });
  }

  /** {@link settle} in the caller's synchronous transaction, once the object has started. */
  settleWithin(waitId: string, ending: Ending): Wait | undefined {
    return this.#settlement.settleWithin(waitId, ending);
  }

  /** How a wait was closed, or null while it is open. @throws InvalidWaitError for an unknown wait */
  async check({ waitId }: Pick<WaitRef, "waitId">): Promise<WaitEnd | null> {
    await this.lifecycle.ready();
    const found = this.#store.find(waitId);
    const wait = found && (await this.#continued(found));
    if (!wait) {
      const why = "closed waits are deleted after 30 days. Restart the workflow.";
      throw new InvalidWaitError("waitId", `Unknown wait ${waitId}: ${why}`);
    }
    this.#reportMissing(wait.kind, `Nothing is done for the wait ${waitId}`);
    return wait.status === "open" ? null : endOf(wait);
  }

  /**
   * The step's time is over: an end that is there wins, and an open wait is closed as the step says, or its kind.
   *
   * @throws InvalidWaitError for an unknown wait
   */
  async close(wait: Pick<WaitRef, "waitId">, closing: Closing): Promise<WaitEnd | null> {
    await this.lifecycle.ready();
    const { waitId } = wait;
    const known = this.#store.find(waitId);
    const found = known && (await this.#continued(known));
    if (found?.status === "open") {
      const last = await this.#driver.lastLook(found);
      // A later run may have taken the wait over meanwhile: its time is not over.
      const isOver = this.#store.find(waitId)?.run === found.run;
      if (isOver) this.#settlement.settle(waitId, last ?? closing, { isForced: true });
    }
    return this.check(wait);
  }

  /** A part of the result of a closed wait, from 0 on; null where there is none. */
  async read({ waitId }: Pick<WaitRef, "waitId">, part: number): Promise<WaitPart | null> {
    await this.lifecycle.ready();
    const found = this.#store.find(waitId);
    if (found?.result === undefined) return null;
    const parts = partsOf(JSON.stringify(found.result));
    const text = parts[part];
    return text === undefined ? null : { text, parts: parts.length };
  }

  /** The step cannot take these results: they answer its own run, and no later one. */
  async refuse(waitIds: readonly string[]): Promise<void> {
    await this.lifecycle.ready();
    for (const waitId of waitIds) this.#store.refuse(waitId);
  }

  /** Stores the progress of an open wait, for its next drive. Returns whether it is open. */
  async note(waitId: string, state: Json): Promise<boolean> {
    await this.lifecycle.ready();
    return this.#store.note(waitId, state) !== undefined;
  }

  /** Cancels what a workflow instance waits for, of all kinds: it was terminated. */
  async cancelFor(of: InstanceOf, reason: string): Promise<void> {
    await this.lifecycle.ready();
    for (const kind of this.#kinds.values()) await kind.cancelFor?.(of, reason);
    this.#cancelRows(of, reason);
  }

  /** A run has ended: cancels what nobody has to decide or to send any more. */
  async endRun(of: InstanceOf): Promise<void> {
    await this.lifecycle.ready();
    this.#runs.end(of);
  }

  /** Restarts a workflow. What its earlier run has left open is cancelled unless the new run asks for it. */
  async restartRun(of: InstanceOf, restart: () => Promise<void>): Promise<void> {
    await this.lifecycle.ready();
    const until = await this.#runs.restart(of, restart);
    if (until !== undefined) await this.#wakeAt(until);
  }

  /** Cancels a wait that no run waits for, if the agent was not notified: its workflow has ended, or was restarted. */
  async cancelIfGone(wait: Wait): Promise<void> {
    const end = await this.#runs.endOf(wait);
    const of = { workflow: wait.workflow.name, instance: wait.workflow.id };
    if (end === "gone") this.#cancelRows(of, "The workflow that waited for it was terminated");
    // What is inside another wait belongs to work that may go on.
    else if (end === "ended" && wait.parent === undefined) this.#runs.end(of);
    else if (end === "left")
      this.#settlement.settle(wait.waitId, overdue(wait), { isForced: true });
  }

  /** A wait that a step asks for although its run had ended: the run continues, from a step that a restart has named. */
  async #continued(wait: Wait): Promise<Wait> {
    return isLeft(wait) ? this.#reopen(wait, wait.run, wait.expiresAt) : wait;
  }

  async #reopen({ waitId }: Wait, run: string, expiresAt: number): Promise<Wait> {
    const [opened, closed] = this.#store.transaction(() => {
      const wait = this.#store.reopen(waitId, run, expiresAt) as Wait;
      // What came meanwhile.
      const end = this.#driver.kindOf(wait).endAtOpen?.(wait, wait);
      const rest = { isForced: true, now: this.#now() };
      return [wait, end && this.#settlement.closeBy(waitId, end, rest)[0]];
    });
    if (closed) this.#settlement.announce(closed);
    else await this.#startOpened(opened, expiresAt);
    return closed ?? opened;
  }

  #cancelRows(of: InstanceOf, reason: string): void {
    for (const { waitId } of this.#store.ofInstance(of)) {
      const closing = { status: "cancelled", result: { error: reason } } as const;
      this.#settlement.settle(waitId, closing, { isForced: true });
    }
  }

  /** Drives an open wait at once: something has happened that it waits for. */
  async nudge(waitId: string): Promise<void> {
    await this.lifecycle.ready();
    const wait = this.#store.find(waitId);
    if (wait?.status === "open") this.#settlement.drive(wait);
  }

  /** The wait answers no other run any more, because its effects were undone. */
  async release(waitId: string): Promise<void> {
    await this.lifecycle.ready();
    this.#store.releaseKey(waitId);
  }

  /** The rows, for a kind whose waits are found by topics: within a transaction, once the object has started. */
  get rows(): Pick<
    WaitStore,
    "transaction" | "withTopics" | "countOfTopic" | "oneOfEachTopic" | "hasAnswered" | "note"
  > {
    return this.#store;
  }

  async find(waitId: string): Promise<Wait | undefined> {
    await this.lifecycle.ready();
    return this.#store.find(waitId);
  }

  /** Newest first. */
  async list(query: WaitQuery): Promise<Page<Wait>> {
    await this.lifecycle.ready();
    return this.#store.list(query);
  }

  /** Open waits inside another. */
  async inside(parent: string): Promise<Wait[]> {
    await this.lifecycle.ready();
    return this.#store.inside(parent);
  }

  /** Whether a closed wait is the answer for that run. */
  #answers(wait: Wait, run: string): boolean {
    if (wait.status === "open") return false;
    return wait.run === run || this.#driver.kindOf(wait).answersLaterRuns(wait);
  }

  /** Whether a run that asks for an open wait takes it over. */
  #isTakenOver(wait: Wait, run: string, request: Json): boolean {
    if (wait.run === run || !this.#driver.kindOf(wait).asksAnew) return true;
    return JSON.stringify(wait.request) === JSON.stringify(request);
  }

  async #startOpened(wait: Wait, expiresAt: number): Promise<void> {
    this.#settlement.announce(wait);
    if (this.#driver.kindOf(wait).drive === undefined) return this.#wakeAt(expiresAt);
    this.#driver.start(wait);
    await this.#wakeAt(this.#now() + HEARTBEAT_MS);
  }

  async #wakeAt(time: number): Promise<void> {
    await this.wake
      .noLaterThan(time)
      .catch((error) => console.error("[perdure] the wake could not be armed:", error));
  }

  #now(): number {
    return this.loop.clock.now();
  }

  get #store(): WaitStore {
    this.#opened ??= new WaitStore(this.lifecycle.storage, this.stored);
    return this.#opened;
  }
}

/** Whether the end of its run has cancelled a wait. */
const isLeft = ({ result }: Wait) =>
  isOfEndedRun((result as { error?: unknown } | undefined)?.error);

/** What a kind of this folder is made with. */
export type KindUses = {
  readonly waits: Waits;
  readonly submissions: Submissions;
  /** Options of a run that its prompts inherit. */
  readonly ownerOfRun: (workflow: RunRef) => Promise<OwnerOptions>;
  /** An approval was opened, decided, expired or cancelled. */
  readonly onApproval: (approval: Approval) => void | Promise<void>;
  readonly outbox: Outbox;
  /** Signs a link for an approval that is not stored yet. @throws FeatureNotInstalledError, InvalidApprovalError */
  readonly linkOf: (
    wait: Pick<Wait, "waitId" | "request">,
    decision: "grant" | "reject",
    options: LinkApprovalOptions,
  ) => Promise<string>;
};
