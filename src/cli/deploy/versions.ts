/** The version in the history of a run: that of the class that continues it. */

import { isPlainObject } from "../../core/options/options.ts";
import type { OpenItem, Version, WorkflowHistory } from "../../features/deploy/types.ts";

/** The step of the platform that records a run's version. */
const VERSION_STEP = "perdure:version";

/**
 * The history as it would be, had the run begun with this version. Undefined for a run that has recorded none: no class goes by its
 * version.
 */
export function asVersion(history: WorkflowHistory, version: Version): WorkflowHistory | undefined {
  const { platform } = history;
  const at = platform.findIndex(({ name }) => name === VERSION_STEP);
  const step = platform[at];
  if (step?.status !== "completed" || !isPlainObject(step.output)) return undefined;
  const changed = { ...step, output: { ...step.output, version } };
  return { ...history, version, platform: platform.with(at, changed) };
}

/** The history with the version that continues the run: an operator may have migrated it. */
export function asContinued(
  history: WorkflowHistory,
  item: Pick<OpenItem, "version"> | undefined,
): WorkflowHistory {
  if (!item || item.version === history.version) return history;
  return asVersion(history, item.version) ?? history;
}
