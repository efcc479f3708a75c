/** What can be wrong with the version of a run. */

import { preview } from "../../core/json.ts";
import type { Version } from "./types.ts";

/**
 * `versions()` has no class for the version that the run began with. The run has ended with this error before it took any path;
 * restart it to begin with the newest version, or deploy the class again and migrate it.
 */
export class UnknownVersionError extends Error {
  override readonly name = "UnknownVersionError";
  constructor(
    /** Null: the run began before its class had a version. */
    readonly version: Version,
    readonly known: readonly string[],
  ) {
    const began =
      version === null
        ? "before its class had a version, and versions() has no option unversioned"
        : `with the version ${preview(version)}, which versions() does not have`;
    super(
      `The run began ${began}. It has ${known.map((each) => preview(each)).join(", ")}. Add the class of that version and migrate the run, ` +
        "or restart the run: it begins with the newest version.",
    );
  }
}
