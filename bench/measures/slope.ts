/** Whether the steps of a workflow become slower with their number. */

import { inTurns, type Measure } from "../measure.ts";
import { median, reported, slope } from "../result.ts";

export const slopes: Measure = {
  name: "slope",
  does: "times isolated prompts in one workflow, and as many pairs of the engine's own do and waitForEvent",
  hasCounts: false,
  async run({ worker, steps }) {
    const times = (of: "prompts" | "pairs" | "pairs that ask") => () =>
      worker.ask("stepTimes", { of, count: steps });
    const found = await inTurns(1, {
      pairs: times("pairs"),
      asking: times("pairs that ask"),
      prompts: times("prompts"),
    });
    const result = (what: string, numbers: number[]) => ({
      what: `${what}, growth of a step's time over ${steps} in one workflow`,
      unit: "ms for each that came before",
      perdure: slope(numbers),
    });
    const [pairs, asking, prompts] = [
      found.pairs.flat(),
      found.asking.flat(),
      found.prompts.flat(),
    ];
    const ours = result("isolated prompts", prompts);
    const engine = result("the engine's pairs, after a look at the status", asking);
    return [
      result("the engine's pairs", pairs),
      engine,
      reported(ours, "no more than the engine's", ours.perdure <= engine.perdure),
      { what: "isolated prompts", unit: "ms", perdure: median(prompts) },
      {
        what: "the engine's pairs, after a look at the status",
        unit: "ms",
        perdure: median(asking),
      },
    ];
  },
};
