/**
 * S1 S3 S5 on random sequences of time, edits, verbs, failures and crashes: no occurrence runs twice, and none is lost. The
 * scheduler is compared with a small model after every step (test/support/model-test.ts).
 * `VITE_PERDURE_SCHEDULER_MODEL_RUNS`, `..._SEED` and `..._PATH` play more, others, or one again.
 */

import fc from "fast-check";
import { it } from "vitest";
import { testAgainstModel } from "../support/model-test.ts";
import { silence } from "../support/scheduler.ts";
import { limitMs } from "../support/sizes.ts";
import { SchedulerComparison } from "./model/scheduler-comparison.ts";
import { schedulerSteps } from "./model/scheduler-model.ts";

it("S1 S3 S5: after any sequence of commands and crashes, each occurrence that passed has one run", {
  timeout: limitMs(300_000),
}, async () => {
  silence();
  await testAgainstModel({
    name: "SCHEDULER_MODEL",
    runs: 14,
    steps: schedulerSteps,
    start: fc.constant(undefined),
    shrinkMs: 1_000,
    subject: () => new SchedulerComparison(),
  });
});
