/**
 * S1 S3 S5 under random sequences of time, edits, verbs, failures and crashes:
 * no slot runs twice, and none is lost. `VITE_PERDURE_SCHEDULER_MODEL_RUNS`,
 * `..._SEED` and `..._PATH` play more, others, or one again.
 */

import fc from "fast-check";
import { it } from "vitest";
import { limitMs } from "../support/knobs.ts";
import { playSequences } from "../support/model-test.ts";
import { silence } from "../support/scheduler.ts";
import { Play, STEP } from "./model/scheduler-comparison.ts";

it("S1 S3 S5: each slot that passed has one run, whatever happens in whatever order", {
  timeout: limitMs(300_000),
}, async () => {
  silence();
  await playSequences({
    name: "SCHEDULER_MODEL",
    runs: 14,
    step: STEP,
    given: fc.constant(undefined),
    hastyMs: 1_000,
    begin: () => new Play(),
  });
});
