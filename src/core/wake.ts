/**
 * One durable wake per room: a Lifecycle job at the room's earliest due row.
 *
 * The rows are the truth and the job is their mirror. A wake may come early or
 * find nothing to do; it never comes later than asked for. This file is the
 * only one that knows the job queue.
 *
 * A job that is early enough already is left as it is, and one that is no
 * longer needed may lapse: each push or cancel is billed, a wake that finds
 * nothing is cheaper. In a sub-agent there is no alarm of its own, so the wake
 * is kept by the same room of the root agent and routed back when it fires.
 */

import type {
  LifecycleJobContext,
  LifecycleJobOutcome,
  LifecycleRouteAddress,
  LifecycleRouteContext,
  LifecycleServices,
} from "agents/lifecycle";
import { type Clock, LAST_ALARM } from "./clock.ts";

/** What one room's wakes say to each other across sub-agents. */
type WakeMessage =
  | { readonly verb: "arm"; readonly time: number }
  | { readonly verb: "disarm" }
  | { readonly verb: "fire" }
  | { readonly verb: WakesVerb; readonly path: AgentPath };

/** What happens to the wakes of a sub-agent that is deleted: before, they come soon, and afterwards they are removed. */
export type WakesVerb = "hasten" | "remove";

/** Where a sub-agent is: the steps to it, from the root on, as `selfPath` of an agent has them. */
export type AgentPath = readonly { readonly className: string; readonly name: string }[];

/** How long after a failed drive, or a wake that could not be armed, it is tried again. */
const FAILED_DRIVE_DELAY_MS = 30_000;
/**
 * How far an alarm may be from its time. Lifecycle itself sets one 30 seconds ahead while it starts and while it runs
 * jobs; one that is later than this is lost: the platform gives an alarm up after six failures, a failed start included.
 */
const TOLERANCE_MS = 30_000;
/** The wakes of a sub-agent that is being deleted come so soon, and lapse, if a crash keeps them from being removed. */
const HASTENED_MS = 30_000;

export class Wake {
  /** When the job fires; null: there is none; undefined: not read since the start. */
  #armedFor: number | null | undefined;
  /** When the job was last pushed in this life. */
  #pushedAt = Number.NEGATIVE_INFINITY;
  /** Whether the job was pushed or removed since the last drive began. */
  #hasChanged = false;
  /** The latest push, as long as it is under way: until then nothing is armed. */
  #pushing: Promise<void> | undefined;

  /**
   * @param services the room's Lifecycle services, once installed
   * @param room the room's capability id; the job's id begins with it, because job ids are shared
   * @param drive does what is due and returns when the room next wants to be woken, or null
   * @param clock says when it is tried again after a drive that failed
   */
  constructor(
    private readonly services: () => LifecycleServices,
    private readonly room: string,
    private readonly drive: () => Promise<number | null>,
    private readonly clock: Pick<Clock, "now">,
  ) {}

  /** When the armed wake comes (epoch milliseconds), or null when there is none. */
  get armedFor(): number | null {
    if (this.#armedFor === undefined) {
      // A sub-agent cannot look into the root's queue; pushing again replaces the job.
      const job = this.#isRouted() ? undefined : this.services().jobs.get(this.#jobId());
      this.#armedFor = job?.time ?? null;
    }
    return this.#armedFor;
  }

  /**
   * Sets the alarm again if it was lost. Call it at each start: an earlier life's jobs do not run without an alarm.
   * A start that finds the alarm writes nothing. The root does it for its sub-agents, whose jobs are in its queue.
   */
  async restore(): Promise<void> {
    if (this.#isRouted()) return;
    const { jobs, storage } = this.services();
    const alarm = await storage.getAlarm();
    const now = this.clock.now();
    if (alarm !== null && Math.abs(alarm - now) <= TOLERANCE_MS) return;
    const [first] = jobs.list();
    if (!first) return;
    const isLost = alarm === null || alarm < now || alarm > Math.max(first.time, now);
    if (isLost) await jobs.rearm();
  }

  /** Makes sure that a wake comes at or before `time` (epoch milliseconds). */
  async noLaterThan(time: number): Promise<void> {
    const armed = this.armedFor;
    const wanted = Math.min(time, armed ?? LAST_ALARM, LAST_ALARM);
    if (armed === null || wanted < armed || this.#isLost(armed)) {
      const pushing = this.#push(wanted).finally(() => {
        if (this.#pushing === pushing) this.#pushing = undefined;
      });
      this.#pushing = pushing;
    }
    await this.#pushing;
  }

  /** Whether the alarm should have come long ago, and was not set lately. */
  #isLost(armed: number): boolean {
    return Math.max(armed, this.#pushedAt) < this.clock.now() - TOLERANCE_MS;
  }

  /** Removes the wake, where the room must hold none. */
  async clear(): Promise<void> {
    if (this.armedFor === null) return;
    this.#armedFor = null;
    this.#hasChanged = true;
    if (this.#isRouted()) await this.services().routes.toRoot({ verb: "disarm" });
    else await this.services().jobs.cancel(this.#jobId());
  }

  /** {@link noLaterThan} for a caller with nothing to wait for. */
  request(time: number): void {
    this.noLaterThan(time).catch((error) => {
      this.#report(error);
      // Nobody else may come before the object is evicted, and no alarm would start it again.
      setTimeout(() => this.request(time), FAILED_DRIVE_DELAY_MS);
    });
  }

  /** {@link clear} for a caller with nothing to wait for. What is not removed finds nothing to do. */
  release(): void {
    this.clear().catch((error) => this.#report(error));
  }

  #report(error: unknown): void {
    console.error(`[perdure] the wake of ${this.room} could not be changed:`, error);
  }

  /** The room's `onJob`. */
  async onJob({ job }: LifecycleJobContext): Promise<LifecycleJobOutcome> {
    const owner = (job.payload as { owner?: LifecycleRouteAddress } | undefined)?.owner;
    const next = owner
      ? await this.services().routes.to(owner, { verb: "fire" })
      : await this.#fire();
    // Anything but a time: nothing to do, or a sub-agent that is gone.
    return typeof next === "number" ? { rescheduleAt: next } : undefined;
  }

  /** The room's `onJobError`: a drive that keeps failing is not given up, only made rarer. */
  onJobError(_context: LifecycleJobContext, error: unknown): LifecycleJobOutcome {
    console.error(`[perdure] ${this.room} could not do what was due, and tries again:`, error);
    this.#armedFor = undefined;
    return { rescheduleAt: this.clock.now() + FAILED_DRIVE_DELAY_MS };
  }

  /** The room's `onRoute`. */
  async onRoute({ source, payload }: LifecycleRouteContext): Promise<number | null> {
    const message = payload as WakeMessage;
    if (message.verb === "fire") return this.#fire();
    if ("path" in message) {
      await this.changeWakesOf(message.path, message.verb);
      return null;
    }
    if (!source) throw new Error(`A wake of ${this.room} was routed without its source`);
    const id = `${this.#jobId()}:${source.key}`;
    if (message.verb === "disarm") await this.services().jobs.cancel(id);
    else {
      const { time } = message;
      await this.services().jobs.push({ id, fn: "wake", time, payload: { owner: source } });
    }
    return null;
  }

  /** Changes the wakes that the root keeps for a sub-agent and for all below it. */
  async changeWakesOf(path: AgentPath, verb: WakesVerb): Promise<void> {
    const { jobs, routes } = this.services();
    if (this.#isRouted()) {
      await routes.toRoot({ verb, path });
      return;
    }
    const soon = this.clock.now() + HASTENED_MS;
    for (const { id, time, payload } of jobs.list()) {
      const { owner } = (payload ?? {}) as { owner?: LifecycleRouteAddress };
      if (owner === undefined || !isWithin(owner, path)) continue;
      if (verb === "remove") await jobs.cancel(id);
      else if (time > soon) await jobs.reschedule(id, soon);
    }
  }

  async #fire(): Promise<number | null> {
    this.#armedFor = null;
    this.#hasChanged = false;
    const wanted = await this.drive();
    const next = wanted === null ? null : Math.min(wanted, LAST_ALARM);
    // Whatever was pushed or removed during the drive wins over the outcome
    // that is returned here, so the outcome has to be pushed after it.
    if (!this.#hasChanged) this.#armedFor = next;
    else if (next !== null) await this.noLaterThan(next);
    return next;
  }

  async #push(time: number): Promise<void> {
    this.#armedFor = time;
    this.#pushedAt = this.clock.now();
    this.#hasChanged = true;
    try {
      if (this.#isRouted()) await this.services().routes.toRoot({ verb: "arm", time });
      else await this.services().jobs.push({ id: this.#jobId(), fn: "wake", time });
    } catch (error) {
      this.#armedFor = undefined;
      throw error;
    }
  }

  #isRouted(): boolean {
    return this.services().routes.source !== undefined;
  }

  #jobId(): string {
    return `${this.room}:wake`;
  }
}

/** Agents writes an address as JSON of the path. One that it should write otherwise is left alone, and lapses when it is due. */
function isWithin({ data }: LifecycleRouteAddress, path: AgentPath): boolean {
  try {
    const steps = JSON.parse(data) as AgentPath;
    return path.every(
      ({ className, name }, at) => steps[at]?.className === className && steps[at]?.name === name,
    );
  } catch {
    return false;
  }
}
