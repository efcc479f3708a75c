/** `perdure doctor`: checks a project's files, and asks the running deployment for what only it can know. */

import { readFileSync } from "node:fs";
import { plural } from "../../engine/operated/text.ts";
import type { FindingCode } from "../../operator/catalog.ts";
import { type OperatorClient, OperatorError } from "../../operator/client.ts";
import { Sources } from "../project/classes.ts";
import { ProjectError, projectFolder, readConfig, settingsOf } from "../project/config.ts";
import { checkBindings, checkFlags, checkMigrations, checkNode, checkVersions } from "./checks.ts";
import { checkHosts } from "./hosts.ts";
import type { CheckResult } from "./project.ts";
import { checkSecrets } from "./secrets.ts";

export type DoctorOptions = {
  readonly folder: string;
  /** Of the Wrangler configuration. */
  readonly environment?: string;
  readonly client: Pick<OperatorClient, "report">;
  /** The path of Perdure's own package.json. */
  readonly manifest: string;
};

/** Findings of the report about the project itself. The others are what `perdure report` is for. */
const OF_PROJECT: ReadonlySet<FindingCode> = new Set([
  ...(["binding-missing", "secret-missing", "secret-refused"] as const),
  ...(["work-without-alarm", "alarm-without-work"] as const),
  ...(["task-never-runs", "task-invalid"] as const),
]);

export async function doctor(options: DoctorOptions): Promise<CheckResult[]> {
  const { folder: start, environment, client, manifest } = options;
  const folder = projectFolder(start);
  return [checkNode(process.versions.node), ...projectResults(), ...(await reportResults(client))];

  function projectResults(): CheckResult[] {
    const { peerDependencies, peerDependenciesMeta } = JSON.parse(readFileSync(manifest, "utf8"));
    const optional = new Set(Object.keys(peerDependenciesMeta));
    const sources = new Sources(folder);
    const versions = checkVersions(sources, peerDependencies, optional);
    try {
      const config = readConfig(folder);
      if (!config) {
        const text = `No Wrangler configuration in ${folder}`;
        const remedy = "Run this in the project's folder, or run npx perdure init.";
        return [{ check: "config", level: "error", text, remedy }, ...versions];
      }
      const { file } = config;
      const settings = settingsOf(config, environment);
      const project = { folder, file, settings, sources };
      return [
        { check: "config", level: "ok", text: file },
        ...checkFlags(project),
        ...checkBindings(project),
        ...checkMigrations(project),
        ...checkHosts(project),
        ...versions,
        ...checkSecrets(project),
      ];
    } catch (error) {
      if (!(error instanceof ProjectError)) throw error;
      return [{ check: "config", level: "error", text: error.message }, ...versions];
    }
  }
}

/** What the running agents say of alarms, tasks, bindings and secrets. */
async function reportResults(client: DoctorOptions["client"]): Promise<CheckResult[]> {
  const check = "report";
  try {
    const { findings, agents } = await client.report();
    const found = findings.filter(({ code }) => OF_PROJECT.has(code));
    const results = found.map(({ agent, name, severity, title, cause, fix }): CheckResult => {
      const level = severity === "error" ? "error" : "warning";
      return { check, level, text: `${agent}/${name}: ${title} ${cause}`, remedy: fix.text };
    });
    if (results.length > 0) return results;
    const text = `${plural(agents.length, "agent")}: no alarm without work, no work without an alarm, every task has a next run`;
    return [{ check, level: "ok", text }];
  } catch (error) {
    if (!(error instanceof OperatorError)) throw error;
    const remedy =
      error.status === 401 || error.status === 403
        ? "Set PERDURE_TOKEN to a token that authorize() accepts."
        : "Start it, or set PERDURE_URL. Alarms and tasks are checked there.";
    return [{ check, level: "skipped", text: error.message, remedy }];
  }
}
