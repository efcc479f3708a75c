/** The time of a prompt beyond its model. */

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
      // A new agent each time, because Think slows down with a long conversation.
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
