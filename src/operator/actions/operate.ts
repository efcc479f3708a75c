/** Does what operators ask for: checks it, records it in the audit log, and calls the agent's verbs. */

import { causeOf } from "../../core/failures.ts";
import { InvalidFieldError } from "../../core/options/options.ts";
import { BulkPage } from "../../engine/operated/bulk-page.ts";
import {
  boundedJson,
  type Effect,
  failed,
  messageOf,
  UNCHANGED,
} from "../../engine/operated/effect.ts";
import type { BulkRequest, ItemVerb } from "../../engine/operated/part.ts";
import { InvalidOperationError } from "../errors.ts";
import type { OperatedAgent } from "../operated.ts";
import { PARTS } from "../parts.ts";
import type { Action, OperateRequest, OperateResult } from "../protocol.ts";
import { recordEnd, recordStart } from "./audit.ts";
import {
  bulkOf,
  type CheckedRequest,
  type FilterAction,
  type ItemAction,
  readRequest,
  targetOf,
} from "./check.ts";

export { listActions } from "./audit.ts";

/** Items that a dry run shows. */
const SHOWN = 20;

/** The actions on single items. */
const VERBS = Object.assign({}, ...PARTS.map(({ verbs }) => verbs));

const verbOf = ({ do: name }: ItemAction) => VERBS[name] as ItemVerb<OperatedAgent, ItemAction>;

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
  if (isFiltered(action)) await checkBulk(operated, bulkRequest(request, action));
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

function bulkRequest(request: CheckedRequest, action: FilterAction): BulkRequest<FilterAction> {
  const { cause } = action.filter;
  const causes = cause === undefined ? undefined : [cause].flat();
  return {
    ...request,
    action,
    matches: causes && ((failure) => causes.includes(causeOf(failure))),
  };
}

/** @throws InvalidOperationError for a filter or a cursor that the module refuses */
async function checkBulk(operated: OperatedAgent, request: BulkRequest<FilterAction>) {
  try {
    await bulkOf(request.action).check(operated, request);
  } catch (error) {
    const field = error instanceof InvalidFieldError ? error.field : "filter";
    throw new InvalidOperationError(field, (error as Error).message);
  }
}

async function preview(operated: OperatedAgent, request: CheckedRequest): Promise<Effect> {
  const { action } = request;
  if (!isFiltered(action)) {
    const verb = verbOf(action);
    const effect = await verb.look(operated, action);
    if (effect.outcome !== "done") return effect;
    return { ...effect, ...(await verb.preview?.(operated, action)) };
  }
  const counted = await bulkOf(action).count(operated, bulkRequest(request, action), SHOWN);
  const { count, rows, cursor } = counted;
  const outcome = count > 0 ? "done" : "unchanged";
  return { outcome, count, failed: [], rows, ...(cursor !== undefined && { cursor }) };
}

async function act(
  operated: OperatedAgent,
  request: CheckedRequest,
  auditId: string,
): Promise<Effect> {
  const { action } = request;
  if (isFiltered(action)) {
    const page = new BulkPage(operated.clock);
    return page.effect(await bulkOf(action).run(operated, bulkRequest(request, action), page));
  }
  const verb = verbOf(action);
  return oneByOne(operated, JSON.stringify(targetOf(action)), async () => {
    const effect = await verb.look(operated, action);
    if (effect.outcome === "done") {
      const did = await verb.act(operated, action, { ...request, auditId });
      return did === true ? effect : did || UNCHANGED;
    }
    if (effect.outcome === "unchanged" && verb.isRepeatable)
      await Promise.resolve(verb.act(operated, action, { ...request, auditId })).catch(() => {});
    return effect;
  });
}

const queues = new WeakMap<DurableObjectStorage, Map<string, Promise<unknown>>>();

/** Runs the actions on one item one after the other, so that each finds what the one before has done. */
async function oneByOne<T>(
  { storage }: OperatedAgent,
  key: string,
  work: () => Promise<T>,
): Promise<T> {
  const queue = queues.get(storage) ?? new Map<string, Promise<unknown>>();
  queues.set(storage, queue);
  const running = (queue.get(key) ?? Promise.resolve()).then(work);
  const ended = running.catch(() => {});
  queue.set(key, ended);
  try {
    return await running;
  } finally {
    if (queue.get(key) === ended) queue.delete(key);
  }
}

async function effectOf(action: Action, work: () => Promise<Effect>): Promise<Effect> {
  try {
    return await work();
  } catch (error) {
    return failed(isFiltered(action) ? "filter" : idOf(action), error);
  }
}

const idOf = (action: ItemAction) => targetOf(action).join("/");

/** The action is done, whatever happens here. */
async function afterOf(operated: OperatedAgent, action: ItemAction) {
  try {
    return boundedJson(await verbOf(action).after?.(operated, action));
  } catch (error) {
    console.warn(`[perdure] the state after ${action.do} could not be read: ${messageOf(error)}`);
    return undefined;
  }
}

function resultOf({ error: _, ...effect }: Effect): OperateResult {
  return effect;
}

/** For the audit log. */
function shown(action: Action): Action {
  if (!isFiltered(action)) return action;
  return { ...action, filter: bulkOf(action).shown?.(action) ?? action.filter } as Action;
}
