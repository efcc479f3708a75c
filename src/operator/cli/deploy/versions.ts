/** The version in the history of a run: that of the class that continues it. */

import { isPlainObject } from "../../../core/options/options.ts";
import type { OpenItem, PlatformStep, Version, WorkflowHistory } from "../../../deploy/index.ts";

/** The step of the platform that records a run's version. */
const VERSION_STEP = "perdure:version";

const stepIn = ({ platform }: WorkflowHistory) =>
  platform.find(({ name }) => name === VERSION_STEP);

/** The history as it would be, had the run begun with this version. */
export function asVersion(history: WorkflowHistory, version: Version): WorkflowHistory {
  const recorded = stepIn(history);
  const { startedAt, platform } = history;
  const changes = isPlainObject(recorded?.output) ? recorded.output.changes : undefined;
  const step: PlatformStep = {
    ...(recorded ?? { name: VERSION_STEP, count: 1, kind: "do", startedAt }),
    status: "completed",
    output: { version, changes: changes ?? [] },
  };
  return { ...history, version, platform: [step, ...platform.filter((each) => each !== recorded)] };
}

/** The history with the version that continues the run: an operator may have migrated it. */
export function asContinued(
  history: WorkflowHistory,
  item: Pick<OpenItem, "version"> | undefined,
): WorkflowHistory {
  // The version of a run without such a step is that of its agent, which no class goes by.
  if (!item || stepIn(history)?.status !== "completed" || item.version === history.version)
    return history;
  return asVersion(history, item.version);
}
