/**
 * The one durable wake of an object: a Lifecycle job at the time of the earliest due row of all its modules. This is the only file
 * that uses the job queue.
 *
 * The rows are the truth and the job mirrors them. A wake may come early or find nothing to do; it never comes late.
 * An existing job that is early enough is kept, and a job that is no longer needed may fire: each push or cancel is
 * billed, and a wake without work is cheaper. A sub-agent has no alarm: the root agent's capability with the same id
 * keeps the job and routes it back when it fires.
 */

import type {
  LifecycleJobContext,
  LifecycleJobOutcome,
  LifecycleRouteAddress,
  LifecycleRouteContext,
  LifecycleServices,
} from "agents/lifecycle";
import { type Clock, earliest, LAST_ALARM, withTimeout } from "../core/clock.ts";
import { failureOf } from "../core/failures.ts";
import { emit } from "./events.ts";
import { isReset } from "./resets.ts";

/** Messages between a root agent and its sub-agents. */
type WakeMessage =
  | { readonly verb: "arm"; readonly time: number }
  | { readonly verb: "disarm" }
  | { readonly verb: "fire" }
  | { readonly verb: "ping" }
  | { readonly verb: WakesVerb; readonly path: AgentPath };

/** What to do with the wakes of a sub-agent: make them fire soon (before it is deleted), or remove them (afterwards). */
export type WakesVerb = "expedite" | "remove";

/** The path from the root to a sub-agent, as `selfPath` of an agent. */
export type AgentPath = readonly { readonly className: string; readonly name: string }[];

/** Epoch milliseconds; null where there is none. */
export type AlarmState = {
  /** When the first job is due, those for sub-agents included. */
  readonly jobAt: number | null;
  readonly ownJobAt: number | null;
  readonly alarmAt: number | null;
};

/** The delay before a failed drive, or a wake that could not be armed, is retried. */
const FAILED_DRIVE_DELAY_MS = 30_000;
/**
 * An alarm that is later than this is lost: the platform drops an alarm after six failures, failed starts included.
 * Lifecycle sets an alarm 30 seconds ahead while it starts and while it runs jobs.
 */
const TOLERANCE_MS = 30_000;
/** When the wakes of a sub-agent that is being deleted fire. If a crash prevents their removal, they find no sub-agent. */
const EXPEDITED_MS = 30_000;

/** How long a sub-agent waits for the answer of its root. */
const REACH_MS = 5_000;

/** The root of a sub-agent does not keep its wakes, so a crash would leave accepted work without one. Nothing was stored. */
export class RootAgentError extends Error {
  override readonly name = "RootAgentError";
  /** Whether the same call may succeed later: the root could not be reached. False: its class has no Perdure. */
  readonly retryable: boolean;

  constructor(cause: unknown, capability: string) {
    const { message } = failureOf(cause);
    // The text of agents, which has no code for it.
    const hasNone =
      message === `Lifecycle capability "${capability}" cannot receive routed messages`;
    const problem = hasNone ? "has no Perdure" : "could not be reached";
    const remedy = hasNone
      ? "Let the root's class extend DurableAgent or another host."
      : `Call again. The reason: ${message}`;
    super(`The root of this sub-agent ${problem}, and would not wake it after a crash. ${remedy}`, {
      cause,
    });
    this.retryable = !hasNone;
  }
}

/** What the modules of an object share. */
type ObjectWake = {
  /** In the order in which they are driven. The capability of the first one has the job. */
  readonly modules: Set<Wake>;
  /** When the job fires. null: no job. undefined: not read since the last start. */
  armedFor: number | null | undefined;
  /** When the job was last pushed since the last start. */
  pushedAt: number;
  /** The push in flight. Nothing is armed before it ends. */
  pushing: Promise<void> | undefined;
  /** Whether the job has fired, and its modules are driven. */
  isDriving: boolean;
  isRestored: boolean;
  /** Whether the root of a sub-agent keeps its wakes. */
  asked?: Promise<void>;
  refusal?: RootAgentError;
};

const objects = new WeakMap<DurableObjectStorage, ObjectWake>();

/** The wake of an object, as one of its modules uses it. */
export class Wake {
  /** When the module needs the wake at the latest, as far as it has said since the last start. */
  #need: number | null = null;

  /**
   * @param services the module's Lifecycle services, once installed
   * @param capability the capability's id; the job's id begins with it, because all capabilities share the job queue
   * @param drive does what is due, and returns when to wake next, or null
   * @param clock for the time of a retry
   * @param isBusy whether the module has work in flight
   */
  constructor(
    private readonly services: () => LifecycleServices,
    private readonly capability: string,
    private readonly drive: () => Promise<number | null>,
    private readonly clock: Pick<Clock, "now">,
    private readonly isBusy: () => boolean = () => false,
  ) {}

  /** When the next wake of the object fires (epoch milliseconds), or null. */
  get armedFor(): number | null {
    const object = this.#object;
    if (object.armedFor === undefined) {
      const { jobs, routes } = this.#owner.services();
      // A sub-agent cannot read the root's queue. Pushing again replaces the job.
      const job = routes.source === undefined ? jobs.get(this.#jobId) : undefined;
      object.armedFor = job?.time ?? null;
    }
    return object.armedFor;
  }

  /**
   * Sets a lost alarm again, without which stored jobs do not run. Each module calls it at its start, and the first call counts.
   * Writes nothing where the alarm is set. The root does it for its sub-agents, whose jobs are in its queue: a sub-agent asks
   * whether it keeps them.
   */
  async restore(): Promise<void> {
    const object = this.#object;
    if (object.isRestored) return;
    object.isRestored = true;
    if (this.#isRouted()) return this.#ask();
    const { jobs, storage } = this.#owner.services();
    const alarm = await storage.getAlarm();
    const now = this.clock.now();
    if (alarm !== null && Math.abs(alarm - now) <= TOLERANCE_MS) return;
    const all = jobs.list();
    object.armedFor = all.find(({ id }) => id === this.#jobId)?.time ?? null;
    const [first] = all;
    if (!first) return;
    const isLost = alarm === null || alarm < now || alarm > Math.max(first.time, now);
    if (isLost) await jobs.rearm();
  }

  /** Checks that the root of a sub-agent keeps its wakes. Call it before work is accepted. @throws RootAgentError */
  async reach(): Promise<void> {
    if (!this.#isRouted()) return;
    await this.#ask();
    this.check();
  }

  /** {@link reach} for a caller that cannot wait: what the root has answered so far. @throws RootAgentError */
  check(): void {
    const { refusal } = this.#object;
    if (!refusal) return;
    // The next call has the answer.
    if (refusal.retryable) void this.#ask();
    throw refusal;
  }

  /** Asks the root, unless it has answered since the last start. Never rejects. */
  async #ask(): Promise<void> {
    const object = this.#object;
    const { capability } = this.#owner;
    const { routes } = this.#owner.services();
    object.asked ??= withTimeout(routes.toRoot({ verb: "ping" }), REACH_MS).then(
      () => {
        delete object.refusal;
      },
      (error: unknown) => {
        object.refusal = new RootAgentError(error, capability);
        if (object.refusal.retryable) delete object.asked;
      },
    );
    await object.asked;
  }

  /** @throws RootAgentError */
  async #toRoot(message: WakeMessage): Promise<void> {
    const owner = this.#owner;
    try {
      await owner.services().routes.toRoot(message);
    } catch (error) {
      throw new RootAgentError(error, owner.capability);
    }
  }

  /** Ensures that a wake fires at or before `time` (epoch milliseconds). */
  async noLaterThan(time: number): Promise<void> {
    const object = this.#object;
    this.#need = Math.min(time, this.#need ?? LAST_ALARM, LAST_ALARM);
    // It returns the earliest need of all modules. Until then Lifecycle has an alarm, and the job is still due.
    if (object.isDriving) return;
    const armed = this.armedFor;
    if (armed === null || this.#need < armed || this.#isLost(armed)) {
      const pushing = this.#push(Math.min(this.#need, armed ?? LAST_ALARM)).finally(() => {
        if (object.pushing === pushing) object.pushing = undefined;
      });
      object.pushing = pushing;
    }
    await object.pushing;
  }

  /** Resolves when no push is in flight. Never rejects. */
  async settled(): Promise<void> {
    await this.#object.pushing?.catch(() => {});
  }

  /** Whether the alarm is overdue, and was not set recently. */
  #isLost(armed: number): boolean {
    return Math.max(armed, this.#object.pushedAt) < this.clock.now() - TOLERANCE_MS;
  }

  /** The module needs no wake any more. The job stays while another module needs it. */
  async clear(): Promise<void> {
    const object = this.#object;
    this.#need = null;
    const isNeeded = [...object.modules].some((wake) => wake.#need !== null);
    if (isNeeded || object.isDriving || this.armedFor === null) return;
    object.armedFor = null;
    if (this.#isRouted()) await this.#toRoot({ verb: "disarm" });
    else await this.#owner.services().jobs.cancel(this.#jobId);
  }

  /** {@link noLaterThan}. Never rejects: a failure is logged and retried. */
  request(time: number): Promise<void> {
    return this.noLaterThan(time).catch((error) => {
      this.#report(error);
      // There may be no other call before the object is evicted, and no alarm would start it again.
      setTimeout(() => this.request(time), FAILED_DRIVE_DELAY_MS);
    });
  }

  /** {@link clear}, without waiting for it. A failure is logged; the job then fires without work. */
  release(): void {
    this.clear().catch((error) => this.#report(error));
  }

  #report(error: unknown): void {
    console.error(`[perdure] ${this.capability}: the wake could not be changed:`, error);
  }

  async onJob({ job }: LifecycleJobContext): Promise<LifecycleJobOutcome> {
    const owner = (job.payload as { owner?: LifecycleRouteAddress } | undefined)?.owner;
    const next = owner
      ? await this.services().routes.to(owner, { verb: "fire" })
      : await this.#fire();
    // Not a number: no more work, or the sub-agent was deleted.
    return typeof next === "number" ? { rescheduleAt: next } : undefined;
  }

  /** The capability's `onJobError`: the platform has reset the object, or a sub-agent's drive has failed. */
  onJobError(_context: LifecycleJobContext, error: unknown): LifecycleJobOutcome {
    console.error(`[perdure] ${this.capability}: due work failed and is retried:`, error);
    this.#object.armedFor = undefined;
    return { rescheduleAt: this.clock.now() + FAILED_DRIVE_DELAY_MS };
  }

  async onRoute({ source, payload }: LifecycleRouteContext): Promise<number | null> {
    const message = payload as WakeMessage;
    if (message.verb === "fire") return this.#fire();
    if (message.verb === "ping") return null;
    if ("path" in message) {
      await this.changeWakesOf(message.path, message.verb);
      return null;
    }
    if (!source) throw new Error(`A wake of ${this.capability} was routed without a source`);
    const id = `${this.capability}:wake:${source.key}`;
    if (message.verb === "disarm") await this.services().jobs.cancel(id);
    else {
      const { time } = message;
      await this.services().jobs.push({ id, fn: "wake", time, payload: { owner: source } });
    }
    return null;
  }

  /** Expedites or removes the wakes that the root keeps for a sub-agent and for all sub-agents below it. */
  async changeWakesOf(path: AgentPath, verb: WakesVerb): Promise<void> {
    if (this.#isRouted()) {
      await this.#owner.services().routes.toRoot({ verb, path });
      return;
    }
    const soon = this.clock.now() + EXPEDITED_MS;
    for (const module of this.#object.modules) {
      const { jobs } = module.services();
      for (const { id, time, payload } of jobs.list()) {
        const { owner } = (payload ?? {}) as { owner?: LifecycleRouteAddress };
        if (owner === undefined || !isWithin(owner, path)) continue;
        if (verb === "remove") await jobs.cancel(id);
        else if (time > soon) await jobs.reschedule(id, soon);
      }
    }
  }

  /** Drives all modules of the object. Returns when the first of them needs the next wake, or null. */
  async #fire(): Promise<number | null> {
    const object = this.#object;
    object.armedFor = null;
    object.isDriving = true;
    try {
      for (const module of object.modules) await module.#driveDue();
    } finally {
      object.isDriving = false;
    }
    const { storage } = this.services();
    emit({ storage }, "wake", { isBusy: [...object.modules].some((module) => module.isBusy()) });
    object.armedFor = earliest(Array.from(object.modules, (module) => module.#need));
    return object.armedFor;
  }

  /** A module whose drive fails is driven again later, and stops no other. @throws the error of a reset of the platform */
  async #driveDue(): Promise<void> {
    this.#need = null;
    let next: number | null;
    try {
      next = await this.drive();
    } catch (error) {
      if (isReset(error)) throw error;
      console.error(`[perdure] ${this.capability}: due work failed and is retried:`, error);
      next = this.clock.now() + FAILED_DRIVE_DELAY_MS;
    }
    if (next !== null) this.#need = Math.min(next, this.#need ?? LAST_ALARM, LAST_ALARM);
  }

  async #push(time: number): Promise<void> {
    const object = this.#object;
    object.armedFor = time;
    object.pushedAt = this.clock.now();
    try {
      if (this.#isRouted()) await this.#toRoot({ verb: "arm", time });
      else await this.#owner.services().jobs.push({ id: this.#jobId, fn: "wake", time });
    } catch (error) {
      object.armedFor = undefined;
      throw error;
    }
  }

  #isRouted(): boolean {
    return this.services().routes.source !== undefined;
  }

  /** The module joins the others of its object at the first use. */
  get #object(): ObjectWake {
    const { storage } = this.services();
    const object: ObjectWake = objects.get(storage) ?? {
      modules: new Set(),
      armedFor: undefined,
      pushedAt: Number.NEGATIVE_INFINITY,
      pushing: undefined,
      isDriving: false,
      isRestored: false,
    };
    objects.set(storage, object);
    object.modules.add(this);
    return object;
  }

  /** The module whose capability has the job. */
  get #owner(): Wake {
    const [first] = this.#object.modules;
    return first ?? this;
  }

  get #jobId(): string {
    return `${this.#owner.capability}:wake`;
  }
}

const OWN_JOB = /^[\w.]+:wake$/;

/** For a health report: when the job of an object is due, and the alarm. Undefined for a sub-agent, which has none. */
export async function readAlarmState({
  jobs,
  routes,
  storage,
}: LifecycleServices): Promise<AlarmState | undefined> {
  if (routes.source !== undefined) return undefined;
  const all = jobs.list();
  return {
    jobAt: all[0]?.time ?? null,
    ownJobAt: all.find(({ id }) => OWN_JOB.test(id))?.time ?? null,
    alarmAt: await storage.getAlarm(),
  };
}

/** `agents` writes an address as JSON of the path. An address in another form does not match; its wake fires without work. */
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
