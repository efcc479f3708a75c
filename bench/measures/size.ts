/** The size of what an app imports: minified and gzipped, without peers. */

import path from "node:path";
import { gzipSync } from "node:zlib";
import { minified } from "../bundle.ts";
import type { Measure } from "../measure.ts";
import { atMost, type Result } from "../result.ts";

const SRC = path.join(import.meta.dirname, "../../src");
const PEERS = ["agents", "ai", "zod", "@cloudflare/*", "just-bash"];
/** Of package.json. */
const DEPENDENCIES = [
  "@cfworker/json-schema",
  "@standard-schema/spec",
  "croner",
  "ipaddr.js",
  "luxon",
  "zod-to-json-schema",
];
const GOAL_KB = 40;
/** Of every workflow. It has no schedules and no Zod 3. */
const WORKFLOW_KB = 18;
/** The current size, so that growth is noticed. */
const FLOOR = {
  atMost: 185,
  why:
    "Perdure's own code is 142 kB of it: the language of schedules, the ledger with its answers and batches, the outbox, waits and inbound deliveries, " +
    "with their SQL. A Think agent constructs all of them at its start, so no bundler drops them. Our dependencies " +
    "are 42 kB (luxon 22, croner 10, @cfworker/json-schema 7, ipaddr.js 4); without any of them it would still be 142 kB.",
};

const WORKFLOW = "workflow/index.ts";
const THINK = "hosts/think/index.ts";
const CODEMODE = "codemode/index.ts";
/** By host, the current size. */
const HOSTS = { agent: 109, object: 111, chat: 114, harness: 106 };
/** The current size of each feature: what it adds to a plain object without features. */
const FEATURES = {
  agentTools: { file: "agent-tools/index.ts", atMost: 4 },
  codemode: { file: "codemode/index.ts", atMost: 4 },
  followers: { file: "streams/index.ts", atMost: 4 },
  operations: { file: "operator/index.ts", atMost: 36 },
  replies: { file: "replies/index.ts", atMost: 7 },
  schedules: { file: "scheduler/index.ts", atMost: 57 },
};
/** Modules that can be imported alone. */
const MODULES = ["submissions/index.ts", "outbox/index.ts", "scheduler/index.ts"];

export const size: Measure = {
  name: "size",
  does: "bundles perdure/workflow and perdure/think, minified and gzipped, without peers; each host, feature and module alone",
  hasCounts: true,
  async run() {
    const both = [WORKFLOW, THINK];
    const results: Result[] = [
      {
        what: "perdure/workflow and perdure/think",
        unit: "kB",
        perdure: await kilobytes(both, PEERS),
        limit: atMost(GOAL_KB, FLOOR),
      },
      {
        what: "the same without our own dependencies",
        unit: "kB",
        perdure: await kilobytes(both, [...PEERS, ...DEPENDENCIES]),
      },
      {
        what: "with them and perdure/codemode",
        unit: "kB",
        perdure: await kilobytes([...both, CODEMODE], PEERS),
      },
      {
        what: "perdure/workflow",
        unit: "kB",
        perdure: await kilobytes([WORKFLOW], PEERS),
        limit: atMost(WORKFLOW_KB),
      },
    ];
    for (const [host, atMostNow] of Object.entries(HOSTS)) {
      const perdure = await kilobytes([`hosts/${host}/index.ts`], PEERS);
      const limit = atMost(GOAL_KB, { ...FLOOR, atMost: atMostNow });
      results.push({ what: `perdure/${host}`, unit: "kB", perdure, limit });
    }
    const host = "hosts/object/index.ts";
    const alone = await kilobytes([host], PEERS);
    for (const [feature, { file, atMost: most }] of Object.entries(FEATURES)) {
      const perdure = (await kilobytes([host], PEERS, { [feature]: file })) - alone;
      results.push({ what: `${feature}()`, unit: "kB", perdure, limit: atMost(most) });
    }
    for (const module of MODULES) {
      const perdure = await kilobytes([module], [...PEERS, ...DEPENDENCIES]);
      results.push({ what: `${path.dirname(module)} alone, without them`, unit: "kB", perdure });
    }
    return results;
  },
};

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
