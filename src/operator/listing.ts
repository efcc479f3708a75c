/** Threads, and workflows with their steps, for operators. Reads only. */

import type { WorkflowInfo } from "agents/workflows";
import * as z from "zod";
import { sumOfDollars } from "../core/dollars.ts";
import { preview } from "../core/json.ts";
import {
  count,
  list,
  optionsOf,
  readOptions,
  someOf,
  text,
} from "../core/options/option-schemas.ts";
import { invalidMessage } from "../core/options/options.ts";
import { keyPrefix } from "../core/steps.ts";
import { boundedJson } from "../engine/operated/effect.ts";
import { bySeq, cursorsOf, pageOf } from "../engine/page.ts";
import { costsByDay } from "../submissions/store/costs.ts";
import { withKeyPrefix } from "../submissions/store/keyed.ts";
import { listThreads as threadPage } from "../submissions/store/threads.ts";
import { invalidOperation } from "./errors.ts";
import { STATUSES } from "./operated/lists.ts";
import type { OperatedAgent } from "./operated.ts";
import { LIMIT, seqPage } from "./paging.ts";
import type {
  CostRow,
  Filters,
  Page,
  PageOptions,
  ThreadMessage,
  ThreadSummary,
  WorkflowDetails,
  WorkflowSummary,
} from "./protocol.ts";
import { isOver, isWaiting, liveStatus, NOT_OVER } from "./workflows/instances.ts";
import { stepsOf } from "./workflows/steps.ts";

/**
 * The threads that submissions have used, the latest first. One that is used between two pages may be missing in the second.
 *
 * @throws InvalidOperationError for invalid options
 */
export async function listThreads(
  { capabilities, storage }: OperatedAgent,
  page: PageOptions = {},
): Promise<Page<ThreadSummary>> {
  const name = "options of operations.listThreads()";
  const { limit, cursor } = readOptions(THREADS.options, page, name, invalidOperation);
  await capabilities.submissions.ready();
  const { threads, next } = threadPage(storage.sql, limit, cursor);
  return { items: threads, ...(next !== undefined && { cursor: THREADS.at(next) }) };
}

/**
 * What the submissions of each day have cost, the latest day first.
 *
 * @throws InvalidOperationError for invalid options
 */
export async function listCosts(
  { capabilities, storage }: OperatedAgent,
  page: PageOptions = {},
): Promise<Page<CostRow>> {
  const name = "options of operations.listCosts()";
  const { limit, cursor } = readOptions(COSTS.options, page, name, invalidOperation);
  await capabilities.submissions.ready();
  const days = costsByDay(storage.sql, limit + 1, cursor);
  const dayOf = ({ number: _, ...day }: (typeof days)[number]) => day;
  return pageOf(days, limit, dayOf, ({ number }) => COSTS.at(number));
}

const COSTS = seqPage("costs");
const THREADS = seqPage("threads");
const MESSAGES = seqPage("messages");
const ID = text({ maxBytes: 2_000 });

/** UTF-16 units of JSON in a page, for one RPC result. */
const MAX_PAGE = 4_000_000;

/**
 * The messages of a thread, the last first. A page of large messages has fewer than its limit, and at least one.
 *
 * @throws InvalidOperationError for invalid options, or what is no thread
 */
export async function listThreadMessages(
  { agent }: OperatedAgent,
  thread: string,
  page: PageOptions = {},
): Promise<Page<ThreadMessage>> {
  readOptions(ID, thread, "thread", invalidOperation);
  const name = "options of operations.listThreadMessages()";
  // The cursor is the number of older messages.
  const { limit, cursor } = readOptions(MESSAGES.options, page, name, invalidOperation);
  const all: readonly ThreadMessage[] = await agent.threadMessages(thread);
  const items: ThreadMessage[] = [];
  let length = 0;
  for (const message of all.slice(0, cursor).reverse()) {
    length += JSON.stringify(message).length;
    const isFull = items.length === limit || (items.length > 0 && length > MAX_PAGE);
    const older = Math.min(cursor ?? all.length, all.length) - items.length;
    if (isFull) return { items, cursor: MESSAGES.at(older) };
    items.push(message);
  }
  return { items };
}

/** Instances that a filter names. */
const MAX_IDS = 100;
/** Of a page of instances that are named. */
const IDS = cursorsOf("workflow-ids", bySeq);

export const WORKFLOW_IDS = z
  .union([ID, list(ID, { min: 1, max: MAX_IDS })], {
    error: `expected an id, or a list of 1 to ${MAX_IDS} ids`,
  })
  .transform((id) => [...new Set([id].flat())])
  .optional();

const WORKFLOWS = optionsOf<Filters["workflows"] & PageOptions>()({
  status: someOf<string>(STATUSES).optional(),
  workflow: text().optional(),
  error: text().optional(),
  since: count({ min: 0, max: 8_640_000_000_000_000 }).optional(),
  id: WORKFLOW_IDS,
  limit: LIMIT,
  cursor: text({ maxLength: 2_000 }).optional(),
});

/**
 * Asks the platform for the instances of the page that have not ended, as far as the agent knows. What has ended is stored.
 *
 * @throws InvalidOperationError for invalid options
 */
export async function listWorkflows(
  operated: OperatedAgent,
  options: Filters["workflows"] & PageOptions = {},
): Promise<Page<WorkflowSummary>> {
  const name = "options of operations.listWorkflows()";
  const read = readOptions(WORKFLOWS, options, name, invalidOperation);
  const { status: wanted, workflow, error, since, id, limit, cursor } = read;
  await operated.capabilities.submissions.ready();
  const { workflows, nextCursor } = id
    ? pageOfIds(operated, id, limit, cursor)
    : trackedPage(operated, {
        limit,
        ...(wanted !== undefined && {
          status: [...new Set([...wanted, ...NOT_OVER])] as WorkflowInfo["status"][],
        }),
        ...(workflow !== undefined && { workflowName: workflow }),
        ...(cursor !== undefined && { cursor }),
      });
  const all = await Promise.all(workflows.map((info) => current(operated, info)));
  const items = all.filter(
    (item) =>
      (wanted?.includes(item.status) ?? true) &&
      (workflow === undefined || item.workflow === workflow) &&
      (error === undefined || item.error?.name === error) &&
      (since === undefined || (item.endedAt ?? item.updatedAt) >= since),
  );
  return { items, ...(nextCursor !== null && { cursor: nextCursor }) };
}

type TrackedPage = { readonly workflows: WorkflowInfo[]; readonly nextCursor: string | null };

function pageOfIds(
  { host }: OperatedAgent,
  ids: readonly string[],
  limit: number,
  cursor: string | undefined,
): TrackedPage {
  const from = cursor === undefined ? 0 : IDS.read(cursor);
  if (from === undefined) throw invalidCursor(cursor);
  const next = from + limit;
  const workflows = ids.slice(from, next).flatMap((id) => host.getWorkflow(id) ?? []);
  return { workflows, nextCursor: next < ids.length ? IDS.at(next) : null };
}

type Criteria = Parameters<OperatedAgent["host"]["getWorkflows"]>[0];

function trackedPage({ host }: OperatedAgent, criteria: Criteria): TrackedPage {
  try {
    return host.getWorkflows(criteria);
  } catch (error) {
    // Agents check it where they read it.
    if (!/cursor/i.test((error as Error).message)) throw error;
    throw invalidCursor(criteria?.cursor);
  }
}

function invalidCursor(cursor: unknown): Error {
  const problem = "expected the cursor of an earlier page";
  return invalidOperation("cursor", invalidMessage("cursor", preview(cursor), problem));
}

const OPEN: readonly string[] = ["queued", "running", "waiting"];

async function current(operated: OperatedAgent, info: WorkflowInfo): Promise<WorkflowSummary> {
  if (isOver(info)) return summaryOf(info);
  const live = await liveStatus(operated, info);
  const tracked = operated.host.getWorkflow(info.workflowId) ?? info;
  const status = live?.status ?? tracked.status;
  return { ...summaryOf(tracked), status: statusOf(operated, { ...info, status }) };
}

/** The status as it is known; of an open workflow, what its steps say, so that lists and details agree. */
function statusOf(
  operated: OperatedAgent,
  info: Pick<WorkflowInfo, "workflowName" | "workflowId" | "status">,
): string {
  if (!OPEN.includes(info.status)) return info.status;
  if (isWaiting(operated, info)) return "waiting";
  const hasAsked = withKeyPrefix(operated.storage.sql, keyPrefix("prompt", info), 1).length > 0;
  return hasAsked && info.status === "queued" ? "running" : info.status;
}

/**
 * One workflow with its steps, or null for an id that is not tracked. The status and the steps of the platform are left out
 * where it does not answer in time.
 *
 * @throws InvalidOperationError for what is no id
 */
export async function inspectWorkflow(
  operated: OperatedAgent,
  workflowId: string,
): Promise<WorkflowDetails | null> {
  readOptions(ID, workflowId, "workflowId", invalidOperation);
  await operated.capabilities.submissions.ready();
  const tracked = operated.host.getWorkflow(workflowId);
  if (!tracked) return null;
  const [live, steps] = await Promise.all([
    liveStatus(operated, tracked),
    stepsOf(operated, tracked),
  ]);
  const { error } = live ?? {};
  const cost = sumOfDollars(steps.map((step) => step.cost));
  const output = boundedJson({ output: live?.output }) as { output?: WorkflowDetails["output"] };
  return {
    ...summaryOf(operated.host.getWorkflow(workflowId) ?? tracked),
    status: statusOf(operated, { ...tracked, status: live?.status ?? tracked.status }),
    ...(error && { error: { name: error.name, message: error.message } }),
    ...(output.output !== undefined && { output: output.output }),
    ...(cost !== undefined && { cost }),
    steps,
  };
}

function summaryOf(info: WorkflowInfo): WorkflowSummary {
  const { workflowId, workflowName, status, createdAt, updatedAt, completedAt, error } = info;
  return {
    workflowId,
    workflow: workflowName,
    status,
    createdAt: createdAt.getTime(),
    updatedAt: updatedAt.getTime(),
    ...(completedAt && { endedAt: completedAt.getTime() }),
    ...(error && { error }),
  };
}
