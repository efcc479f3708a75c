/**
 * Runs jobs: polls the open ones and stops what the ended ones have left, in the background, one of each at a time for a job, and
 * again when it is due. Ends each job once, with the jobs inside of it and its notification in one transaction. Expires jobs and
 * prunes ended ones.
 */

import { type Job, type JobEnd, type Kind, OPEN } from "./job.ts";
import { JobStore } from "./store.ts";
import { Sweep } from "./sweep.ts";
import { HEARTBEAT_MS, type WorkLoop } from "./work-loop.ts";

/** A poll that takes this long may never return: the object is no longer kept alive for it. */
const HUNG_MS = 3_600_000;
/** The delay before a wake looks at a hanging poll again: the object may have been restarted by then. */
const AFTER_HUNG_MS = 3_600_000;
/** Due jobs of one kind that one wake starts. */
const AT_A_TIME = 100;
const KEPT_MS = 30 * 86_400_000;

/** Ends a job inside of a job that has ended. */
const PARENT_ENDED: JobEnd = {
  state: "aborted",
  reason: "cancelled",
  result: { error: "What it was for has ended" },
};

/** A running poll or stop. */
type Run = {
  readonly id: string;
  readonly since: number;
  isStale: boolean;
  isHung: boolean;
};

export type Settling = {
  /** An end from outside: it notifies no waiter, and stops what runs for the job. */
  readonly isForced: boolean;
};

export class Engine {
  readonly #kinds = new Map<string, Kind>();
  readonly #running = new Map<string, Run>();
  readonly #sweep = new Sweep(() => this.loop.clock.random(), "perdure_jobs");
  #opened: JobStore | undefined;

  /**
   * @param missing for jobs whose kind the agent no longer has: a deploy that has it again polls them, or stops what runs for them
   * @param onNotified notifications of ends have committed
   */
  constructor(
    private readonly loop: WorkLoop,
    private readonly missing: Kind,
    private readonly onNotified: () => void,
  ) {}

  get store(): JobStore {
    this.#opened ??= new JobStore(this.loop.lifecycle.storage);
    return this.#opened;
  }

  /** Adds a kind, in the constructor of the host, so that its open jobs are polled from the start on. */
  install(name: string, kind: Kind): void {
    this.#kinds.set(name, kind);
  }

  has(name: string): boolean {
    return this.#kinds.has(name);
  }

  /** Continues after a start of the object, which may have cut off any job. Returns the kinds that have live jobs. */
  async start(): Promise<string[]> {
    const { store } = this;
    store.start();
    for (const [name, { poll, stop }] of this.#kinds)
      if (poll ?? stop) for (const job of store.live(name)) this.run(job);
    const next = store.nextDue();
    if (next !== null) await this.loop.wake.noLaterThan(next);
    return next === null ? [] : store.kinds.filter((kind) => store.hasLive(kind));
  }

  /** Announces a job that was added, or is open again, and polls it. */
  async added(job: Job): Promise<void> {
    this.announce(job);
    const isPolled = this.#kindOf(job).poll !== undefined;
    if (isPolled) this.run(job);
    await this.loop.wake.request(isPolled ? this.#now() + HEARTBEAT_MS : job.expiresAt);
  }

  /**
   * Open → ended, with the jobs inside of it. The end, and its notification or the wake of the job that it is inside of, commit
   * together.
   *
   * @returns the job; undefined if it had ended before
   */
  settle(id: string, end: JobEnd, how: Settling): Job | undefined {
    const all = this.store.transaction(() => this.settleAll(id, end, how));
    this.settled(all, how);
    return all[0];
  }

  /**
   * {@link settle} in the caller's synchronous transaction, which may be rolled back. What follows in memory comes after the
   * caller's synchronous code.
   */
  settleWithin(id: string, end: JobEnd, how: Settling): Job | undefined {
    const all = this.store.transaction(() => this.settleAll(id, end, how));
    queueMicrotask(() =>
      this.loop.tryOrPause(id, "a job that has ended could not be announced", () => {
        const isCommitted = all.length > 0 && this.store.find(id)?.endedAt !== undefined;
        if (isCommitted) this.settled(all, how);
      }),
    );
    return all[0];
  }

  /** The rows of {@link settle}, in the caller's transaction. {@link settled} follows when it has committed. */
  settleAll(id: string, end: JobEnd, { isForced }: Settling): Job[] {
    const ended = this.#endAll(id, end, isForced);
    const [job] = ended;
    if (job?.parent !== undefined) this.store.rest(job.parent, this.#now());
    else if (job && !isForced) this.#kindOf(job).notify?.(job, end);
    return ended;
  }

  #endAll(id: string, { state, reason, result, endedBy }: JobEnd, isForced: boolean): Job[] {
    const { store } = this;
    const now = this.#now();
    const found = store.find(id);
    if (!found || found.endedAt !== undefined) return [];
    const hasToStop = isForced && this.#kindOf(found).stop !== undefined;
    const job = store.change(
      id,
      {
        ...{ state, ended_at: now, due_at: hasToStop ? now : null },
        ...{ reason, result: JSON.stringify(result) },
        ...(endedBy !== undefined && { ended_by: endedBy }),
      },
      OPEN,
    );
    if (!job) return [];
    const inside = store.inside(id);
    return [job, ...inside.flatMap((inner) => this.#endAll(inner.id, PARENT_ENDED, true))];
  }

  /** Announces ends that have committed, and stops or drives what they concern. */
  settled(all: readonly Job[], { isForced }: Settling): void {
    const [first] = all;
    if (!first) return;
    for (const job of all) {
      this.announce(job);
      if (job.dueAt !== undefined) this.runSoon(job);
    }
    const parent = first.parent === undefined ? undefined : this.store.find(first.parent);
    if (parent && parent.endedAt === undefined) this.runSoon(parent);
    const { wake } = this.loop;
    // The wake of the day on which the job would have expired comes soon instead, and finds the next one.
    if (wake.armedFor !== null) wake.request(this.#now() + HEARTBEAT_MS);
    if (!parent && !isForced) this.onNotified();
  }

  announce(job: Job): void {
    this.#kindOf(job).announce?.(job);
  }

  /** {@link run}, and again by a wake if the object restarts before it has returned. */
  runSoon(job: Job): void {
    this.run(job);
    this.loop.wake.request(this.#now() + HEARTBEAT_MS);
  }

  /** Polls an open job, or stops what runs for an ended one; once more if that is running already. Never fails. */
  run({ id, endedAt, kind }: Pick<Job, "id" | "endedAt" | "kind">): void {
    if (!this.has(kind)) return;
    const name = runName({ id, endedAt });
    const running = this.#running.get(name);
    if (running) {
      running.isStale = true;
      return;
    }
    const run: Run = { id, since: this.#now(), isStale: false, isHung: false };
    this.#running.set(name, run);
    const work = this.#run(id).finally(() => {
      this.#running.delete(name);
      if (!run.isStale) return;
      this.loop.tryOrPause(id, "a job could not be read", () => {
        const job = this.store.find(id);
        if (job?.dueAt !== undefined) this.run(job);
      });
    });
    this.loop.track(run, work);
  }

  async #run(id: string): Promise<void> {
    const { clock, wake, inHostContext } = this.loop;
    const { store } = this;
    let again: number | null = null;
    try {
      const job = store.find(id);
      if (job?.dueAt === undefined) return;
      const kind = this.#kindOf(job);
      await inHostContext(async () => {
        if (job.endedAt === undefined) again = (await kind.poll?.(job)) ?? null;
        else await kind.stop?.(job);
      });
      if (job.endedAt !== undefined) store.stopped(id);
      else this.#rest(id, again);
    } catch (error) {
      console.error("[perdure] a job could not be run, will retry:", error);
      const until = clock.now() + HEARTBEAT_MS;
      again = until;
      const what = "the next run of a job could not be stored";
      this.loop.tryOrPause(id, what, () => {
        if (store.find(id)?.dueAt !== undefined) store.rest(id, until);
      });
    }
    if (again !== null) wake.request(again);
  }

  /** An open job is due at that time, or when it expires. */
  #rest(id: string, time: number | null): void {
    const job = this.store.find(id);
    if (!job || job.endedAt !== undefined) return;
    this.store.rest(id, Math.min(job.expiresAt, time ?? Number.MAX_SAFE_INTEGER));
  }

  /** Does what is due. Returns when the next job is, or null. */
  drive(): number | null {
    const { store } = this;
    const now = this.#now();
    this.#giveUpHung(now);
    for (const job of store.due(now, AT_A_TIME)) {
      const { id, endedAt } = job;
      const kind = this.#kindOf(job);
      const end = endedAt === undefined ? kind.expire(job, now) : undefined;
      if (end) this.settle(id, end, { isForced: true });
      else if (endedAt !== undefined && !this.has(job.kind)) this.#restMissing(job, now);
      else if (endedAt === undefined && kind.poll === undefined) this.#rest(id, null);
      else if (this.#running.get(runName(job))?.isHung) this.#restHung(job, now);
      else this.run(job);
    }
    store.prune(now - KEPT_MS, this.#sweep);
    // A job that is polled now is still due by its row.
    return this.loop.isBusy ? null : store.nextDue();
  }

  #giveUpHung(now: number): void {
    for (const run of this.#running.values()) {
      if (run.isHung || now - run.since < HUNG_MS) continue;
      run.isHung = true;
      this.loop.untrack(run);
      console.error(`[perdure] the job ${run.id} is polled for more than an hour, and may hang`);
      const job = this.store.find(run.id);
      if (job) this.#restHung(job, now);
    }
  }

  /** Forgets what runs for an ended job with the job, where no deploy has its kind again. */
  #restMissing({ id, endedAt = 0 }: Job, now: number): void {
    const until = endedAt + KEPT_MS;
    if (until > now) this.store.rest(id, until);
    else this.store.stopped(id);
  }

  /** An open job still expires at its time. */
  #restHung({ id, endedAt }: Job, now: number): void {
    const until = now + AFTER_HUNG_MS;
    if (endedAt === undefined) this.#rest(id, until);
    else this.store.rest(id, until);
  }

  #kindOf({ kind }: Pick<Job, "kind">): Kind {
    return this.#kinds.get(kind) ?? this.missing;
  }

  #now(): number {
    return this.loop.clock.now();
  }
}

/** One poll and one stop of a job at a time. */
function runName({ id, endedAt }: Pick<Job, "id" | "endedAt">): string {
  return `${endedAt === undefined ? "poll" : "stop"}:${id}`;
}
