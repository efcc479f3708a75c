/** The writes of an isolated prompt on a plain agent. */

import type { Measure } from "../measure.ts";
import { atMost } from "../result.ts";

export const isolatedCost: Measure = {
  name: "isolated-cost",
  does: "counts the rows of an isolated prompt on a plain Agent, from openWait() to the delivery",
  hasCounts: true,
  async run({ worker }) {
    const { rowsWritten, trackingRows, setAlarms } = await worker.ask("isolatedCost");
    const what = "an isolated prompt on a plain Agent, agents' tracking of workflows left out";
    return [
      { what, unit: "rows written", perdure: rowsWritten - trackingRows, limit: atMost(8) },
      { what, unit: "setAlarm calls", perdure: setAlarms },
    ];
  },
};
