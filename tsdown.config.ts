import { readFileSync } from "node:fs";
import type { Plugin } from "rolldown";
import { defineConfig } from "tsdown";

/** `import "perdure"` throws an error with the entries. It has their names, so that named imports get the error, too. */
const root: Plugin = {
  name: "root",
  generateBundle(_, files) {
    const { exports } = JSON.parse(readFileSync("package.json", "utf8")) as { exports: object };
    const entries = Object.keys(exports).filter((entry) => /^\.\/[\w-]+$/.test(entry));
    const list = entries.map((entry) => `perdure${entry.slice(1)}`).join(", ");
    const message = `perdure has no root entry. Import one of its entries: ${list}.`;
    const names = Object.values(files).flatMap((file) =>
      file.type === "chunk" && file.isEntry && file.fileName.endsWith(".js") ? file.exports : [],
    );
    const code = `throw new Error(${JSON.stringify(message)});\nexport let ${[...new Set(names)].join(", ")};\n`;
    this.emitFile({ type: "asset", fileName: "index.js", source: code });
    const types = `/** ${message} */\nexport {};\n`;
    this.emitFile({ type: "asset", fileName: "index.d.ts", source: types });
  },
};

/** One entry for each public name, as in `exports` of package.json and `paths` of tsconfig.json. `schedule` is the scheduler for Node. */
const library = defineConfig({
  entry: {
    think: "src/hosts/think/index.ts",
    agent: "src/hosts/agent/index.ts",
    chat: "src/hosts/chat/index.ts",
    object: "src/hosts/object/index.ts",
    workflow: "src/workflow/index.ts",
    streams: "src/features/streams/index.ts",
    "agent-tools": "src/features/agent-tools/index.ts",
    limits: "src/features/limits/index.ts",
    deploy: "src/features/deploy/index.ts",
    react: "src/features/streams/react/index.ts",
    zod3: "src/core/schema/zod3.ts",
    submissions: "src/submissions/index.ts",
    outbox: "src/outbox/index.ts",
    replies: "src/features/replies/index.ts",
    inbound: "src/features/inbound/index.ts",
    scheduler: "src/scheduler/index.ts",
    schedule: "src/scheduler/pure.ts",
    codemode: "src/features/codemode/index.ts",
    webhooks: "src/features/inbound/webhooks/index.ts",
    email: "src/features/inbound/webhooks/email/index.ts",
    mcp: "src/operator/mcp/index.ts",
    dashboard: "src/operator/dashboard/index.ts",
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
  plugins: [root],
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
