/** Each list of an agent as pages, and its items, by the agent's verbs. */

import type { Remote } from "../../kernel/index.ts";
import type { ListScanLimitError } from "../../kernel/submissions/index.ts";
import type { Operated, OperatedVerbs } from "../operated.ts";
import type { Collections, Details, Page, Parts } from "../protocol.ts";
import type { Query } from "./query.ts";

/** A stub, and the capabilities behind it. A result comes as a promise. */
export type Stub = Remote<Operated> & Pick<OperatedVerbs, "listSubmissions" | "inspectSubmission">;

type Lists = {
  readonly [Name in keyof Collections]: (
    stub: Stub,
    query: Query,
  ) => Promise<Page<Collections[Name]>>;
};
type Items = {
  readonly [Name in keyof Details]: (
    stub: Stub,
    id: string,
    part: string,
  ) => Promise<Details[Name] | null>;
};
type PartLists = {
  readonly [Name in keyof Parts]: (
    stub: Stub,
    id: string,
    query: Query,
  ) => Promise<Page<Parts[Name]>>;
};

const APPROVALS = ["pending", "approved", "rejected", "expired", "refused", "cancelled"] as const;
const OCCURRENCES = 10;

export const LISTS: Lists = {
  submissions: async (stub, query) => {
    const { limit } = query;
    const { items, cursor } = await submissionsOf(stub, { ...query, limit: limit + 1 });
    const last = items.slice(0, limit).at(-1)?.submissionId;
    if (items.length > limit || last === undefined)
      return pageOf(items.slice(0, limit), last ?? cursor);
    // The ledger cuts a page that is large, or for which it has read many rows.
    const rest = await submissionsOf(stub, { ...query, limit: 1, cursor: last });
    const isMore = rest.items.length > 0 || rest.cursor !== undefined;
    return pageOf(items, isMore ? last : undefined);
  },
  approvals: (stub, query) => stub.approvals.list({ status: APPROVALS, ...query }),
  inbound: (stub, query) => stub.inbound.list(query),
  deliveries: (stub, query) => stub.outbox.listDeliveries(query),
  "dead-letters": (stub, query) => stub.outbox.listDeadLetters(query),
  endpoints: (stub, query) => stub.outbox.listEndpoints(query),
  tasks: (stub, query) => stub.schedules.list({ occurrences: OCCURRENCES, ...query }),
  workflows: (stub, query) => stub.operations.listWorkflows(query),
  threads: (stub, query) => stub.operations.listThreads(query),
  actions: (stub, query) => stub.operations.listActions(query),
};

export const ITEMS: Items = {
  submissions: (stub, id) => stub.inspectSubmission(id),
  approvals: (stub, id) => stub.approvals.inspect(id),
  inbound: (stub, source, id) => stub.inbound.inspect(source, id),
  deliveries: deliveryOf,
  "dead-letters": deliveryOf,
  endpoints: (stub, url) => stub.outbox.inspectEndpoint(url),
  tasks: (stub, id) => stub.schedules.inspect(id, { occurrences: OCCURRENCES }),
  workflows: (stub, id) => stub.operations.inspectWorkflow(id),
};

export const PARTS: PartLists = {
  "tasks/runs": (stub, taskId, query) => stub.schedules.runs(taskId, query),
  "threads/messages": (stub, thread, query) => stub.operations.listThreadMessages(thread, query),
};

async function deliveryOf(stub: Stub, id: string): Promise<Details["deliveries"] | null> {
  const [state, event] = await Promise.all([stub.outbox.inspect(id), stub.outbox.read(id)]);
  return (
    state && {
      id,
      ...state,
      ...(event !== null && event !== undefined && { event }),
    }
  );
}

function pageOf<Item>(items: readonly Item[], cursor: string | undefined): Page<Item> {
  return { items, ...(cursor !== undefined && { cursor }) };
}

/** Submissions from a cursor on. A page on which none matches has the cursor of the next one. */
async function submissionsOf(
  stub: Stub,
  { cursor, ...options }: Query,
): Promise<Page<Collections["submissions"]>> {
  try {
    const before = cursor === undefined ? {} : { before: cursor };
    return { items: await stub.listSubmissions({ ...options, ...before }) };
  } catch (error) {
    // An error of an agent keeps its fields, and not its class.
    const { name, next } = (error ?? {}) as Partial<ListScanLimitError>;
    if (name !== "ListScanLimitError" || typeof next !== "string") throw error;
    return { items: [], cursor: next };
  }
}
