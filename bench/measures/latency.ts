/** How much longer than the model a prompt takes. */

import { inTurns, type Measure } from "../measure.ts";
import { quantile, shareOf } from "../result.ts";

const DELAY_MS = 50;
const COUNT = 20;
const TURNS = 6;

export const latency: Measure = {
  name: "latency",
  does: `times ${TURNS * COUNT} prompts each, ${COUNT} at a turn, with a model of ${DELAY_MS} ms`,
  hasCounts: false,
  async run({ worker }) {
    const some = (kind: "perdure" | "built-in") => () =>
      // Another agent each time: what a long conversation costs is Think's.
      worker.ask("latencies", { kind, count: COUNT, delayMs: DELAY_MS });
    const found = await inTurns(TURNS, { perdure: some("perdure"), builtIn: some("built-in") });
    return [0.5, 0.99].map((share) =>
      shareOf(
        {
          what: `step.prompt() beyond its model, p${share * 100}`,
          unit: "ms",
          perdure: quantile(found.perdure.flat(), share),
          builtIn: quantile(found.builtIn.flat(), share),
        },
        0.6,
      ),
    );
  },
};
