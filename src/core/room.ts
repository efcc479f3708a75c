/** What a room is to Lifecycle: a capability whose jobs and routed messages are those of its one wake. */

import {
  LifecycleCapability,
  type LifecycleJobContext,
  type LifecycleRouteContext,
} from "agents/lifecycle";
import type { Wake } from "./wake.ts";

export abstract class Room extends LifecycleCapability {
  protected abstract readonly wake: Wake;

  override async onStart(): Promise<void> {
    await this.wake.restore();
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
