/**
 * The waits on random sequences of calls, deliveries, crashes and wakes. They are compared with a small model after every step
 * (test/support/model-test.ts). `VITE_PERDURE_WAITS_RUNS`, `..._SEED` and `..._PATH` play more, others, or one again.
 */

import fc from "fast-check";
import { it } from "vitest";
import { testAgainstModel } from "../../support/model-test.ts";
import { silence } from "../../support/scheduler.ts";
import { limitMs } from "../../support/sizes.ts";
import { WaitsComparison } from "./model/waits-comparison.ts";
import { waitsSteps } from "./model/waits-model.ts";

it("W1 W2 W3 W4 W5 O1: the waits do what the model does after any sequence of commands and crashes", {
  timeout: limitMs(120_000),
}, async () => {
  silence();
  await testAgainstModel({
    name: "WAITS",
    runs: 150,
    steps: waitsSteps,
    start: fc.constant(undefined),
    shrinkMs: 500,
    subject: () => new WaitsComparison(),
  });
});
