/** All pages of the API, one after the other, for the page and the command line. */

import type { OperatorClient } from "./client.ts";
import type { AgentRef, OperateRequest, OperateResult } from "./protocol.ts";

/**
 * @param most no further page is read above it
 * @param unlisted gets the agents whose names could not be listed
 */
export async function allAgents(
  client: OperatorClient,
  most = Number.POSITIVE_INFINITY,
  unlisted: string[] = [],
): Promise<AgentRef[]> {
  const all: AgentRef[] = [];
  let cursor: string | undefined;
  do {
    const page = await client.agents({ limit: 100, cursor });
    all.push(...page.items);
    unlisted.push(...(page.unlisted ?? []));
    cursor = page.cursor;
  } while (cursor !== undefined && all.length <= most);
  return all;
}

/** Does an action page by page. A page whose result is not asked for is not done. */
export async function* actedPages(
  client: OperatorClient,
  ref: AgentRef,
  request: Pick<OperateRequest, "action" | "reason" | "dryRun">,
): AsyncGenerator<OperateResult, void> {
  let cursor: string | undefined;
  do {
    const result = await client.act(ref, { ...request, ...(cursor !== undefined && { cursor }) });
    yield result;
    cursor = result.cursor;
  } while (cursor !== undefined);
}
