/** Bundles sources: like Wrangler for Workers, or for Node. */

import { createRequire } from "node:module";
import { build } from "tsdown";

/** The part of esbuild that is used here. */
type Esbuild = {
  build(options: {
    stdin: { contents: string; resolveDir: string; loader: "ts" };
    external: readonly string[];
    bundle: true;
    minify: true;
    write: false;
    format: "esm";
    target: string;
    conditions: readonly string[];
    mainFields: readonly string[];
    logLevel: "error";
  }): Promise<{ outputFiles: readonly { readonly contents: Uint8Array }[] }>;
};

/**
 * The minified code of these files in a deployed Worker, by Wrangler's bundler and settings.
 *
 * @param folder the base of relative imports in `contents`
 * @param external packages to exclude
 */
export async function minified(
  contents: string,
  folder: string,
  external: readonly string[],
): Promise<Uint8Array> {
  const own = createRequire(import.meta.url);
  const esbuild = createRequire(own.resolve("wrangler/package.json"))("esbuild") as Esbuild;
  const { outputFiles } = await esbuild.build({
    stdin: { contents, resolveDir: folder, loader: "ts" },
    external: ["cloudflare:*", "node:*", ...external],
    bundle: true,
    minify: true,
    write: false,
    format: "esm",
    target: "es2024",
    conditions: ["workerd", "worker", "browser"],
    mainFields: ["browser", "module", "main"],
    logLevel: "error",
  });
  const [output] = outputFiles;
  if (!output || output.contents.length === 0)
    throw new Error(`Nothing was bundled of ${contents}`);
  return output.contents;
}

/** Bundles an entry with all its imports to `<folder>/bundle.mjs`. */
export async function forNode(entry: string, folder: string): Promise<void> {
  await build({
    config: false,
    entry: { bundle: entry },
    outDir: folder,
    format: "esm",
    platform: "node",
    dts: false,
    logLevel: "error",
    deps: { alwaysBundle: [/./] },
    outputOptions: { entryFileNames: "[name].mjs" },
  });
}
