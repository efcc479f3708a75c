/** What a deployment tells of its versions and open work, by the lists of the operator API. */

import { setTimeout as delay } from "node:timers/promises";
import type {
  DeployedVersion,
  OpenItem,
  Version,
  WorkflowHistory,
} from "../../features/deploy/types.ts";
import type { OperatorClient } from "../../operator/client.ts";
import type { AgentRef } from "../../operator/protocol.ts";
import { isPassing } from "../context.ts";

const PAGE = 100;
const MAX_VERSIONS = 1_000;
/** A deployment that restarts answers again soon. */
const RETRY_MS = [500, 2_000];

/** The pages of an agent's open work. @throws OperatorError */
export async function* workOf(
  client: OperatorClient,
  ref: AgentRef,
): AsyncGenerator<readonly OpenItem[], void> {
  let cursor: string | undefined;
  do {
    const page = await again(() => client.list(ref, "work", { limit: PAGE, cursor }));
    yield page.items;
    cursor = page.cursor;
  } while (cursor !== undefined);
}

/** @throws OperatorError */
export async function versionsOf(
  client: OperatorClient,
  ref: AgentRef,
): Promise<DeployedVersion[]> {
  const versions: DeployedVersion[] = [];
  let cursor: string | undefined;
  do {
    const page = await again(() => client.list(ref, "versions", { limit: PAGE, cursor }));
    versions.push(...page.items);
    cursor = page.cursor;
  } while (cursor !== undefined && versions.length < MAX_VERSIONS);
  return versions;
}

/** The version that an agent runs with. */
export const currentOf = (versions: readonly DeployedVersion[]): Version =>
  versions.find(({ isCurrent }) => isCurrent)?.version ?? null;

/** The history of an open workflow. Null: it is not open. @throws OperatorError */
export async function historyOf(
  client: OperatorClient,
  ref: AgentRef,
  workflowId: string,
): Promise<WorkflowHistory | null> {
  const item = await again(() => client.inspect(ref, "work", `workflow/${workflowId}`));
  return item?.history ?? null;
}

/** Asks again where the deployment may answer later. */
async function again<Answer>(ask: () => Promise<Answer>): Promise<Answer> {
  for (const ms of RETRY_MS) {
    try {
      return await ask();
    } catch (error) {
      if (!isPassing(error)) throw error;
      await delay(ms);
    }
  }
  return ask();
}
