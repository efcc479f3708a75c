import { cloudflareTest } from "@cloudflare/vitest-plugin";
import { defineConfig } from "vitest/config";

// No request for the `cf` object, so that the tests run without a network.
process.env.CLOUDFLARE_CF_FETCH_ENABLED ??= "false";

/** Tests that need Think. `npm test` runs them in a separate process. */
const THINK = [
  "test/hosts/think/**/*.test.ts",
  "test/{workflow,codemode}/steps/**/*.test.ts",
  "test/peers/*.test.ts",
  "test/operator/*.test.ts",
  "test/operator/!(alerts)/**/*.test.ts",
];

/** Tests of the scheduler, in a separate project to run in parallel. */
const SCHEDULER = ["test/scheduler/*.test.ts", "test/scheduler/{tasks,runs}/**/*.test.ts"];

/** Tests that run in Node and in Workers: Zod compiles its schemas where `new Function` is allowed, as in Node. */
const BOTH = ["test/core/options.test.ts"];

/** The contract of every host: `npm run test:contract`. */
const CONTRACT = ["test/contract/**/*.test.ts", "test/hosts/{chat,harness}/*.test.ts"];

/** Tests of pages in Chromium: `npm run test:browser`. */
const BROWSER = ["test/**/browser/*.test.ts"];

/** Tests that run in Node. */
const PURE = [
  "test/scheduler/{calendar,language}/**/*.test.ts",
  "test/{bench,scripts}/**/*.test.ts",
  "test/cli/**/*.test.ts",
  "test/dashboard/*.test.ts",
  // They start runtimes of their own.
  "test/operator/trace/native/*.test.ts",
  "test/operator/{runtime,otlp}/*.test.ts",
  // The senders' own packages are for Node. In Workers, that of GitHub is less strict.
  "test/webhooks/oracles/**/*.test.ts",
];

export default defineConfig({
  // The public names resolve to the sources, not to a built dist/.
  resolve: { tsconfigPaths: true },
  test: {
    testTimeout: 30_000,
    // Files run in the same order on every machine, not in that of an earlier run there: they share a runtime.
    cache: false,
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
          include: ["test/**/*.test.ts"],
          exclude: [...THINK, ...SCHEDULER, ...PURE, ...BROWSER, ...CONTRACT],
          setupFiles: ["./test/workers/setup.ts"],
          globalSetup: ["./test/support/receivers/server.ts"],
        },
      },
      {
        extends: true,
        plugins: [cloudflareTest({ wrangler: { configPath: "./test/workers/modules.jsonc" } })],
        test: { name: "scheduler", include: SCHEDULER, setupFiles: ["./test/workers/setup.ts"] },
      },
      {
        extends: true,
        plugins: [cloudflareTest({ wrangler: { configPath: "./wrangler.jsonc" } })],
        test: {
          name: "think",
          include: THINK,
          exclude: PURE,
          globalSetup: ["./test/support/receivers/server.ts"],
        },
      },
      { extends: true, test: { name: "pure", include: [...BOTH, ...PURE] } },
      { extends: true, test: { name: "browser", include: BROWSER } },
      {
        extends: true,
        plugins: [cloudflareTest({ wrangler: { configPath: "./test/workers/contract.jsonc" } })],
        test: { name: "contract", include: CONTRACT },
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
        test: { name: "triage", include: ["examples/triage/test/**/*.test.ts"] },
      },
    ],
  },
});
