/** The commit, the machine and the versions of a run. */

import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { findPackageJSON } from "node:module";
import { cpus, totalmem } from "node:os";

const PACKAGES = ["@cloudflare/think", "agents", "ai", "wrangler"];

/** The commit that is measured, with "-dirty" where files have changed since. */
export const commit = () =>
  execFileSync("git", ["describe", "--always", "--dirty", "--exclude=*"], {
    cwd: import.meta.dirname,
    encoding: "utf8",
  }).trim();

export function machine(): Record<string, string | number> {
  const [cpu, ...others] = cpus();
  return {
    cpu: cpu?.model.trim() || "unknown",
    cores: others.length + 1,
    memory: `${Math.round(totalmem() / 2 ** 30)} GiB`,
    os: `${process.platform} ${process.arch}`,
  };
}

export function versions(): Record<string, string> {
  // The runtime belongs to Wrangler and is not our dependency.
  const runtime = ["workerd", versionOf("workerd", manifestOf("wrangler"))] as const;
  const found = PACKAGES.map((name) => [name, versionOf(name)] as const);
  return { ...Object.fromEntries([...found, runtime]), node: process.versions.node };
}

function versionOf(name: string, from?: string): string {
  return (JSON.parse(readFileSync(manifestOf(name, from), "utf8")) as { version: string }).version;
}

function manifestOf(name: string, from: string = import.meta.filename): string {
  const manifest = findPackageJSON(name, from);
  if (manifest === undefined) throw new Error(`The package ${name} is not installed`);
  return manifest;
}
