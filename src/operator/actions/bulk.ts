/**
 * Actions on all that a filter selects, in pages. A cursor names a place in the rows as they were numbered, so that it stays
 * valid while rows leave the filter, and new rows are behind it.
 */

import { causeOf } from "../../core/failures.ts";
import { preview } from "../../core/json.ts";
import { invalidMessage } from "../../core/options/options.ts";
import type { InstalledInbound } from "../../inbound/index.ts";
import { cursorOf } from "../../kernel/outbox/internal.ts";
import {
  countSelected,
  type Range,
  restOf,
  type Selection,
  select,
  wholeRange,
} from "../../kernel/submissions/internal.ts";
import { InvalidOperationError, invalidOperation } from "../errors.ts";
import type { OperatedAgent } from "../operated.ts";

import {
  type CheckedRequest,
  type FilterAction,
  type SubmissionAction,
  statusesOf,
} from "./check.ts";
import { type Effect, messageOf, UNCHANGED } from "./effect.ts";
import { DISABLED } from "./items.ts";

/** Items of one call. */
const PAGE = 100;
/** Items that a dry run shows. */
const SHOWN = 20;
/** No further item is begun after this time: what calls the agent has a time limit. */
const PAGE_MS = 5_000;
/** Deliveries that are replayed before the time is looked at again. */
const REPLAYED_AT_A_TIME = 10;

type DeadLetterAction = Extract<FilterAction, { do: "redrive" | "delete-dead-letter" }>;
type ReplayAction = Extract<FilterAction, { do: "replay" }>;

function isOfSubmissions(action: SubmissionAction | DeadLetterAction): action is SubmissionAction {
  return action.do === "cancel" || action.do === "retry";
}

/** The request of an action by a filter. */
export type BulkRequest = Pick<CheckedRequest, "reason" | "cursor"> & {
  readonly action: FilterAction;
};

/** Counts the items of a page. */
class Page {
  count = 0;
  readonly failed: { id: string; error: string }[] = [];
  readonly #until: number;

  constructor(private readonly operated: OperatedAgent) {
    this.#until = operated.clock.now() + PAGE_MS;
  }

  get isOver(): boolean {
    return this.operated.clock.now() >= this.#until;
  }

  /** Works on one item. An error is that of the item, and the page continues. */
  async item(id: string, work: () => Promise<boolean>): Promise<void> {
    try {
      if (await work()) this.count++;
    } catch (error) {
      this.failed.push({ id, error: messageOf(error) });
    }
  }

  effect(cursor: string | undefined): Effect {
    const { count, failed } = this;
    const [first] = failed;
    const next = cursor !== undefined && { cursor };
    if (!first) return { ...(count > 0 ? { ...this.#done } : UNCHANGED), ...next };
    const error = `${failed.length} failed. The first one: ${preview(first.id)}: ${first.error}`;
    const outcome = count > 0 ? "done" : "failed";
    return { outcome, count, failed: failed.slice(0, PAGE), error, ...next };
  }

  get #done() {
    return { outcome: "done", count: this.count, failed: [] } as const;
  }
}

/** The effect of the action on all items, without the action. Writes nothing. */
export async function countBulk(operated: OperatedAgent, request: BulkRequest): Promise<Effect> {
  const { count, cursor, rows } = await countOf(operated, request);
  const outcome = count > 0 ? "done" : "unchanged";
  return { outcome, count, failed: [], rows, ...(cursor !== undefined && { cursor }) };
}

type Counted = Required<Pick<Effect, "count" | "rows">> & { readonly cursor?: string | undefined };

async function countOf(operated: OperatedAgent, { action, cursor }: BulkRequest): Promise<Counted> {
  if (action.do === "replay") {
    const options = { ...replayFilter(action, cursor), limit: SHOWN };
    const { first, ...counted } = await logOf(operated).countReplayable(options, matcherOf(action));
    const rows = first.map(({ source, id, failure }) => ({
      id: `${source}/${id}`,
      error: failure,
    }));
    return { ...counted, rows };
  }
  if (isOfSubmissions(action)) return countSubmissions(operated, action, cursor);
  return countDeadLetters(operated, action, cursor);
}

/** Whether a failure has one of the causes that are asked for. Undefined: all have. */
function matcherOf({ filter }: FilterAction): ((failure: string) => boolean) | undefined {
  const { cause } = filter as { cause?: string | readonly string[] };
  if (cause === undefined) return undefined;
  const causes = [cause].flat();
  return (failure) => causes.includes(causeOf(failure));
}

/** The filter as the modules know it. */
function withoutCause<Filter extends object>(filter: Filter): Omit<Filter, "cause"> {
  const { cause: _, ...rest } = filter as Filter & { cause?: unknown };
  return rest;
}

/** Works on the items of one page. */
export function runBulk(operated: OperatedAgent, request: BulkRequest): Promise<Effect> {
  const { action } = request;
  if (action.do === "replay") return replayPage(operated, action, request.cursor);
  if (isOfSubmissions(action)) return submissionPage(operated, action, request);
  return deadLetterPage(operated, action, request.cursor);
}

/** @throws InvalidOperationError for a cursor or a destination that the module refuses */
export async function checkBulk(
  operated: OperatedAgent,
  { action, cursor }: BulkRequest,
): Promise<void> {
  try {
    if (action.do === "replay") {
      // Without it, the action fails.
      if (operated.capabilities.features.has("inbound"))
        logOf(operated).checkReplay(replayFilter(action, cursor));
    } else if (isOfSubmissions(action)) rangeOf(operated, cursor);
    else await operated.agent.outbox.listDeadLetters(deadLetterFilter(action, cursor, 1));
  } catch (error) {
    if (error instanceof InvalidOperationError) throw error;
    throw new InvalidOperationError("filter", (error as Error).message);
  }
}

// Submissions

async function countSubmissions(
  operated: OperatedAgent,
  action: SubmissionAction,
  cursor: string | undefined,
) {
  const { sql } = operated.storage;
  const selection = selectionOf(action);
  const range = rangeOf(operated, cursor);
  const { count, next } = countSelected(sql, selection, range);
  const others = next ? [] : await elsewhere(operated, action);
  const own = select(sql, selection, range, SHOWN).rows.map(({ id, error }) => ({ id, error }));
  const rows = [...own, ...others.map((id) => ({ id, error: "" }))].slice(0, SHOWN);
  return { count: count + others.length, rows, cursor: next && cursorOfRange(next) };
}

async function submissionPage(
  operated: OperatedAgent,
  action: SubmissionAction,
  { reason, cursor }: BulkRequest,
): Promise<Effect> {
  const { agent, storage } = operated;
  const page = new Page(operated);
  const change = async (id: string) =>
    action.do === "cancel"
      ? (await agent.cancelSubmission(id, reason)).outcome === "cancelled"
      : (await agent.retrySubmission(id))?.accepted === true;
  const range = rangeOf(operated, cursor);
  const selection = selectionOf(action);
  const { rows, next } = select(storage.sql, selection, range, PAGE);
  for (const { seq, id } of rows) {
    await page.item(id, () => change(id));
    const left = restOf(selection, range, seq);
    if (page.isOver && left) return page.effect(cursorOfRange(left));
  }
  if (next) return page.effect(cursorOfRange(next));
  for (const id of await elsewhere(operated, action)) await page.item(id, () => change(id));
  return page.effect(undefined);
}

function selectionOf(action: SubmissionAction): Selection {
  const { status: _, ...filter } = withoutCause(action.filter);
  return {
    change: action.do,
    statuses: statusesOf(action),
    // Times were parsed when the filter was checked.
    filter: filter as Selection["filter"],
    matches: matcherOf(action),
  };
}

/** Open submissions in the SDK's own ledger, at most 100 of each status. Those that have ended cannot be retried. */
async function elsewhere(
  { capabilities }: OperatedAgent,
  action: SubmissionAction,
): Promise<string[]> {
  if (action.do === "retry") return [];
  const filter = { ...action.filter, status: statusesOf(action) };
  const found = await capabilities.submissions.listElsewhere(filter);
  return found.map(({ submissionId }) => submissionId);
}

const RANGE = /^(\d{1,15}):(\d{1,15})$/;

function cursorOfRange({ after, until }: Range): string {
  return `${after}:${until}`;
}

/** @throws InvalidOperationError */
function rangeOf({ storage }: OperatedAgent, cursor: string | undefined): Range {
  if (cursor === undefined) return wholeRange(storage.sql);
  const [, after, until] = RANGE.exec(cursor) ?? [];
  if (until !== undefined) return { after: Number(after), until: Number(until) };
  const problem = "expected the cursor of an earlier page";
  throw invalidOperation("cursor", invalidMessage("cursor", preview(cursor), problem));
}

// Dead letters

/** By default, a redrive leaves out those that may have been delivered. */
function deadLetterFilter(action: DeadLetterAction, cursor: string | undefined, limit: number) {
  const isUncertain = action.do === "redrive" ? { isUncertain: false } : {};
  const filter = withoutCause(action.filter);
  return { ...isUncertain, ...filter, limit, ...(cursor !== undefined && { cursor }) };
}

/** With a cause, a page: the events of all would be read. */
async function countDeadLetters(
  { agent, capabilities }: OperatedAgent,
  action: DeadLetterAction,
  cursor: string | undefined,
): Promise<Counted> {
  const matches = matcherOf(action);
  const page = await agent.outbox.listDeadLetters(
    deadLetterFilter(action, cursor, matches ? PAGE : SHOWN),
  );
  const found = page.items.filter(({ lastError }) => matches?.(lastError) !== false);
  const rows = found.slice(0, SHOWN).map(({ id, lastError: error }) => ({ id, error }));
  if (matches) return { count: found.length, rows, cursor: page.cursor };
  const count =
    action.do === "redrive"
      ? capabilities.outbox.countRedrivable(action.filter)
      : agent.outbox.countDeadLetters(action.filter);
  return { count: await count, rows };
}

async function deadLetterPage(
  operated: OperatedAgent,
  action: DeadLetterAction,
  cursor: string | undefined,
): Promise<Effect> {
  const { agent } = operated;
  const page = new Page(operated);
  const change = async (id: string) => {
    if (action.do === "delete-dead-letter") return agent.outbox.deleteDeadLetter(id);
    if (await agent.outbox.redrive(id)) return true;
    if ((await agent.outbox.inspect(id))?.state === "dead") throw DISABLED;
    return false;
  };
  const found = await agent.outbox.listDeadLetters(deadLetterFilter(action, cursor, PAGE));
  const matches = matcherOf(action);
  for (const { id, diedAt, lastError } of found.items) {
    if (matches?.(lastError) === false) continue;
    await page.item(id, () => change(id));
    if (page.isOver) return page.effect(cursorOf(diedAt, id));
  }
  return page.effect(found.cursor);
}

// Inbound deliveries

/** @throws FeatureNotInstalledError */
function logOf({ capabilities }: OperatedAgent): InstalledInbound["log"] {
  return (capabilities.features.get("inbound", "The action replay") as InstalledInbound).log;
}

function replayFilter({ filter }: ReplayAction, cursor: string | undefined) {
  return { ...withoutCause(filter), ...(cursor !== undefined && { cursor }) };
}

async function replayPage(
  operated: OperatedAgent,
  action: ReplayAction,
  cursor: string | undefined,
): Promise<Effect> {
  const page = new Page(operated);
  let from = cursor;
  for (let done = 0; done < PAGE; ) {
    const options = { ...replayFilter(action, from), limit: REPLAYED_AT_A_TIME };
    const found = await logOf(operated).replayMany(options, matcherOf(action));
    const { replayed, failed } = found;
    page.count += replayed - failed.length;
    page.failed.push(
      ...failed.map(({ source, id, error }) => ({ id: `${source}/${id}`, error: error.message })),
    );
    from = found.cursor;
    // Without room, the next page would begin with the same delivery, and fail again.
    const isFull = failed.some(({ error }) => error.name === "InboundBusyError");
    if (isFull && page.count === 0) return page.effect(undefined);
    if (from === undefined || isFull || page.isOver) break;
    done += Math.max(replayed, 1);
  }
  return page.effect(from);
}
