/** A capability that has only a wake, to test `core/wake.ts` with the real job queue. */

import { Capability } from "../../src/core/capability.ts";
import { systemClock } from "../../src/core/clock.ts";
import { Wake } from "../../src/core/wake.ts";

export const ROOM = "test.room";

export class WakeRoom extends Capability {
  override readonly wake = new Wake(
    () => this.lifecycle,
    ROOM,
    async () => {
      this.drives++;
      return this.drive();
    },
    systemClock,
  );
  /** How often it was driven since the last start. */
  drives = 0;
  /** What a test wants to happen in a wake. */
  drive: () => Promise<number | null> = async () => null;

  constructor() {
    super(ROOM);
  }
}
