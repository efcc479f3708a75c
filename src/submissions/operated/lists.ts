/** Submissions and threads for operators, as lists. */

import type { Called, List, Query } from "../../engine/operated/list.ts";
import type { Page, PageOptions } from "../../engine/page.ts";
import type { ListScanLimitError } from "../errors.ts";
import type { CostRow } from "../store/costs.ts";
import type { ThreadRow } from "../store/threads.ts";
import type { Submissions } from "../submissions.ts";
import type { SubmissionInspection, WaitingFor } from "../types.ts";
import type { Action, Filters } from "./catalog.ts";

export type { CostRow, ThreadRow as ThreadSummary };

/** A message of a thread, as the AI SDK's `UIMessage`. */
export type ThreadMessage = {
  readonly id: string;
  readonly role: string;
  readonly parts: readonly { readonly type: string; readonly text?: string }[];
};

type Stub = {
  readonly listSubmissions: Called<Submissions>["list"];
  readonly inspectSubmission: Called<Submissions>["inspect"];
  readonly operations: {
    listThreads(page: PageOptions): Promise<Page<ThreadRow>>;
    listCosts(page: PageOptions): Promise<Page<CostRow>>;
    listThreadMessages(thread: string, page: PageOptions): Promise<Page<ThreadMessage>>;
  };
};

export const LISTS: {
  readonly submissions: List<SubmissionInspection, Filters["submissions"], Action>;
  readonly threads: List<ThreadRow, Record<never, never>, Action>;
  readonly costs: List<CostRow, Record<never, never>>;
} = {
  submissions: {
    title: "Submissions",
    letter: "s",
    empty: "No submission yet. Turns that the agent accepts appear here.",
    id: ({ submissionId }) => submissionId,
    link: "Submission",
    columns: {
      Status: ["status", ({ status }) => status],
      Submission: ["id", ({ submissionId }) => submissionId],
      Accepted: ["time", ({ createdAt }) => createdAt],
      Thread: ["text", ({ thread }) => thread, 24],
      Took: [
        "duration",
        ({ startedAt, completedAt }) => startedAt && completedAt && completedAt - startedAt,
      ],
      Attempts: ["text", ({ attempts }) => attempts],
      Result: ["text", ({ output, error, waitingFor }) => error ?? output ?? waitText(waitingFor)],
    },
    filters: {
      status: ["pending", "running", "completed", "error", "aborted", "skipped"],
      thread: "text",
      metadata: "metadata",
      createdAfter: "time",
      createdBefore: "time",
    },
    actions: ({ submissionId, status }) => {
      if (status === "pending" || status === "running") return [{ do: "cancel", submissionId }];
      return status === "completed" ? [] : [{ do: "retry", submissionId }];
    },
  },
  threads: {
    title: "Threads",
    letter: "h",
    empty: "No thread yet. Conversations that submissions use appear here.",
    id: ({ thread }) => thread,
    link: "Thread",
    columns: {
      Thread: ["text", ({ thread }) => thread, 60],
      Open: ["text", ({ open }) => open],
      All: ["text", ({ total }) => total],
      Latest: ["time", ({ lastAt }) => lastAt],
    },
    actions: ({ thread }) =>
      thread === "main" || thread === "isolated" ? [] : [{ do: "clear-thread", thread }],
    isWhole: true,
  },
  costs: {
    title: "Costs",
    letter: "c",
    empty: "No cost yet. What model calls with a price in limits() cost appears here.",
    id: ({ day }) => day,
    link: "Day",
    columns: {
      Day: ["text", ({ day }) => day],
      Dollars: ["text", ({ cost }) => cost],
      Submissions: ["text", ({ submissions }) => submissions],
    },
    isWhole: true,
  },
};

function waitText(wait: WaitingFor | undefined): string | undefined {
  return wait && `waits for ${wait.limit}${wait.key && `/${wait.key}`}: ${wait.why}`;
}

/** Each list, as the API reads it from the agent. */
export const READS = {
  async submissions(stub: Stub, query: Query): Promise<Page<SubmissionInspection>> {
    const { limit } = query;
    const { items, cursor } = await pageFrom(stub, { ...query, limit: limit + 1 });
    const last = items.slice(0, limit).at(-1)?.submissionId;
    if (items.length > limit || last === undefined)
      return pageOf(items.slice(0, limit), last ?? cursor);
    // The ledger cuts a page that is large, or for which it has read many rows.
    const rest = await pageFrom(stub, { ...query, limit: 1, cursor: last });
    const isMore = rest.items.length > 0 || rest.cursor !== undefined;
    return pageOf(items, isMore ? last : undefined);
  },
  threads: ({ operations }: Stub, query: Query) => operations.listThreads(query),
  costs: ({ operations }: Stub, query: Query) => operations.listCosts(query),
};

/** Each item with its details. */
export const OPENS = {
  submissions: (stub: Stub, id: string) => stub.inspectSubmission(id),
};

const pageOf = (items: readonly SubmissionInspection[], cursor: string | undefined) => ({
  items,
  ...(cursor !== undefined && { cursor }),
});

/** From a cursor on. A page on which none matches has the cursor of the next one. */
async function pageFrom(
  stub: Stub,
  { cursor: before, ...options }: Query,
): Promise<Page<SubmissionInspection>> {
  try {
    return { items: await stub.listSubmissions({ ...options, ...(before && { before }) }) };
  } catch (error) {
    // An error of an agent keeps its fields, and not its class.
    const { name, next } = (error ?? {}) as Partial<ListScanLimitError>;
    if (name !== "ListScanLimitError" || typeof next !== "string") throw error;
    return { items: [], cursor: next };
  }
}

/** The lists of an item. */
export const SUBLISTS = {
  "threads/messages": ({ operations }: Stub, thread: string, query: Query) =>
    operations.listThreadMessages(thread, query),
};
