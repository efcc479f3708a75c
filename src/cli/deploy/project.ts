/** The new code, as its configuration and sources say it. */

import { statSync } from "node:fs";
import path from "node:path";
import { CliError, EXIT, note, usageError } from "../context.ts";
import { Sources } from "../project/classes.ts";
import {
  ProjectError,
  projectFolder,
  readBuiltConfig,
  readConfig,
  readConfigAt,
  type Settings,
  settingsOf,
  textOf,
  type WranglerConfig,
} from "../project/config.ts";
import { build } from "./build.ts";

export type NewProject = {
  readonly folder: string;
  /** Of the Wrangler configuration. Its paths are relative to the folder of this file. */
  readonly file: string;
  readonly settings: Settings;
  readonly environment: string | undefined;
  readonly sources: Sources;
  /** The path of the main module. */
  readonly main: string;
  /** Whether the main module exports a class, as far as the sources tell. */
  readonly exports: (className: string) => boolean;
};

/**
 * Builds the project first, where its configuration has a command for it.
 *
 * @param given the path of a configuration. By default that of a build which is ready for `wrangler deploy`, or the folder's
 * @throws CliError for a folder without a configuration or a main module
 */
export function newProject(
  start: string,
  environment: string | undefined,
  given?: string,
): NewProject {
  const folder = projectFolder(start);
  try {
    const built = given === undefined ? readBuiltConfig(folder) : undefined;
    if (built) noteBuild(folder, built.file);
    const config =
      given === undefined
        ? (built ?? readConfig(folder))
        : readConfigAt(path.resolve(start, given));
    if (!config) {
      const remedy =
        "Run this in the project's folder, which has wrangler.jsonc, wrangler.json or wrangler.toml.";
      throw usageError(`No Wrangler configuration in ${folder}. ${remedy}`);
    }
    const { file } = config;
    const settings = built
      ? checkedBuild(folder, built, environment)
      : settingsOf(config, environment);
    if (!built) build(settings, folder);
    const named = textOf(settings.main);
    const main = path.resolve(path.dirname(file), named ?? "");
    const sources = new Sources(folder);
    const exported = named === undefined ? undefined : sources.exportsOf(main);
    if (!exported) {
      const value = named === undefined ? "missing" : `${JSON.stringify(named)}, which is no file`;
      throw new CliError(
        EXIT.usage,
        `"main" in ${file} is ${value}. Set it to the Worker's entry, or build it first.`,
      );
    }
    const exports = (className: string) => exported.isOpen || exported.names.has(className);
    return { folder, file, settings, environment, sources, main, exports };
  } catch (error) {
    throw error instanceof ProjectError ? usageError(error.message) : error;
  }
}

function noteBuild(folder: string, file: string): void {
  const { mtime } = statSync(file);
  note(
    `Checking the build in ${path.relative(folder, file)} of ${mtime.toISOString()}. Build again if the code has changed since then.`,
  );
}

/** A build is of one environment. @throws ProjectError for another one */
function checkedBuild(
  folder: string,
  { file, settings }: WranglerConfig,
  environment: string | undefined,
): Settings {
  const { targetEnvironment: built = undefined } = settings;
  if (environment === undefined || built === environment) return settings;
  const of = built === undefined ? "the top level" : `the environment ${JSON.stringify(built)}`;
  throw new ProjectError(
    `The build in ${path.relative(folder, file)} is for ${of}, not ${JSON.stringify(environment)}. Build it with CLOUDFLARE_ENV=${environment}.`,
  );
}
