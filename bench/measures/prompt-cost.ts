/** The cost of a prompt in the object, whole and above a bare turn. */

import type { Measure } from "../measure.ts";
import { atMost, type Result } from "../result.ts";
import { COLD_STATEMENTS } from "../start-costs.ts";
import type { Cost } from "../worker/cost.ts";

/** Of the rows of a whole prompt. */
const ROWS_FLOOR = {
  atMost: 37,
  why:
    "25 rows are the bare turn's and 5 the tracking of workflows, which are not Perdure's. Of its 7, the submission is 3 (its row, its key, " +
    "its place in line), and its attempt, its end with the answer, the word of the end and its delivery 1 each. One less would be an attempt " +
    "that is counted before it has begun, which a crash could not tell from one that had.",
};

const COUNTS = [
  ["statements", "SQL statements", 105, 20],
  ["rowsWritten", "rows written", 36, 7],
  ["setAlarms", "setAlarm calls", 6, 2],
] as const;

export const promptCost: Measure = {
  name: "prompt-cost",
  does: "counts what a warm step.prompt() does to the object's storage, whole and above a bare turn",
  hasCounts: true,
  async run({ worker }) {
    const ours = await worker.ask("promptCost", { kind: "perdure" });
    const theirs = await worker.ask("promptCost", { kind: "built-in" });
    const whole = COUNTS.map(
      ([key, unit, most]): Result => ({
        what: "step.prompt(), whole, without the end of its workflow",
        unit,
        perdure: withoutEnd(ours.prompt, key),
        builtIn: withoutEnd(theirs.prompt, key),
        limit: atMost(most, key === "rowsWritten" ? ROWS_FLOOR : undefined),
      }),
    );
    const above = COUNTS.map(
      ([key, unit, , most]): Result => ({
        what: "its part above a bare turn, agents' tracking of workflows left out",
        unit,
        perdure: aboveTurn(ours, key),
        builtIn: aboveTurn(theirs, key),
        limit: atMost(most),
      }),
    );
    const engineSteps: Result = {
      what: "a workflow with one step.prompt()",
      unit: "steps of the engine",
      perdure: await worker.ask("engineSteps", { kind: "perdure" }),
      builtIn: await worker.ask("engineSteps", { kind: "built-in" }),
      limit: atMost(2),
    };
    const cold = async (kind: "perdure" | "built-in") => {
      const turn = await worker.ask("coldTurn", { kind });
      return turn.cold - turn.warm;
    };
    const coldStart: Result = {
      what: "a cold start, above a warm one",
      unit: "SQL statements",
      perdure: await cold("perdure"),
      builtIn: await cold("built-in"),
      limit: atMost(COLD_STATEMENTS),
    };
    return [...whole, ...above, engineSteps, coldStart];
  },
};

/** The built-in does not store the end. */
function withoutEnd(cost: Cost, key: (typeof COUNTS)[number][0]): number {
  return cost[key] - (key === "rowsWritten" ? cost.endRows : 0);
}

function aboveTurn(
  { prompt, turn }: { prompt: Cost; turn: Cost },
  key: (typeof COUNTS)[number][0],
): number {
  return prompt[key] - turn[key] - (key === "rowsWritten" ? prompt.trackingRows : 0);
}
