/**
 * What workflows wait for at their agent. A kind of wait may keep its waits elsewhere; the waits of all other kinds are jobs of the
 * engine, which ends each once, in one transaction with the event that reports the end to the workflow.
 */

import { type Clock, systemClock, withTimeout } from "../../core/clock.ts";
import type { Json } from "../../core/json.ts";
import { partOf } from "../../core/text.ts";
import { Engine } from "../../engine/engine.ts";
import { emit } from "../../engine/events.ts";
import type { Job, Kind } from "../../engine/job.ts";
import type { Page } from "../../engine/page.ts";
import type { JobStore } from "../../engine/store.ts";
import { Capability } from "../../engine/work-loop.ts";
import type { InstanceOf } from "../../outbox/destinations/workflow-event.ts";
import type { Outbox } from "../../outbox/outbox.ts";
import type { Submissions } from "../../submissions/submissions.ts";
import type { OwnerOptions } from "../../submissions/submit-options.ts";
import { isOfEndedRun, overdue, REPLACED, RESTARTED } from "./closings.ts";
import { checkClosing, checkRequest, InvalidWaitError, missingKind } from "./errors.ts";
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
import { endOf, receiptOf, reportOf } from "./reports.ts";
import { Runs } from "./runs.ts";
import { toEnd, toWait, type WaitData } from "./wait-job.ts";

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

/** For a wait whose kind the agent no longer has: a deploy that has it again drives the wait, or stops what runs for it. */
const MISSING: StoredKind = {
  answersLaterRuns: ({ status }) => status === "completed",
  stop: async () => {},
};
/** How long the last look at an overdue wait may take. */
const LAST_LOOK_MS = 20_000;

export class Waits extends Capability implements WaitKind {
  readonly #outbox: Outbox;
  readonly #missingKind: WaitsOptions["missingKind"];
  /** Kinds that keep their waits elsewhere. */
  readonly #kinds = new Map<string, WaitKind>();
  readonly #stored = new Map<string, StoredKind>();
  readonly #engine: Engine;
  readonly #runs: Runs;
  readonly #ofFeatures: readonly string[];

  constructor(options: WaitsOptions) {
    const { outbox, missingKind, ofFeatures = [], clock = systemClock } = options;
    super("perdure.waits", clock);
    this.#outbox = outbox;
    this.#missingKind = missingKind;
    this.#ofFeatures = ofFeatures;
    this.#engine = new Engine(this.loop, this.#toJobKind(MISSING), () => outbox.flush());
    const kindsOfRuns = () =>
      [...this.#stored].flatMap(([name, { endsWithRun }]) => (endsWithRun ? [name] : []));
    this.#runs = new Runs(this.loop.clock, outbox, this.#engine, kindsOfRuns);
  }

  /** Adds a kind, in the constructor of its host, so that its open waits are driven from the start on. */
  install(name: string, kind: WaitKind | StoredKind): void {
    if ("open" in kind) this.#kinds.set(name, kind);
    else {
      this.#stored.set(name, kind);
      this.#engine.install(name, this.#toJobKind(kind));
    }
  }

  #toJobKind(kind: StoredKind): Kind {
    return {
      ...(kind.drive && { poll: async (job: Job) => kind.drive?.(toWait(job)) ?? null }),
      ...(kind.stop && { stop: async (job: Job) => kind.stop?.(toWait(job)) }),
      expire: (job, now) => {
        const wait = toWait(job);
        const isOver = wait.expiresAt <= now || wait.run === RESTARTED;
        return isOver ? toEnd(overdue(wait)) : undefined;
      },
      notify: (job) => {
        const { destination, event } = reportOf(toWait(job));
        this.#outbox.enqueue(crypto.randomUUID(), destination, event);
      },
      announce: (job) => this.#announce(toWait(job), kind),
    };
  }

  #announce(wait: Wait, kind: StoredKind): void {
    const { waitId, status } = wait;
    const name = status === "open" ? "wait:create" : (`wait:${status}` as const);
    emit(this.loop.lifecycle, name, { waitId, kind: wait.kind });
    if (kind.announce === undefined) return;
    this.loop
      .inHostContext(async () => kind.announce?.(wait))
      .catch((error) => console.error(`[perdure] a wait could not be announced:`, error));
  }

  /** The rows of the waits. */
  get store(): JobStore {
    return this.#engine.store;
  }

  /** The kinds whose waits have rows. */
  get stored(): readonly string[] {
    return [...new Set([...this.#stored.keys(), ...this.#ofFeatures])];
  }

  /** A kind, as the steps of workflows call it. */
  kind(name: string): WaitKind {
    return this.#kinds.get(name) ?? this;
  }

  #kindOf({ kind }: Wait): StoredKind {
    return this.#stored.get(kind) ?? MISSING;
  }

  #missing(kind: string): Error {
    return this.#missingKind?.(kind) ?? missingKind(kind);
  }

  /** A deploy may have left a kind out. Its waits go on with a deploy that has it. */
  #reportMissing(kind: string, problem: string): void {
    if (this.#engine.has(kind)) return;
    console.warn(`[perdure] ${problem}: ${this.#missing(kind).message}`);
  }

  override async onStart(): Promise<void> {
    await super.onStart();
    for (const kind of await this.#engine.start()) {
      this.#runs.note(kind);
      this.#reportMissing(kind, "Stored work in perdure_jobs waits");
    }
  }

  protected override async drive(): Promise<number | null> {
    return this.#engine.drive();
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
    if (!this.#engine.has(kind)) throw this.#missing(kind);
    await this.lifecycle.ready();
    await this.wake.reach();
    const request = asked.request as Json;
    checkRequest(kind, request);
    const own = this.#stored.get(kind) as StoredKind;
    await own.check?.(request);
    const waitId = this.store.newId(kind);
    const store = await own.opening?.(waitId, request);
    const createdAt = this.#now();
    const expiresAt = createdAt + timeoutMs + GRACE_MS;
    this.#runs.note(kind);
    const known = this.findByKey(idempotencyKey);
    const isRefused = known !== undefined && known.waitId === refuses;
    if (known && isLeft(known) && this.#isTakenOver(known, run, request))
      return this.#receiptOf(await this.#reopen(known, run, expiresAt));
    if (known && !isRefused && this.#answers(known, run)) return this.#receiptOf(known);
    if (known?.status === "open" && this.#isTakenOver(known, run, request)) {
      const taken = this.#takeOver(known, run, expiresAt);
      if (taken) await this.wake.request(expiresAt);
      return this.#receiptOf(taken ?? known);
    }
    const old = isRefused ? known : undefined;
    const topic = own.topicOf?.(request, old);
    if (known?.status === "open") this.#close(known.waitId, REPLACED);
    const forced = { isForced: true };
    const [opened, ended] = this.store.transaction(() => {
      if (known) this.store.releaseKey(known.waitId);
      if (isRefused) this.#refuse(known.waitId);
      const data: WaitData = { run, workflow, proof: crypto.randomUUID() };
      const job = { id: waitId, kind, key: idempotencyKey, data, request, createdAt, expiresAt };
      const added = this.store.add({ ...job, ...(topic !== undefined && { topic }) });
      store?.(toWait(added));
      const end = own.endAtOpen?.(toWait(added), old);
      const all = end && this.#engine.settleAll(waitId, toEnd(end.closing, end.answeredBy), forced);
      return [added, all?.[0]] as const;
    });
    if (store) this.#outbox.flush();
    const refused = isRefused ? this.store.find(known.waitId) : undefined;
    if (refused) this.#engine.announce(refused);
    if (!ended) await this.#engine.added(opened);
    else for (const job of [opened, ended]) this.#engine.announce(job);
    return this.#receiptOf(toWait(ended ?? opened));
  }

  async #receiptOf(wait: Wait): Promise<WaitReceipt> {
    return { ...receiptOf(wait), ...(await this.#kindOf(wait).receiptOf?.(wait)) };
  }

  /**
   * Opens a wait for another one, which is driven again when this one is closed, and closes it with itself. Its key is
   * the caller's, so that it is opened once.
   *
   * @returns undefined if the other one was closed meanwhile
   * @throws InvalidWaitError for a request that cannot be stored
   */
  async openInside(
    { waitId: parent }: Pick<Wait, "waitId">,
    { key, kind, request }: Pick<Wait, "kind" | "request"> & { readonly key: string },
  ): Promise<Wait | undefined> {
    await this.lifecycle.ready();
    const known = this.findByKey(key);
    if (known) return known;
    checkRequest(kind, request);
    const outer = this.find(parent);
    if (outer?.status !== "open") return undefined;
    const { run, workflow, expiresAt } = outer;
    const data: WaitData = { run, workflow, proof: crypto.randomUUID() };
    const times = { createdAt: this.#now(), expiresAt };
    const id = this.store.newId(kind);
    const opened = this.store.add({ ...{ id, kind, key, parent, data, request }, ...times });
    await this.#engine.added(opened);
    return toWait(opened);
  }

  /** For its kind: closes a wait, and notifies its workflow. Returns it, or undefined if it was closed before, or is unknown. */
  async settle(waitId: string, closing: Closing): Promise<Wait | undefined> {
    await this.lifecycle.ready();
    checkClosing(closing);
    const job = this.#engine.settle(waitId, toEnd(closing), { isForced: false });
    return job && toWait(job);
  }

  /** {@link settle} in the caller's synchronous transaction, once the object has started. */
  settleWithin(waitId: string, { closing, answeredBy }: Ending): Wait | undefined {
    checkClosing(closing);
    const end = toEnd(closing, answeredBy);
    const job = this.#engine.settleWithin(waitId, end, { isForced: false });
    return job && toWait(job);
  }

  /** Closes a wait from outside: its workflow gets no event. */
  #close(waitId: string, closing: Closing): void {
    checkClosing(closing);
    this.#engine.settle(waitId, toEnd(closing), { isForced: true });
  }

  /** How a wait was closed, or null while it is open. @throws InvalidWaitError for an unknown wait */
  async check({ waitId }: Pick<WaitRef, "waitId">): Promise<WaitEnd | null> {
    await this.lifecycle.ready();
    const found = this.find(waitId);
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
    const known = this.find(waitId);
    const found = known && (await this.#continued(known));
    if (found?.status === "open") {
      const last = await this.#lastLook(found);
      // A later run may have taken the wait over meanwhile: its time is not over.
      const isOver = this.find(waitId)?.run === found.run;
      if (isOver) this.#close(waitId, last ?? closing);
    }
    return this.check(wait);
  }

  /** How the kind closes a wait whose time is over, or undefined: as its step says. Never fails. */
  async #lastLook(wait: Wait): Promise<Closing | undefined> {
    let closing: Closing | undefined;
    const look = async () => {
      closing = await this.#kindOf(wait).lastLook?.(wait);
    };
    try {
      await withTimeout(this.loop.inHostContext(look), LAST_LOOK_MS);
    } catch (error) {
      console.error("[perdure] a wait could not be checked at its timeout:", error);
    }
    return closing;
  }

  /** A part of the result of a closed wait, from 0 on; null where there is none. */
  async read({ waitId }: Pick<WaitRef, "waitId">, part: number): Promise<WaitPart | null> {
    await this.lifecycle.ready();
    const found = this.find(waitId);
    if (found?.result === undefined) return null;
    return partOf(JSON.stringify(found.result), part) ?? null;
  }

  /** The step cannot take these results: they answer its own run, and no later one. */
  async refuse(waitIds: readonly string[]): Promise<void> {
    await this.lifecycle.ready();
    for (const waitId of waitIds) this.#refuse(waitId);
  }

  /** Completed → failed. The result stays readable for its own run. A rejection stays. */
  #refuse(waitId: string): void {
    if (this.find(waitId)?.status === "completed")
      this.store.change(waitId, { state: "error", reason: "failed" }, ["completed"]);
  }

  /** Stores the progress of an open wait, for its next drive. Returns whether it is open. Once the object has started. */
  note(waitId: string, state: Json): boolean {
    const job = this.store.find(waitId);
    const data = { ...(job?.data as WaitData), state };
    return this.store.change(waitId, { data: JSON.stringify(data) }) !== undefined;
  }

  /** Cancels what a workflow instance waits for, of all kinds: it was terminated. */
  async cancelFor(of: InstanceOf, reason: string): Promise<void> {
    await this.lifecycle.ready();
    for (const kind of this.#kinds.values()) await kind.cancelFor?.(of, reason);
    this.#cancelAll(of, reason);
  }

  /** Cancels the approvals and webhook waits that an ended run has left open. */
  async endRun(of: InstanceOf): Promise<void> {
    await this.lifecycle.ready();
    this.#runs.end(of);
  }

  /** Restarts a workflow. What its earlier run has left open is cancelled unless the new run asks for it. */
  async restartRun(of: InstanceOf, restart: () => Promise<void>): Promise<void> {
    await this.lifecycle.ready();
    const until = await this.#runs.restart(of, restart);
    if (until !== undefined) await this.wake.request(until);
  }

  /** Cancels a wait that no run waits for, if the agent was not notified: its workflow has ended, or was restarted. */
  async cancelIfGone(wait: Wait): Promise<void> {
    const end = await this.#runs.endOf(wait);
    const of = { workflow: wait.workflow.name, instance: wait.workflow.id };
    if (end === "gone") this.#cancelAll(of, "The workflow that waited for it was terminated");
    // What is inside another wait belongs to work that may go on.
    else if (end === "ended" && wait.parent === undefined) this.#runs.end(of);
    else if (end === "left") this.#close(wait.waitId, overdue(wait));
  }

  /** A wait that a step asks for although its run had ended: the run continues, from a step that a restart has named. */
  async #continued(wait: Wait): Promise<Wait> {
    return isLeft(wait) ? this.#reopen(wait, wait.run, wait.expiresAt) : wait;
  }

  /** Cancelled → open. */
  async #reopen({ waitId }: Wait, run: string, expiresAt: number): Promise<Wait> {
    const [opened, ended] = this.store.transaction(() => {
      const { data } = this.store.find(waitId) as Job;
      const open = { state: "pending", reason: null, result: null, ended_at: null } as const;
      const times = { due_at: expiresAt, expires_at: expiresAt };
      const changes = { ...open, ...times, data: JSON.stringify({ ...(data as WaitData), run }) };
      const job = this.store.change(waitId, changes, ["aborted"]) as Job;
      const wait = toWait(job);
      // What came meanwhile.
      const end = this.#kindOf(wait).endAtOpen?.(wait, wait);
      const ending = end && toEnd(end.closing, end.answeredBy);
      const all = ending && this.#engine.settleAll(waitId, ending, { isForced: true });
      return [job, all?.[0]] as const;
    });
    if (ended) this.#engine.announce(ended);
    else await this.#engine.added(opened);
    return toWait(ended ?? opened);
  }

  /** Open → open, for another run, with its own timeout. What is inside goes with it. */
  #takeOver({ waitId }: Wait, run: string, expiresAt: number): Wait | undefined {
    return this.store.transaction(() => {
      const job = this.store.find(waitId);
      const all = job ? [job, ...this.store.inside(waitId)] : [];
      const [taken] = all.map(({ id, data, dueAt = expiresAt, ...known }) => {
        const due = dueAt === known.expiresAt ? expiresAt : Math.min(dueAt, expiresAt);
        const changes = {
          ...{ data: JSON.stringify({ ...(data as WaitData), run }), expires_at: expiresAt },
          ...(due !== dueAt && { due_at: due }),
        };
        return this.store.change(id, changes);
      });
      return taken && toWait(taken);
    });
  }

  #cancelAll({ workflow, instance }: InstanceOf, reason: string): void {
    const closing: Closing = { status: "cancelled", result: { error: reason } };
    const all = this.stored.flatMap((kind) => this.store.live(kind));
    for (const { id, endedAt, data } of all) {
      const { name, id: of } = (data as WaitData).workflow;
      if (endedAt === undefined && name === workflow && of === instance) this.#close(id, closing);
    }
  }

  /** Drives an open wait at once: something has happened that it waits for. Once the object has started. */
  nudge(waitId: string): void {
    const job = this.store.find(waitId);
    if (job && job.endedAt === undefined) this.#engine.runSoon(job);
  }

  /** Newest first. */
  async list({ statuses, instance, ...query }: WaitQuery): Promise<Page<Wait>> {
    await this.lifecycle.ready();
    const reasons = statuses?.map((status) => (status === "open" ? "" : status));
    const data = instance === undefined ? undefined : (["$.workflow.id", instance] as const);
    const page = this.store.list({ ...query, reasons, data });
    return { ...page, items: page.items.map(toWait) };
  }

  /** Whether a closed wait is the answer for that run. */
  #answers(wait: Wait, run: string): boolean {
    if (wait.status === "open") return false;
    return wait.run === run || this.#kindOf(wait).answersLaterRuns(wait);
  }

  /** Whether a run that asks for an open wait takes it over. */
  #isTakenOver(wait: Wait, run: string, request: Json): boolean {
    if (wait.run === run || !this.#kindOf(wait).asksAnew) return true;
    return JSON.stringify(wait.request) === JSON.stringify(request);
  }

  /** Once the object has started. */
  find(waitId: string): Wait | undefined {
    const job = this.store.find(waitId);
    return job && toWait(job);
  }

  /** Once the object has started. */
  findByKey(key: string): Wait | undefined {
    const job = this.store.findByKey(key);
    return job && toWait(job);
  }

  #now(): number {
    return this.loop.clock.now();
  }
}

export type WaitQuery = {
  readonly kind: string;
  readonly isOpen?: boolean;
  readonly statuses?: readonly Wait["status"][] | undefined;
  /** The id of the workflow's instance. */
  readonly instance?: string | undefined;
  /** Only those that were opened before this one. */
  readonly before?: string | undefined;
  readonly limit: number;
};

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
