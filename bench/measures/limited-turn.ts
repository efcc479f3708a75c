/** What `limits()` adds to the time of a turn that is within its lease. */

import { inTurns, type Measure } from "../measure.ts";
import { median, type Result } from "../result.ts";

const ROUNDS = 9;
/** Turns whose time is taken together: the runtime's clock shows whole milliseconds. */
const TOGETHER = 5;
const FIRST = 4;
const PAIRS = 40;
/** Of the pairs of a round: those that took least, which other load on the machine has disturbed least. */
const QUIET = 1 / 3;
const GOAL_MS = 1;
/** What a machine under full load still reaches. */
const MOST_MS = 5;

export const limitedTurn: Measure = {
  name: "limited-turn",
  does: `times ${ROUNDS * PAIRS * TOGETHER} turns with limits() and as many without, ${TOGETHER} at a time, alternately: the median of the medians of ${ROUNDS} rounds`,
  hasCounts: false,
  async run({ worker }) {
    const round = async () => {
      const args = { first: FIRST, pairs: PAIRS, together: TOGETHER };
      const pairs = await worker.ask("limitedTurns", args);
      const sum = ({ limited, free }: (typeof pairs)[number]) => limited + free;
      const quiet = pairs
        .sort((one, other) => sum(one) - sum(other))
        .slice(0, Math.ceil(pairs.length * QUIET));
      return median(quiet.map(({ limited, free }) => limited - free));
    };
    const { more } = await inTurns(ROUNDS, { more: round });
    const perdure = median(more);
    const result: Result = {
      what: "a turn within its lease, above one without limits(), p50",
      unit: "ms",
      perdure,
      limit: {
        kind: "reported",
        goal: `at most ${GOAL_MS}; fails above ${MOST_MS}`,
        isReached: perdure <= GOAL_MS,
        isBelowFloor: !(perdure <= MOST_MS),
      },
    };
    return [result];
  },
};
