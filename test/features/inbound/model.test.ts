/**
 * The arrival log on random sequences of arrivals, repetitions, replays and crashes. It is compared with a small model after
 * every step (test/support/model-test.ts). `VITE_PERDURE_INBOUND_RUNS`, `..._SEED` and `..._PATH` play more, others, or one again.
 */

import fc from "fast-check";
import { it, vi } from "vitest";
import { testAgainstModel } from "../../support/model-test.ts";
import { silence } from "../../support/scheduler.ts";
import { limitMs } from "../../support/sizes.ts";
import { InboundComparison } from "./model/inbound-comparison.ts";
import { inboundSteps } from "./model/inbound-model.ts";

it("I1 I2 I5 I7: the arrival log does what the model does after any sequence of commands and crashes", {
  timeout: limitMs(120_000),
}, async () => {
  silence();
  // A repetition may call another method than the first arrival.
  vi.spyOn(console, "warn").mockImplementation(() => {});
  await testAgainstModel({
    name: "INBOUND",
    runs: 40,
    steps: inboundSteps,
    start: fc.constant(undefined),
    shrinkMs: 500,
    subject: () => new InboundComparison(),
  });
});
