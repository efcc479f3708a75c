/** Accepted submissions of one object per second. */

import { inTurns, type Measure } from "../measure.ts";
import { median, timesMore } from "../result.ts";

const COUNT = 500;
const TURNS = 9;
const GOAL = 2.5;
/** What a machine under full load still reaches. */
const FLOOR = 1.5;

export const submitRate: Measure = {
  name: "submit-rate",
  does: `times ${COUNT} submitMessages() on one object with a turn that runs, ${TURNS} times each`,
  hasCounts: false,
  async run({ worker }) {
    const rate = async (kind: "perdure" | "built-in") =>
      COUNT / ((await worker.ask("submitTime", { kind, count: COUNT })) / 1_000);
    const rates = await inTurns(TURNS, {
      perdure: () => rate("perdure"),
      builtIn: () => rate("built-in"),
    });
    const result = {
      what: "submitMessages() accepted on one object",
      unit: "a second",
      perdure: median(rates.perdure),
      builtIn: median(rates.builtIn),
    };
    return [timesMore(result, GOAL, FLOOR)];
  },
};
