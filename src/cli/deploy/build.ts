/** Builds the new code by `build.command` of its configuration, as `wrangler deploy` does. */

import { spawnSync } from "node:child_process";
import path from "node:path";
import { preview } from "../../core/json.ts";
import { isPlainObject } from "../../core/options/options.ts";
import { CliError, EXIT, note } from "../context.ts";
import { type Settings, textOf } from "../project/config.ts";

const BUILD_MS = 600_000;

/** Does nothing without a `build.command`. Its output goes to stderr. @throws CliError where it fails */
export function build({ build: given }: Settings, folder: string): void {
  const { command: named, cwd } = isPlainObject(given) ? given : {};
  const command = textOf(named);
  if (command === undefined) return;
  note(`Building the new code: ${command}`);
  const { PERDURE_TOKEN: _, ...env } = process.env;
  const { status, signal, error } = spawnSync(command, {
    cwd: path.resolve(folder, textOf(cwd) ?? "."),
    env,
    shell: true,
    stdio: ["ignore", 2, 2],
    timeout: BUILD_MS,
  });
  if (status === 0) return;
  const isLate = (error as NodeJS.ErrnoException | undefined)?.code === "ETIMEDOUT";
  const why = isLate
    ? `took longer than ${BUILD_MS / 60_000} minutes`
    : error
      ? `did not start: ${error.message}`
      : `ended with ${signal === null ? `the exit code ${status}` : signal}`;
  throw new CliError(
    EXIT.found,
    `The new code is not built: build.command ${preview(command)} ${why}.`,
  );
}
