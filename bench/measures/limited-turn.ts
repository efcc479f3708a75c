/** What `limits()` adds to the time of a turn that is within its lease. */

import { inTurns, type Measure } from "../measure.ts";
import { median, reported } from "../result.ts";

const ROUNDS = 9;
/** Turns whose time is taken together: the runtime's clock shows whole milliseconds. */
const TOGETHER = 10;
const FIRST = 2;
const PAIRS = 20;
const GOAL_MS = 1;

export const limitedTurn: Measure = {
  name: "limited-turn",
  does: `times ${ROUNDS * PAIRS * TOGETHER} turns with limits() and as many without, ${TOGETHER} at a time, alternately: the median of the medians of ${ROUNDS} rounds`,
  hasCounts: false,
  async run({ worker }) {
    const round = async () =>
      median(await worker.ask("limitedTurns", { first: FIRST, pairs: PAIRS, together: TOGETHER }));
    const { more } = await inTurns(ROUNDS, { more: round });
    const result = {
      what: "a turn within its lease, above one without limits(), p50",
      unit: "ms",
      perdure: median(more),
    };
    return [reported(result, `at most ${GOAL_MS}`, result.perdure <= GOAL_MS)];
  },
};
