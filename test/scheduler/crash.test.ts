/**
 * A crash at every write of what a scheduler does. Whatever was committed when,
 * no slot is lost, none has two runs, and no attempt is made twice under the
 * same number. What is played is in `matrix/scheduler.ts`.
 */

import { Scheduler } from "../../src/scheduler/index.ts";
import { playMatrix } from "../support/crash-matrix.ts";
import { SCHEDULER } from "./crash-scenarios.ts";

const READS = "reads only";

playMatrix("S1 S3 S4 S5", SCHEDULER, {
  owners: { Scheduler },
  harmless: {
    "Scheduler.onStart": "each life begins with it",
    "Scheduler.wake": "the room's alarm, which wakes every scenario",
    "Scheduler.adopt":
      "one transaction, which each start repeats until the other scheduler has disarmed",
    "Scheduler.list": READS,
    "Scheduler.inspect": READS,
    "Scheduler.runs": READS,
  },
});
