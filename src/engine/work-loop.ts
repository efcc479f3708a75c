/**
 * The base class of the modules' capabilities: the work in flight, the pauses after failed storage calls, and the module's part in
 * the object's one wake.
 *
 * A wake comes at the earliest of three times: what the module's `drive()` returns; the end of a pause; and, while work
 * is in flight, the next heartbeat, so that a crash of the object delays the work by no more than that. The alarm that
 * brought the wake stays open until the work in flight has ended. A loop that watches its work by a timer has fewer
 * heartbeats: each sets an alarm, which is billed.
 */

import {
  getCurrentAgent,
  LifecycleCapability,
  type LifecycleJobContext,
  type LifecycleRouteContext,
  type LifecycleServices,
} from "agents/lifecycle";
import { type Clock, earliest } from "../core/clock.ts";
import { InvalidOptionError, invalidMessage } from "../core/options/options.ts";
import { type AgentPath, Wake, type WakesVerb } from "./wake.ts";

/** How often the object wakes while work is in flight. */
export const HEARTBEAT_MS = 30_000;
/** How often at least, where the work is watched. The heartbeat is twice as long as the youngest work has taken. */
const MAX_HEARTBEAT_MS = 120_000;
const WATCH_MS = 10_000;

export class WorkLoop {
  readonly wake: Wake;
  /** Work that began before this time, epoch milliseconds, belongs to an earlier object instance. */
  readonly startedAt: number;
  readonly #inFlight = new Map<object, { work: Promise<unknown>; since: number }>();
  #timer: ReturnType<typeof setInterval> | undefined;
  /** When each pause ends, epoch milliseconds. */
  readonly #pauses = new Map<string, number>();

  /**
   * @param id the capability's id
   * @param drive does what is due, and returns when there is more to do, or null
   * @param watch called every 10 seconds while work is in flight
   */
  constructor(
    id: string,
    readonly clock: Clock,
    private readonly services: () => LifecycleServices,
    drive: () => Promise<number | null>,
    private readonly watch?: () => void,
  ) {
    this.startedAt = clock.now();
    const driveAndTrack = async () => {
      for (const key of this.#pauses.keys()) if (!this.isPaused(key)) this.#pauses.delete(key);
      const next = await drive();
      const all = Array.from(this.#inFlight.values(), ({ work }) => work);
      if (all.length > 0) services().trackAlarmWork(Promise.all(all));
      return this.nextWake(next);
    };
    this.wake = new Wake(services, id, driveAndTrack, clock, () => this.isBusy);
  }

  /** Available once the module is installed, which is after its construction. */
  get lifecycle(): LifecycleServices {
    return this.services();
  }

  /** Runs code of the app in the host's context. */
  readonly inHostContext = <T>(work: () => Promise<T>): Promise<T> =>
    this.services().runInHostContext(work) as Promise<T>;

  get isBusy(): boolean {
    return this.#inFlight.size > 0;
  }

  /**
   * Counts work as in flight until it has ended, or {@link untrack} is called.
   *
   * @param work never rejects
   */
  track(key: object, work: Promise<unknown>): void {
    this.#inFlight.set(key, { work, since: this.clock.now() });
    if (this.watch) this.#timer ??= setInterval(this.watch, WATCH_MS);
    void work.finally(() => {
      if (this.#inFlight.get(key)?.work === work) this.untrack(key);
    });
  }

  untrack(key: object): void {
    this.#inFlight.delete(key);
    if (this.isBusy) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  /** Does work that may fail because of storage. A failure is logged, and pauses the key. */
  tryOrPause(key: string, what: string, work: () => void, pauseMs = HEARTBEAT_MS): void {
    try {
      work();
    } catch (error) {
      this.failed(key, what, error, pauseMs);
    }
  }

  /** A storage call has failed: pauses the key, and wakes when the pause is over. */
  failed(key: string, what: string, error: unknown, pauseMs = HEARTBEAT_MS): void {
    console.error(`[perdure] ${what}:`, error);
    this.wake.request(this.pause(key, pauseMs));
  }

  pause(key: string, pauseMs = HEARTBEAT_MS): number {
    const until = this.clock.now() + pauseMs;
    this.#pauses.set(key, until);
    return until;
  }

  isPaused(key: string): boolean {
    return (this.#pauses.get(key) ?? 0) > this.clock.now();
  }

  get paused(): string[] {
    return [...this.#pauses.keys()].filter((key) => this.isPaused(key));
  }

  /**
   * When the object must be awake, or null. A pause counts until a wake has come after it.
   *
   * @param next when the module has something to do, or null
   */
  nextWake(next: number | null): number | null {
    const now = this.clock.now();
    const ages = Array.from(this.#inFlight.values(), ({ since }) => now - since);
    const heartbeat = this.watch ? Math.max(2 * Math.min(...ages), HEARTBEAT_MS) : HEARTBEAT_MS;
    return earliest([
      next,
      this.isBusy ? now + Math.min(heartbeat, MAX_HEARTBEAT_MS) : null,
      ...this.#pauses.values(),
    ]);
  }
}

/** The Lifecycle installs its `alarm` unless the object has one, and then no wake arrives. That of an Agent drives the Lifecycle. */
function refuseOwnAlarm(object: object | undefined): void {
  if (!object || "keepAlive" in object) return;
  const own = Object.getOwnPropertyDescriptor(object, "alarm");
  // The Lifecycle's is not enumerable, as no field of a class is.
  if (own ? !own.enumerable : !("alarm" in object)) return;
  const problem =
    "it replaces that of the Lifecycle, and no wake of Perdure arrives. Rename it to onAlarm(), or use Scheduler of agents/schedules";
  throw new InvalidOptionError(
    "alarm",
    invalidMessage("alarm()", `of ${object.constructor.name}`, problem),
  );
}

/** Gives a module its work loop, and passes jobs and routed messages to its wake. */
export abstract class Capability extends LifecycleCapability {
  readonly loop: WorkLoop;

  /** @param watch called every 10 seconds while work is in flight, which then has fewer heartbeats */
  constructor(id: string, clock: Clock, watch?: () => void) {
    super(id);
    this.loop = new WorkLoop(
      id,
      clock,
      () => this.lifecycle,
      () => this.drive(),
      watch,
    );
  }

  /** Does what is due, and returns when there is more to do, or null. */
  protected abstract drive(): Promise<number | null>;

  protected get wake(): Wake {
    return this.loop.wake;
  }

  /** @throws InvalidOptionError for a plain object with an `alarm()` of its own */
  override async onStart(): Promise<void> {
    await this.lifecycle.runInHostContext(() => refuseOwnAlarm(getCurrentAgent().agent));
    await this.wake.restore();
  }

  /** Resolves when the object has started. */
  async ready(): Promise<void> {
    await this.lifecycle.ready();
  }

  /** For hosts: expedites the wakes of a sub-agent before it is deleted, and removes them afterwards. */
  async changeWakesOf(path: AgentPath, verb: WakesVerb): Promise<void> {
    await this.lifecycle.ready();
    await this.wake.changeWakesOf(path, verb);
  }

  onJob(context: LifecycleJobContext) {
    return this.wake.onJob(context);
  }

  onJobError(context: LifecycleJobContext, error: unknown) {
    return this.wake.onJobError(context, error);
  }

  onRoute(context: LifecycleRouteContext) {
    return this.wake.onRoute(context);
  }
}
