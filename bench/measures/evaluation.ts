/** The CPU time to evaluate the bundle of an app with an agent of Perdure, beside that with the class that the agent extends. */

import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { builtinModules } from "node:module";
import { tmpdir } from "node:os";
import path from "node:path";
import { minified } from "../bundle.ts";
import { inTurns, type Measure } from "../measure.ts";
import { atMost, median, type Result } from "../result.ts";
import { EVALUATION } from "../start-costs.ts";

const SRC = path.join(import.meta.dirname, "../../src");
const TIMES = 11;
/** Few times with `--counts`: the bounds have room for the noise of fewer times. */
const TIMES_IN_CI = 5;

/** Apps with one agent. Each has the AI SDK, which an app with an `Agent` that asks a model has as well. */
const APPS = {
  Think: `export { Think } from "@cloudflare/think"; export { streamText } from "ai";`,
  DurableThink: `export { DurableThink } from "./hosts/think/index.ts"; export { streamText } from "ai";`,
  Agent: `export { Agent } from "agents"; export { streamText } from "ai";`,
  DurableAgent: `export { DurableAgent } from "./hosts/agent/index.ts"; export { streamText } from "ai";`,
} as const;

type App = keyof typeof APPS;

export const evaluation: Measure = {
  name: "evaluation",
  does: `evaluates the bundles of apps in new processes of Node, ${TIMES} times each (${TIMES_IN_CI} with --counts), alternately: the median of the ratios of CPU time`,
  hasCounts: true,
  async run({ onlyCounts }) {
    const folder = mkdtempSync(path.join(tmpdir(), "perdure-bench-"));
    try {
      const apps = Object.entries(APPS) as [App, string][];
      const work = await Promise.all(
        apps.map(async ([app, contents]) => {
          const file = path.join(folder, `${app}.mjs`);
          writeFileSync(file, await minified(contents, SRC, builtinModules));
          return [app, async () => cpuMs(file)] as const;
        }),
      );
      const times = await inTurns(
        onlyCounts ? TIMES_IN_CI : TIMES,
        Object.fromEntries(work) as Record<App, () => Promise<number>>,
      );
      return Object.entries(EVALUATION).map(([app, { extends: base, atMost: most }]): Result => {
        const ratios = times[app as App].map((ms, turn) => ms / (times[base][turn] ?? Number.NaN));
        return {
          what: `evaluating an app with ${app}, beside one with ${base}`,
          unit: "times the CPU time",
          perdure: median(ratios),
          limit: atMost(most),
        };
      });
    } finally {
      rmSync(folder, { recursive: true });
    }
  },
};

/** An evaluation only extends and names what an app imports from `cloudflare:*`. */
const STUB = `${[
  "DurableObject",
  "WorkerEntrypoint",
  "WorkflowEntrypoint",
  "RpcTarget",
  "RpcStub",
  "EmailMessage",
]
  .map((name) => `export class ${name} {}`)
  .join(
    "; ",
  )}; export class NonRetryableError extends Error {}; export const env = {}, exports = {}, tracing = {};`;

/** Of a new process, which imports the file. */
function cpuMs(file: string): number {
  const code = `import { createRequire, registerHooks } from "node:module";
    globalThis.require = createRequire(${JSON.stringify(file)});
    const stub = { url: ${JSON.stringify(`data:text/javascript,${encodeURIComponent(STUB)}`)}, shortCircuit: true };
    registerHooks({ resolve: (name, context, next) => name.startsWith("cloudflare:") ? stub : next(name, context) });
    const before = process.cpuUsage();
    await import(${JSON.stringify(file)});
    console.log(process.cpuUsage(before).user / 1_000);
    process.exit();`;
  return Number(execFileSync(process.execPath, ["--input-type=module", "--eval", code]));
}
