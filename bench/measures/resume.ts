/** How soon a workflow resumes after its turn, with other turns queued. */

import { inTurns, type Measure } from "../measure.ts";
import { median, type Result, reported, shareOf } from "../result.ts";

const DELAY_MS = 500;
/** Think's own implementation needs seconds for each, and a minute with more queued turns. */
const TURNS = 3;
/** Of Perdure, for each turn of the built-in. */
const TIMES = 3;
/** The tolerance of medians of few values on a shared machine. */
const ALIKE = 1.5;

export const resume: Measure = {
  name: "resume",
  does: `times the resume of a workflow after its turn, with 0, 10 and 100 turns of ${DELAY_MS} ms behind it`,
  hasCounts: false,
  async run({ worker }) {
    const one = (kind: "perdure" | "built-in", behind: number) =>
      worker.ask("resume", { kind, behind, delayMs: DELAY_MS });
    const some = async (behind: number) => {
      const found = [];
      for (let index = 0; index < TIMES; index++) found.push(await one("perdure", behind));
      return found;
    };
    const found = await inTurns(TURNS, {
      none: () => some(0),
      ten: () => some(10),
      builtInNone: async () => [await one("built-in", 0)],
      hundred: () => some(100),
      builtInTen: async () => [await one("built-in", 10)],
    });
    const ms = (key: keyof typeof found) => median(found[key].flat());
    const result = (behind: number, perdure: number, builtIn?: number): Result => ({
      what: `resume of a workflow after its turn, ${behind} behind it`,
      unit: "ms",
      perdure,
      builtIn,
    });
    const none = ms("none");
    const hundred = ms("hundred");
    return [
      result(0, none, ms("builtInNone")),
      shareOf(result(10, ms("ten"), ms("builtInTen")), 0.02),
      reported(result(100, hundred), "the same as with none", hundred <= ALIKE * none),
    ];
  },
};
