/** The base class of the modules' capabilities: passes Lifecycle's jobs and routed messages to the module's one wake. */

import {
  LifecycleCapability,
  type LifecycleJobContext,
  type LifecycleRouteContext,
} from "agents/lifecycle";
import type { AgentPath, Wake, WakesVerb } from "./wake.ts";

export abstract class Capability extends LifecycleCapability {
  protected abstract readonly wake: Wake;

  override async onStart(): Promise<void> {
    await this.wake.restore();
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
