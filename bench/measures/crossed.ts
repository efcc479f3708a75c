/** The files that a submission crosses, from the call of `submitMessages()` to the delivery of its end to a webhook. */

import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { parseAst } from "rolldown/parseAst";
import { offline } from "../../scripts/offline.ts";
import type { Measure } from "../measure.ts";
import { atMost } from "../result.ts";
import { startWorker } from "../start-worker.ts";

const WORKER = path.join(import.meta.dirname, "../crossed");
/** Lower it when the number falls, and never raise it. */
const MOST = 65;

export const crossed: Measure = {
  name: "crossed",
  does: "counts the files of Perdure whose functions run for a submission to a warm DurableThink that notifies a webhook",
  hasCounts: true,
  async run({ onlyCounts }) {
    const folder = mkdtempSync(path.join(tmpdir(), "perdure-bench-"));
    const receiver = createServer((request, response) => {
      request.resume().once("end", () => response.end());
    });
    try {
      bundle(folder);
      await new Promise<void>((resolve) => receiver.listen(0, "127.0.0.1", resolve));
      const body = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/`;
      const worker = await startWorker(folder);
      const submit = async () =>
        (await (await worker.fetch("http://worker", { method: "POST", body })).json()) as string[];
      // The first one starts the object.
      await submit();
      const files = (await submit()).filter((file) => !file.startsWith("testing/"));
      await worker.dispose();
      if (!onlyCounts) console.log(files.sort().join("\n"));
      const what = "files that a submission crosses";
      return [{ what, unit: "files", perdure: files.length, limit: atMost(MOST) }];
    } finally {
      receiver.close();
      rmSync(folder, { recursive: true });
    }
  },
};

/** Writes the bundle of the worker, whose functions note their files. */
function bundle(folder: string): void {
  const bin = createRequire(import.meta.url).resolve("wrangler/package.json");
  const wrangler = path.join(path.dirname(bin), "bin/wrangler.js");
  const args = [wrangler, "deploy", "--dry-run", "--outdir", folder];
  spawnSync(process.execPath, args, { cwd: WORKER, env: offline });
  const file = path.join(folder, "worker.js");
  writeFileSync(file, noting(readFileSync(file, "utf8")));
  const config = readFileSync(path.join(WORKER, "wrangler.jsonc"), "utf8");
  const main = '"main": "worker.js", "no_bundle": true';
  writeFileSync(path.join(folder, "wrangler.jsonc"), config.replace('"main": "worker.ts"', main));
}

/** The bundler writes the path of each file above its code. */
const FILE = /^\/\/ (?:\.\.\/)*(?:(src)\/)?(\S+\.\w+)$/gm;

function noting(code: string): string {
  const starts = [...code.matchAll(FILE)].reverse();
  const notes: [at: number, text: string][] = [];
  const visit = (node: unknown): void => {
    if (typeof node !== "object" || node === null) return;
    const { type = "", start = 0, body } = node as Partial<Node>;
    const [, src, file] = starts.find(({ index }) => index < start) ?? [];
    if (/Function/.test(type) && body && src) {
      const note = `globalThis.crossed?.add(${JSON.stringify(file)})`;
      if (body.type === "BlockStatement") notes.push([body.start + 1, `${note};`]);
      else notes.push([body.start, `(${note}, `], [body.end, ")"]);
    }
    for (const inner of Object.values(node)) visit(inner);
  };
  visit(parseAst(code));
  notes.sort(([one], [other]) => one - other);
  const parts = notes.map(([at, text], index) => code.slice(notes[index - 1]?.[0], at) + text);
  return parts.join("") + code.slice(notes.at(-1)?.[0]);
}

type Node = { type: string; start: number; end: number; body: Node };
