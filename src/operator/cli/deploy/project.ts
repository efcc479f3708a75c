/** The new code, as its configuration and sources say it. */

import path from "node:path";
import { CliError, EXIT, usageError } from "../context.ts";
import { Sources } from "../project/classes.ts";
import {
  ProjectError,
  projectFolder,
  readConfig,
  type Settings,
  settingsOf,
  textOf,
} from "../project/config.ts";
import { build } from "./build.ts";

export type NewProject = {
  readonly folder: string;
  /** Of the Wrangler configuration. */
  readonly file: string;
  readonly settings: Settings;
  readonly environment: string | undefined;
  readonly sources: Sources;
  /** The path of the main module. */
  readonly main: string;
  /** Whether the main module exports a class, as far as the sources tell. */
  readonly exports: (className: string) => boolean;
};

/** Builds the project first, where its configuration has a command for it. @throws CliError for a folder without a configuration or a main module */
export function newProject(start: string, environment: string | undefined): NewProject {
  const folder = projectFolder(start);
  try {
    const config = readConfig(folder);
    if (!config) {
      const remedy =
        "Run this in the project's folder, which has wrangler.jsonc, wrangler.json or wrangler.toml.";
      throw usageError(`No Wrangler configuration in ${folder}. ${remedy}`);
    }
    const { file } = config;
    const settings = settingsOf(config, environment);
    build(settings, folder);
    const named = textOf(settings.main);
    const main = path.resolve(folder, named ?? "");
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
