/** What a room is to Lifecycle: a capability whose jobs and routed messages are those of its one wake. */

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

  /** For hosts: a sub-agent is about to be deleted, or was. Its wakes, and those of all below it, come soon, or are removed. */
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
