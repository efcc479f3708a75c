/** The actions of operators on submissions and threads. */

import { preview } from "../../core/json.ts";
import { InvalidOptionError, invalidMessage } from "../../core/options/options.ts";
import { PAGE } from "../../engine/operated/bulk-page.ts";
import type { OnMany, OnOne } from "../../engine/operated/catalog.ts";
import { done, NOT_FOUND, UNCHANGED } from "../../engine/operated/effect.ts";
import type { Bulk, BulkRequest, ItemVerb } from "../../engine/operated/part.ts";
import { byRange, cursorsOf } from "../../engine/page.ts";
import { checkMetadata, checkNamedThread, SUBMISSION_FILTER } from "../intake/request.ts";
import { isTerminal, type SubmissionStatus } from "../states.ts";
import {
  CHANGEABLE,
  countSelected,
  type Range,
  restOf,
  type Selection,
  select,
  wholeRange,
} from "../store/selection.ts";
import { countOpen } from "../store/threads.ts";
import type { Submissions } from "../submissions.ts";
import { MAIN } from "../threads.ts";
import type { ACTIONS, Filters } from "./catalog.ts";

/** The agent as these actions see it. */
export type Operated = {
  readonly storage: DurableObjectStorage;
  readonly agent: {
    inspectSubmission: Submissions["inspect"];
    cancelSubmission: Submissions["cancel"];
    retrySubmission: Submissions["retry"];
    threadMessages(thread: string): Promise<readonly object[]>;
    clearThread(thread: string): Promise<void>;
  };
  readonly capabilities: { readonly submissions: Submissions };
};

type Verbs = { [Name in keyof typeof ACTIONS]: ItemVerb<Operated, OnOne<typeof ACTIONS, Name>> };

/** The submission that a retry has made of this one, if it is stored. */
function retriedBy({ capabilities }: Operated, submissionId: string): string | undefined {
  const { store } = capabilities.submissions;
  const { retriedBy: id } = store.find(submissionId) ?? {};
  return id !== undefined && store.find(id)?.isRetry ? id : undefined;
}

async function contentsOf({ agent, storage }: Operated, thread: string) {
  const messages = await agent.threadMessages(thread);
  return { open: countOpen(storage.sql, thread), messages: messages.length };
}

export const VERBS: Verbs = {
  cancel: {
    async look({ agent }, { submissionId }) {
      const found = await agent.inspectSubmission(submissionId);
      if (!found) return NOT_FOUND;
      return isTerminal(found.status) ? UNCHANGED : done();
    },
    act: async ({ agent }, { submissionId }, { reason }) =>
      (await agent.cancelSubmission(submissionId, reason)).outcome === "cancelled",
    after: ({ agent }, { submissionId }) => agent.inspectSubmission(submissionId),
  },
  retry: {
    async look(operated, { submissionId }) {
      const found = await operated.agent.inspectSubmission(submissionId);
      if (!found) return NOT_FOUND;
      const isEnded = isTerminal(found.status) && found.status !== "completed";
      return isEnded && retriedBy(operated, found.submissionId) === undefined ? done() : UNCHANGED;
    },
    act: async ({ agent }, { submissionId }) =>
      (await agent.retrySubmission(submissionId))?.accepted === true,
    /** The new one. */
    after: (operated, { submissionId }) =>
      operated.agent.inspectSubmission(retriedBy(operated, submissionId) ?? submissionId),
  },
  "clear-thread": {
    async look(operated, { thread }) {
      checkNamedThread(thread);
      const { open, messages } = await contentsOf(operated, thread);
      return open + messages > 0 ? done() : UNCHANGED;
    },
    async act({ agent }, { thread }) {
      await agent.clearThread(thread);
      return true;
    },
    after: async (operated, { thread }) =>
      // The conversation of an agent may be large, and cannot be cleared here.
      thread === MAIN ? undefined : { thread, ...(await contentsOf(operated, thread)) },
  },
};

type Many = OnMany<typeof ACTIONS, Filters>;
type Request = BulkRequest<Many>;

/** The statuses that the action can change, of those that are asked for. */
function statusesOf({ do: change, filter: { status } }: Many): SubmissionStatus[] {
  const all: readonly SubmissionStatus[] = CHANGEABLE[change];
  const asked = status === undefined ? all : [status].flat();
  return all.filter((one) => asked.includes(one));
}

function selectionOf({ action, matches }: Request): Selection {
  const { status: _, cause: __, ...filter } = action.filter;
  return {
    change: action.do,
    statuses: statusesOf(action),
    // Times were parsed when the filter was checked.
    filter: filter as Selection["filter"],
    matches,
  };
}

/** Open submissions in the SDK's own ledger, at most 100 of each status. Those that have ended cannot be retried. */
async function elsewhere({ capabilities }: Operated, action: Many): Promise<string[]> {
  if (action.do === "retry") return [];
  const filter = { ...action.filter, status: statusesOf(action) };
  const found = (await capabilities.submissions.listElsewhere?.(filter)) ?? [];
  return found.map(({ submissionId }) => submissionId);
}

const RANGES = cursorsOf("submissions", byRange);

function cursorOf({ after, until }: Range): string {
  return RANGES.at(after, until);
}

/** A cursor names a place in the rows as they were numbered, so that it stays valid while rows leave the filter. */
function rangeOf({ storage }: Operated, { cursor }: Request): Range {
  if (cursor === undefined) return wholeRange(storage.sql);
  const range = RANGES.read(cursor);
  if (range) return range;
  const problem = "expected the cursor of an earlier page";
  throw new InvalidOptionError("cursor", invalidMessage("cursor", preview(cursor), problem));
}

export const SUBMISSIONS: Bulk<Operated, Many> = {
  filter: SUBMISSION_FILTER,
  check(operated, request) {
    const { do: change, filter } = request.action;
    try {
      checkMetadata(filter.metadata);
    } catch (error) {
      throw new InvalidOptionError("filter.metadata", (error as Error).message);
    }
    if (statusesOf(request.action).length === 0) {
      const expected = `expected one or more of ${CHANGEABLE[change].join(", ")}`;
      const message = invalidMessage("filter.status", preview(filter.status), expected);
      throw new InvalidOptionError("status", message);
    }
    rangeOf(operated, request);
  },
  async count(operated, request, most) {
    const { sql } = operated.storage;
    const selection = selectionOf(request);
    const range = rangeOf(operated, request);
    const { count, next } = countSelected(sql, selection, range);
    const others = next ? [] : await elsewhere(operated, request.action);
    const own = select(sql, selection, range, most).rows.map(({ id, error }) => ({ id, error }));
    const rows = [...own, ...others.map((id) => ({ id, error: "" }))].slice(0, most);
    return { count: count + others.length, rows, cursor: next && cursorOf(next) };
  },
  async run(operated, request, page) {
    const { agent, storage } = operated;
    const { action, reason } = request;
    const change = async (id: string) =>
      action.do === "cancel"
        ? (await agent.cancelSubmission(id, reason)).outcome === "cancelled"
        : (await agent.retrySubmission(id))?.accepted === true;
    const range = rangeOf(operated, request);
    const selection = selectionOf(request);
    const { rows, next } = select(storage.sql, selection, range, PAGE);
    for (const { seq, id } of rows) {
      await page.item(id, () => change(id));
      const left = restOf(selection, range, seq);
      if (page.isOver && left) return cursorOf(left);
    }
    if (next) return cursorOf(next);
    for (const id of await elsewhere(operated, action)) await page.item(id, () => change(id));
    return undefined;
  },
};
