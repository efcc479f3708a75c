/** Rows of starts, of turns late in a thread, and of lists over many rows. All are counted through public names. */

import type { Count } from "../../src/testing/meter.ts";
import type { Measure } from "../measure.ts";
import type { Result } from "../result.ts";
import type { Host } from "../rows/requests.ts";

const HOSTS = ["object", "agent", "think"] as const satisfies readonly Host[];
const OPEN = 10_000;
const LANES = [1, 1_000];
const TURNS = [10, 100, 300];
const QUEUED = 8;
/** Ended submissions of each thread. */
const IN_THREAD = 10;

const UNITS = {
  rowsRead: "rows read",
  rowsWritten: "rows written",
  setAlarms: "setAlarm calls",
} as const;

const number = (value: number) => value.toLocaleString("en");

function countsOf(
  what: string,
  counts: Count,
  units: readonly (keyof typeof UNITS)[],
  builtIn?: Count | undefined,
): Result[] {
  return units.map((key) => ({
    what,
    unit: UNITS[key],
    perdure: counts[key],
    builtIn: builtIn?.[key],
  }));
}

export const firstStart: Measure = {
  name: "first-start",
  does: "counts the rows of the first start of a new object, and of its first prompt, on each host",
  hasCounts: true,
  async run({ start }) {
    const { ask } = await start("rows");
    const results: Result[] = [];
    for (const host of ["think", "agent", "agent with features", "object"] as const) {
      const ours = await ask("firstStart", { host });
      const theirs =
        host === "think" || host === "agent"
          ? await ask("firstStart", { host: `built-in ${host}` })
          : undefined;
      results.push(
        ...countsOf(
          `first start of a new object, perdure/${host}`,
          ours.start,
          ["rowsRead", "rowsWritten"],
          theirs?.start,
        ),
        ...(ours.withPrompt
          ? countsOf(
              `the same with its first prompt, perdure/${host}`,
              ours.withPrompt,
              ["rowsRead", "rowsWritten", "setAlarms"],
              theirs?.withPrompt,
            )
          : []),
      );
    }
    return results;
  },
};

export const rows: Measure = {
  name: "rows",
  does: `counts the rows of starts with ${number(OPEN)} pending submissions or dead letters, of turns ${TURNS.join(", ")} of a thread, and of deliveries and prompts`,
  hasCounts: false,
  isOnlyByName: true,
  async run({ start }) {
    const { ask } = await start("rows");
    const results: Result[] = [];
    const add = (...more: Result[]) => {
      for (const { what, unit, perdure } of more) console.log(`  ${what}: ${perdure} ${unit}`);
      results.push(...more);
    };
    for (const host of HOSTS) {
      const on = `perdure/${host}`;
      add(...countsOf(`a delivery, ${on}`, await ask("delivery", { host }), ["rowsWritten"]));
      for (const thread of ["isolated", "main"] as const) {
        for (const count of [1, QUEUED]) {
          const counts = await ask("prompts", { host, count, thread });
          const what = `step.prompt() in ${thread}, durable, ${count === 1 ? "alone" : `one of ${count} at once`}, ${on}`;
          const each = {
            ...counts,
            rowsWritten: counts.rowsWritten / count,
            setAlarms: counts.setAlarms / count,
          };
          add(...countsOf(what, each, ["rowsWritten", "setAlarms"]));
        }
      }
      const turns = await ask("threadTurns", { host, numbers: TURNS });
      for (const [index, turn] of TURNS.entries()) {
        const counts = turns[index];
        if (counts)
          add(...countsOf(`turn ${turn} of a thread, ${on}`, counts, ["rowsRead", "rowsWritten"]));
      }
      for (const lanes of LANES) {
        const counts = await ask("startWithPending", { host, pending: OPEN, lanes });
        const what = `start with ${number(OPEN)} pending in ${number(lanes)} ${lanes === 1 ? "lane" : "lanes"}, ${counts.running} of them started, ${on}`;
        add(...countsOf(what, counts, ["rowsRead", "rowsWritten"]));
      }
      const dead = await ask("startWithDeadLetters", { host, count: OPEN });
      const what = `start with ${number(OPEN)} dead letters, ${on}`;
      add(...countsOf(what, dead, ["rowsRead", "rowsWritten"]));
    }
    return results;
  },
};

export const pages: Measure = {
  name: "pages",
  does: "counts the rows of a page of each list over many ended submissions (--ended), and of their retention",
  hasCounts: false,
  isOnlyByName: true,
  async run({ start, ended }) {
    const { ask } = await start("rows");
    const found = await ask("pages", { count: ended, threads: Math.ceil(ended / IN_THREAD) });
    const { retention, left } = found;
    return [
      ...Object.entries(found.pages).map(([list, perdure]) => ({
        what: `${list}(), ${number(ended)} ended submissions, perdure/object`,
        unit: UNITS.rowsRead,
        perdure,
      })),
      ...countsOf(`retention of ${number(ended)} submissions, ${left} left`, retention, [
        "rowsRead",
        "rowsWritten",
        "setAlarms",
      ]),
    ];
  },
};
