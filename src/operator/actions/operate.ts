/** Does what operators ask for: checks it, records it in the audit log, and calls the agent's verbs. */

import type { Destination } from "../../kernel/outbox/index.ts";
import { withoutSecrets } from "../../kernel/outbox/internal.ts";
import type { OperatedAgent } from "../operated.ts";
import type { Action, OperateRequest, OperateResult } from "../protocol.ts";
import { recordEnd, recordStart } from "./audit.ts";
import { checkBulk, countBulk, runBulk } from "./bulk.ts";
import type { ActionName } from "./catalog.ts";
import { type CheckedRequest, type FilterAction, type ItemAction, readRequest } from "./check.ts";
import { boundedJson, type Effect, failed, type ItemVerb, messageOf } from "./effect.ts";
import { ITEM_VERBS } from "./items.ts";
import { TASK_VERBS } from "./tasks.ts";
import { WORKFLOW_VERBS } from "./workflows.ts";

export { listActions } from "./audit.ts";

/** The actions on single items. */
const VERBS: { readonly [Name in ActionName]: ItemVerb<never> } = {
  ...ITEM_VERBS,
  ...TASK_VERBS,
  ...WORKFLOW_VERBS,
};

const verbOf = ({ do: name }: ItemAction) => VERBS[name] as unknown as ItemVerb<ItemAction>;

/**
 * Does one action, or one page of an action with a filter. The error of a verb is in the result, and in the audit log.
 *
 * @throws InvalidOperationError; nothing is stored then
 */
export async function operate(
  operated: OperatedAgent,
  given: OperateRequest,
): Promise<OperateResult> {
  const request = readRequest(given);
  const { action, dryRun } = request;
  // Opens the tables of all modules.
  await operated.capabilities.submissions.ready();
  if (isFiltered(action)) await checkBulk(operated, { ...request, action });
  if (dryRun) return resultOf(await effectOf(action, () => preview(operated, request)));

  const { storage, clock } = operated;
  const auditId = recordStart(storage, { ...request, at: clock.now() }, shown(action));
  // So that the row outlives a crash of the action.
  await storage.sync();
  const effect = await effectOf(action, () => act(operated, request, auditId));
  recordEnd(storage, auditId, effect);
  const after = isFiltered(action) ? undefined : await afterOf(operated, action);
  return { ...resultOf(effect), auditId, ...(after !== undefined && { after }) };
}

function isFiltered(action: Action): action is FilterAction {
  return "filter" in action;
}

function preview(operated: OperatedAgent, request: CheckedRequest): Promise<Effect> {
  const { action } = request;
  if (isFiltered(action)) return countBulk(operated, { ...request, action });
  return verbOf(action).look(operated, action);
}

function act(operated: OperatedAgent, request: CheckedRequest, auditId: string): Promise<Effect> {
  const { action } = request;
  if (isFiltered(action)) return runBulk(operated, { ...request, action });
  return verbOf(action).act(operated, action, { ...request, auditId });
}

async function effectOf(action: Action, work: () => Promise<Effect>): Promise<Effect> {
  try {
    return await work();
  } catch (error) {
    return failed(isFiltered(action) ? "filter" : verbOf(action).id(action), error);
  }
}

/** The action is done, whatever happens here. */
async function afterOf(operated: OperatedAgent, action: ItemAction) {
  try {
    return boundedJson(await verbOf(action).after(operated, action));
  } catch (error) {
    console.warn(`[perdure] the state after ${action.do} could not be read: ${messageOf(error)}`);
    return undefined;
  }
}

function resultOf({ error: _, ...effect }: Effect): OperateResult {
  return effect;
}

/** For the audit log: a destination may have secrets. */
function shown(action: Action): Action {
  if (action.do !== "redrive" && action.do !== "delete-dead-letter") return action;
  if (!("filter" in action) || action.filter.destination === undefined) return action;
  const destination = withoutSecrets(action.filter.destination as Destination);
  return { ...action, filter: { ...action.filter, destination } };
}
