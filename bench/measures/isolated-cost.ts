/** The writes of an isolated prompt on `perdure/agent`. */

import type { Measure } from "../measure.ts";
import { atMost } from "../result.ts";

export const isolatedCost: Measure = {
  name: "isolated-cost",
  does: "counts the rows of an isolated prompt on perdure/agent, from the step to the delivery",
  hasCounts: true,
  async run({ worker }) {
    const { rowsWritten, trackingRows, setAlarms } = await worker.ask("isolatedCost");
    const what = "an isolated prompt on perdure/agent, agents' tracking of workflows left out";
    return [
      { what, unit: "rows written", perdure: rowsWritten - trackingRows, limit: atMost(8) },
      { what, unit: "setAlarm calls", perdure: setAlarms },
    ];
  },
};
