import { defineConfig } from "tsdown";

/** One entry for each public name, as in `exports` of package.json and `paths` of tsconfig.json. `schedule` is the scheduler for Node. */
const library = defineConfig({
  entry: {
    think: "src/hosts/think/index.ts",
    agent: "src/hosts/agent/index.ts",
    chat: "src/hosts/chat/index.ts",
    object: "src/hosts/object/index.ts",
    harness: "src/hosts/harness/index.ts",
    workflow: "src/workflow/index.ts",
    streams: "src/streams/index.ts",
    react: "src/react/index.ts",
    submissions: "src/submissions/public.ts",
    outbox: "src/outbox/index.ts",
    scheduler: "src/scheduler/index.ts",
    schedule: "src/scheduler/pure.ts",
    codemode: "src/codemode/index.ts",
    webhooks: "src/webhooks/index.ts",
    email: "src/webhooks/email/index.ts",
    mcp: "src/mcp/index.ts",
    dashboard: "src/dashboard/index.ts",
    operator: "src/operator/index.ts",
    testing: "src/testing/index.ts",
  },
  format: "esm",
  platform: "neutral",
  target: "es2024",
  fixedExtension: false,
  sourcemap: true,
  // Only the sources: declarations are emitted for every file that it includes.
  tsconfig: "tsconfig.build.json",
  dts: true,
  // As "sideEffects" of package.json says: without it, declarations keep imports of packages that only other entries need.
  treeshake: { moduleSideEffects: false },
  deps: { neverBundle: [/^cloudflare:/, /^node:/] },
});

/** `npx perdure`, with everything that it needs: its packages are development dependencies, so users install none of them. */
export const cli = defineConfig({
  entry: { cli: "src/cli/main.ts" },
  format: "esm",
  platform: "node",
  target: "node20",
  fixedExtension: false,
  clean: false,
  dts: false,
  tsconfig: "tsconfig.build.json",
  deps: { alwaysBundle: [/./] },
  // jsonc-parser's other build requires its files at run time.
  inputOptions: { resolve: { mainFields: ["module", "main"] } },
});

export default [library, cli];
