import { cloudflareTest } from "@cloudflare/vitest-plugin";
import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";
import { patternsOf } from "./test/manifest.ts";
import { HANG_MS } from "./test/support/sizes.ts";

// No request for the `cf` object, so that the tests run without a network.
process.env.CLOUDFLARE_CF_FETCH_ENABLED ??= "false";

/** Files that have to run before those that move the clock of their runtime. */
class LimitsFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const isFirst = ({ moduleId }: TestSpecification) =>
      moduleId.endsWith("/acceptance/contract/limits.test.ts");
    const sorted = await super.sort(files);
    return [...sorted.filter(isFirst), ...sorted.filter((file) => !isFirst(file))];
  }
}

export default defineConfig({
  // The public names resolve to the sources, not to a built dist/.
  resolve: { tsconfigPaths: true },
  plugins: [
    {
      // A third of the time to transform Think. In a stack trace the lines of a package are those of its published file.
      name: "packages-without-source-maps",
      enforce: "post",
      transform: (code, id) =>
        id.includes("/node_modules/") ? { code, map: { mappings: "" } } : undefined,
    },
  ],
  test: {
    // Longer than a wait for a state, which says what it has waited for.
    testTimeout: 3 * HANG_MS,
    hookTimeout: 3 * HANG_MS,
    expect: { poll: { timeout: HANG_MS } },
    // Files run in the same order on every machine, not in that of an earlier run there: they share a runtime.
    cache: false,
    sequence: { sequencer: LimitsFirst },
    // One runtime for all files of a project, one file after the other: importing Think takes ten seconds, and the pool
    // cannot send its modules to a second runtime in one message.
    isolate: false,
    fileParallelism: false,
    projects: [
      {
        extends: true,
        plugins: [cloudflareTest({ wrangler: { configPath: "./test/workers/modules.jsonc" } })],
        test: {
          name: "modules",
          ...patternsOf("modules"),
          setupFiles: ["./test/workers/setup.ts", "./test/workers/reset.ts"],
          globalSetup: ["./test/support/receivers/server.ts"],
        },
      },
      {
        extends: true,
        plugins: [cloudflareTest({ wrangler: { configPath: "./test/workers/modules.jsonc" } })],
        test: {
          name: "scheduler",
          ...patternsOf("scheduler"),
          setupFiles: ["./test/workers/setup.ts", "./test/workers/reset.ts"],
        },
      },
      {
        extends: true,
        plugins: [cloudflareTest({ wrangler: { configPath: "./wrangler.jsonc" } })],
        test: {
          name: "think",
          ...patternsOf("think"),
          setupFiles: ["./test/workers/reset.ts"],
          globalSetup: ["./test/support/receivers/server.ts"],
        },
      },
      {
        extends: true,
        plugins: [cloudflareTest({ wrangler: { configPath: "./wrangler.jsonc" } })],
        test: {
          name: "replays",
          ...patternsOf("replays"),
          setupFiles: ["./test/workers/reset.ts"],
        },
      },
      { extends: true, test: { name: "pure", ...patternsOf("pure") } },
      { extends: true, test: { name: "browser", ...patternsOf("browser") } },
      { extends: true, test: { name: "runtimes", ...patternsOf("runtimes") } },
      {
        extends: true,
        plugins: [cloudflareTest({ wrangler: { configPath: "./test/workers/contract.jsonc" } })],
        test: {
          name: "contract",
          ...patternsOf("contract"),
          setupFiles: ["./test/workers/reset.ts"],
        },
      },
      {
        extends: true,
        plugins: [
          cloudflareTest({ wrangler: { configPath: "./test/acceptance/app/wrangler.jsonc" } }),
        ],
        // Above the bound of a wait (60 s), so that the wait reports what did not happen.
        test: {
          name: "acceptance",
          ...patternsOf("acceptance"),
          setupFiles: ["./test/workers/reset.ts"],
          testTimeout: 90_000,
          // Concurrent tests there wait for alarms of their own objects.
          maxConcurrency: 10,
          // Its tests wait more than they compute.
          fileParallelism: true,
          maxWorkers: 2,
        },
      },
      {
        extends: true,
        plugins: [
          cloudflareTest({
            wrangler: { configPath: "./examples/triage/wrangler.jsonc" },
            // The secrets of the tests. Not real ones.
            miniflare: {
              bindings: {
                MODEL: "offline-rules",
                WEBHOOK_SECRET: "the secret of the tests",
                ADMIN_TOKEN: "the token of the tests",
              },
            },
          }),
        ],
        test: {
          name: "triage",
          ...patternsOf("triage"),
          setupFiles: ["./test/workers/reset.ts"],
        },
      },
    ],
  },
});
