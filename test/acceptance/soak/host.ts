/**
 * The process that is killed: the local runtime with the soak's worker and its state on disk. It uses Miniflare, not
 * `wrangler dev`, because that starts too slowly for a kill every few seconds.
 *
 *   node host.ts '{"bundle": …, "state": …, "port": …, "vars": …}'
 */

import { readFileSync } from "node:fs";
import { convertV4MiniflareOptions, Log, LogLevel, Miniflare } from "miniflare";

export type HostOptions = {
  /** The bundled worker. */
  readonly bundle: string;
  /** The folder of the state, which is kept. */
  readonly state: string;
  readonly port: number;
  readonly vars: Readonly<Record<string, string>>;
};

const { bundle, state, port, vars } = JSON.parse(process.argv[2] ?? "{}") as HostOptions;
const miniflare = new Miniflare(
  convertV4MiniflareOptions({
    host: "127.0.0.1",
    port,
    cf: false,
    log: new Log(LogLevel.WARN),
    resourcePersistencePath: state,
    workers: [
      {
        name: "perdure-soak",
        compatibilityDate: "2026-11-01",
        compatibilityFlags: ["nodejs_compat"],
        modules: [{ type: "ESModule", path: "worker.js", contents: readFileSync(bundle, "utf8") }],
        bindings: { ...vars },
        durableObjects: {
          SoakThink: { className: "SoakThink", useSQLite: true },
          SoakAgent: { className: "SoakAgent", useSQLite: true },
          SoakObject: { className: "SoakObject", useSQLite: true },
          SoakChat: { className: "SoakChat", useSQLite: true },
          Helper: { className: "Helper", useSQLite: true },
        },
        workflows: { SOAK: { name: "perdure-soak", className: "SoakWorkflow" } },
      },
    ],
  }),
);
await miniflare.ready;
