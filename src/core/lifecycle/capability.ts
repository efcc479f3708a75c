/** The base class of the modules' capabilities: gives each its work loop, and passes jobs and routed messages to its wake. */

import {
  LifecycleCapability,
  type LifecycleJobContext,
  type LifecycleRouteContext,
} from "agents/lifecycle";
import type { Clock } from "../clock.ts";
import type { AgentPath, AlarmState, Wake, WakesVerb } from "./wake.ts";
import { WorkLoop } from "./work-loop.ts";

export abstract class Capability extends LifecycleCapability {
  protected readonly loop: WorkLoop;

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

  override async onStart(): Promise<void> {
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

  /** For a health report. */
  async inspectWake(): Promise<AlarmState | undefined> {
    await this.lifecycle.ready();
    return this.wake.inspect();
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
