import { defineConfig } from "tsdown";

/** One entry per public room; package.json's `exports` and tsconfig.json's `paths` name the same, and what Node gets of the scheduler. */
export default defineConfig({
  entry: {
    think: "src/hosts/think/index.ts",
    workflow: "src/workflow/index.ts",
    submissions: "src/submissions/public.ts",
    outbox: "src/outbox/index.ts",
    scheduler: "src/scheduler/index.ts",
    schedule: "src/scheduler/pure.ts",
    codemode: "src/codemode/index.ts",
    testing: "src/testing/index.ts",
  },
  format: "esm",
  platform: "neutral",
  target: "es2024",
  fixedExtension: false,
  sourcemap: true,
  // Of the sources alone: declarations are emitted for all that it includes.
  tsconfig: "tsconfig.build.json",
  dts: true,
  deps: { neverBundle: [/^cloudflare:/, /^node:/] },
});
