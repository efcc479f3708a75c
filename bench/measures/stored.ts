/** Whether the cost of a submission is independent of the number of stored ones. */

import { type Bench, inTurns, type Measure } from "../measure.ts";
import { atMost, median, type Result, reported } from "../result.ts";
import type { Cost } from "../worker/cost.ts";

const SIZES = [10, 1_000, 1_000_000];
const TIMES = 100;
const TURNS = 15;
const FLAT = 1.1;

export const stored: Measure = {
  name: "stored",
  does: `accepts, claims and settles with ${SIZES.map((size) => size.toLocaleString("en")).join(", ")} stored`,
  hasCounts: true,
  async run({ worker, onlyCounts }) {
    const ledgers = SIZES.map((size) => ({ size, name: `counted-stored-${size}` }));
    const reads: Result[] = [];
    for (const { size, name } of ledgers) {
      await worker.ask("storeEnded", { name, count: size });
      // The first one after a start counts the pending ones.
      await worker.ask("passTime", { name, times: 1 });
      const { rowsRead } = await costOf(worker, name);
      reads.push({
        what: `accept, claim and settle, ${size.toLocaleString("en")} stored`,
        unit: "rows read",
        perdure: rowsRead,
        limit: atMost(reads[0]?.perdure ?? rowsRead),
      });
    }
    if (onlyCounts) return reads;
    const pass = (name: string) => () => worker.ask("passTime", { name, times: TIMES });
    const found = await inTurns(
      TURNS,
      Object.fromEntries(ledgers.map(({ size, name }) => [String(size), pass(name)])),
    );
    const ms = SIZES.map((size) => median(found[String(size)] ?? []));
    const times = SIZES.map((size, index) => {
      const perdure = ms[index] ?? Number.NaN;
      const what = `accept, claim and settle, ${size.toLocaleString("en")} stored`;
      const isFlat = perdure <= FLAT * Math.min(...ms);
      return reported({ what, unit: "ms", perdure }, "flat within 10 percent", isFlat);
    });
    return [...reads, ...times];
  },
};

/** The minimum of three, because an alarm of the previous burst may run during one. */
async function costOf(worker: Bench["worker"], name: string): Promise<Cost> {
  const costs: Cost[] = [];
  for (let time = 0; time < 3; time++) costs.push(await worker.ask("passCost", { name }));
  return costs.reduce((least, cost) => (cost.rowsRead < least.rowsRead ? cost : least));
}
