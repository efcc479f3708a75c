import { cloudflareTest } from "@cloudflare/vitest-plugin";
import { defineConfig } from "vitest/config";

// No request for the `cf` object, so that the tests run without a network.
process.env.CLOUDFLARE_CF_FETCH_ENABLED ??= "false";

export default defineConfig({
  plugins: [cloudflareTest({ wrangler: { configPath: "./wrangler.jsonc" } })],
  // The public names lead to the sources, never to a dist/ that was built earlier.
  resolve: { tsconfigPaths: true },
  test: {
    include: ["test/**/*.test.ts"],
    testTimeout: 30_000,
    // One runtime for all files, one file after the other: importing Think takes ten seconds, and a
    // second runtime would be sent its modules in one message that is larger than the pool takes.
    isolate: false,
    fileParallelism: false,
  },
});
