import { cloudflareTest } from "@cloudflare/vitest-plugin";
import { defineConfig } from "vitest/config";

// No request for the `cf` object, so that the tests run without a network.
process.env.CLOUDFLARE_CF_FETCH_ENABLED ??= "false";

/** Tests of what needs Think. `npm test` runs them beside the others, in a process of its own. */
const THINK = [
  "test/hosts/think/**/*.test.ts",
  "test/{workflow,codemode}/steps/**/*.test.ts",
  "test/peers/*.test.ts",
];

/** Tests of the scheduler's module, which run beside those of the other modules. */
const SCHEDULER = ["test/scheduler/*.test.ts"];

/** Tests that run in Node and in Workers: Zod compiles its schemas where `new Function` is allowed, as in Node. */
const BOTH = ["test/core/options.test.ts"];

/** Tests of what runs in Node as well as in Workers, or in Node alone, in Node. */
const PURE = ["test/scheduler/{calendar,language}/**/*.test.ts", "test/bench/**/*.test.ts"];

export default defineConfig({
  // The public names lead to the sources, never to a dist/ that was built earlier.
  resolve: { tsconfigPaths: true },
  test: {
    testTimeout: 30_000,
    // One runtime for all files of a project, one file after the other: importing Think takes ten seconds, and a
    // second runtime would be sent its modules in one message that is larger than the pool takes.
    isolate: false,
    fileParallelism: false,
    projects: [
      {
        extends: true,
        plugins: [cloudflareTest({ wrangler: { configPath: "./test/workers/modules.jsonc" } })],
        test: {
          name: "modules",
          include: ["test/**/*.test.ts"],
          exclude: [...THINK, ...SCHEDULER, ...PURE],
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
          globalSetup: ["./test/support/receivers/server.ts"],
        },
      },
      { extends: true, test: { name: "pure", include: [...BOTH, ...PURE] } },
      {
        extends: true,
        plugins: [
          cloudflareTest({
            wrangler: { configPath: "./examples/triage/wrangler.jsonc" },
            // What a deployed worker has as secrets; these are as public as the tests are.
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
