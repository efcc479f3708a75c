/** A capability that has only a wake, to test `engine/wake.ts` with the real job queue. */

import { systemClock } from "../../../src/core/clock.ts";
import type { Wake } from "../../../src/engine/wake.ts";
import { Capability } from "../../../src/engine/work-loop.ts";

export const WAKE_CAPABILITY = "test.wake";

export class WakeCapability extends Capability {
  /** How often it was driven since the last start. */
  drives = 0;
  /** What a test wants to happen in a wake. */
  onDrive: () => Promise<number | null> = async () => null;

  constructor() {
    super(WAKE_CAPABILITY, systemClock);
  }

  override get wake(): Wake {
    return this.loop.wake;
  }

  override drive(): Promise<number | null> {
    this.drives++;
    return this.onDrive();
  }
}
