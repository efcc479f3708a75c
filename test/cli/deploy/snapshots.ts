/** Snapshots for tests of `check`. */

import type { AgentWork, Snapshot } from "../../../src/cli/deploy/snapshot.ts";
import type { Need, OpenItem, WorkflowHistory } from "../../../src/features/deploy/index.ts";

const AT = 1_795_000_000_000;

export const itemOf = (kind: string, id: string, needs: readonly Need[] = []): OpenItem => {
  return { kind, id, version: "7", since: AT, needs };
};

export const historyOf = (
  workflow: string,
  workflowId: string,
  more: Partial<WorkflowHistory> = {},
): WorkflowHistory => ({
  ...{ workflow, workflowId, version: "7", status: "waiting", startedAt: AT },
  ...{ params: {}, platform: [], asked: [], ...more },
});

export const agentWork = (
  agent: string,
  name: string,
  work: readonly OpenItem[],
  histories: readonly WorkflowHistory[] = [],
): AgentWork => ({ agent, name, version: "7", work, histories });

export const snapshotOf = (
  agents: readonly AgentWork[],
  more: Partial<Snapshot> = {},
): Snapshot => {
  return { perdure: 1, at: AT, agents, notInstalled: [], notRead: [], ...more };
};
