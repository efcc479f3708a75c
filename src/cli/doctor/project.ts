import type { Sources } from "../project/classes.ts";
import type { Settings } from "../project/config.ts";

export type CheckResult = {
  readonly check:
    | "node"
    | "config"
    | "flags"
    | "bindings"
    | "migrations"
    | "hosts"
    | "versions"
    | "secrets"
    | "report";
  readonly level: "ok" | "warning" | "error" | "skipped";
  /** What is so, with the value. */
  readonly text: string;
  /** What to do, if anything. */
  readonly remedy?: string;
};

export type Project = {
  readonly folder: string;
  /** Of the Wrangler configuration. */
  readonly file: string;
  readonly settings: Settings;
  readonly sources: Sources;
};
