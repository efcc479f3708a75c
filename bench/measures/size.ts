/** The size of what an app imports: minified and gzipped, without peers and Luxon. */

import path from "node:path";
import { gzipSync } from "node:zlib";
import { minified } from "../bundle.ts";
import type { Measure } from "../measure.ts";
import { atMost, type Result } from "../result.ts";
import { ENTRIES, FEATURES } from "../start-costs.ts";

const SRC = path.join(import.meta.dirname, "../../src");
/** Luxon is left out like them: schedules and keepers of limits load it, and its size is a row of its own. */
const PEERS = ["agents", "ai", "zod", "@cloudflare/*", "just-bash", "luxon"];
/** Of package.json. */
const DEPENDENCIES = ["@standard-schema/spec", "croner", "zod-to-json-schema"];
const GOAL_KB = 40;
/** Why `perdure/think` is above the goal. Its bound is in `ENTRIES`. */
const FLOOR = {
  why:
    "Perdure's own code is 139 kB of it: the language of schedules, the ledger with its answers and batches, the outbox and waits, " +
    "with their SQL. A Think agent constructs all of them at its start, so no bundler drops them. Our dependencies " +
    "are 10 kB (croner); without it it would still be 139 kB.",
};

const THINK = "hosts/think/index.ts";
const CODEMODE = "features/codemode/index.ts";
/** Kilobytes by which a bound may be above the size. */
const SLACK_KB = 4;
/** Modules that can be imported alone. */
const MODULES = ["submissions/submissions.ts", "outbox/outbox.ts", "scheduler/index.ts"];

export const size: Measure = {
  name: "size",
  does: "bundles each host, each feature and each module, minified and gzipped, without peers",
  hasCounts: true,
  async run() {
    const results: Result[] = [];
    for (const [what, { files, kB }] of Object.entries(ENTRIES)) {
      const perdure = await kilobytes(files, PEERS);
      const limit = kB <= GOAL_KB ? atMost(kB) : atMost(GOAL_KB, { ...FLOOR, atMost: kB });
      results.push(tight({ what, unit: "kB", perdure, limit }, kB));
    }
    const both = ENTRIES["perdure/think and perdure/workflow"].files;
    results.push(
      {
        what: "the first without our own dependencies",
        unit: "kB",
        perdure: await kilobytes(both, [...PEERS, ...DEPENDENCIES]),
      },
      {
        what: "luxon, which schedules and limit keepers load",
        unit: "kB",
        perdure:
          (await kilobytes(
            both,
            PEERS.filter((name) => name !== "luxon"),
          )) - (await kilobytes(both, PEERS)),
      },
      {
        what: "with them and perdure/codemode",
        unit: "kB",
        perdure: await kilobytes([...both, CODEMODE], PEERS),
      },
    );
    const host = ENTRIES["perdure/object"].files;
    const alone = await kilobytes(host, PEERS);
    for (const [feature, { file, kB }] of Object.entries(FEATURES)) {
      const perdure = (await kilobytes(host, PEERS, { [feature]: file })) - alone;
      const limit = atMost(kB);
      results.push(tight({ what: `${feature}()`, unit: "kB", perdure, limit }, kB));
    }
    for (const module of MODULES) {
      const perdure = await kilobytes([module], [...PEERS, ...DEPENDENCIES]);
      results.push({ what: `${path.dirname(module)} alone, without them`, unit: "kB", perdure });
    }
    return results;
  },
};

/** @throws if the bound is so far above the size that it notices no growth */
function tight(result: Result, bound: number): Result {
  if (result.perdure >= bound - SLACK_KB) return result;
  const now = Math.ceil(result.perdure);
  throw new Error(
    `${result.what} has ${now} kB: lower its bound of ${bound} in bench/start-costs.ts`,
  );
}

/**
 * The kilobytes that an app loads with all of these files, without the packages of `leftOut`.
 *
 * @param names single exports that the app imports besides, and their files
 */
async function kilobytes(
  files: readonly string[],
  leftOut: readonly string[],
  names: Readonly<Record<string, string>> = {},
): Promise<number> {
  const whole = files.map((file) => `export * from "./${file}";`);
  const single = Object.entries(names).map(
    ([name, file]) => `export { ${name} } from "./${file}";`,
  );
  const contents = [...whole, ...single].join("\n");
  const code = await minified(contents, SRC, leftOut);
  const usesThink = /["']@cloudflare\/think/.test(new TextDecoder().decode(code));
  if (usesThink && !files.includes(THINK)) {
    throw new Error(
      `${files.join(", ")}: imports @cloudflare/think, which only perdure/think may do`,
    );
  }
  return gzipSync(code, { level: 9 }).length / 1_000;
}
