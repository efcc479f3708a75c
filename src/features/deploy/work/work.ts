/** The open work of an agent: all that its code has accepted and that has not ended. */

import * as z from "zod";
import { count, optionsOf, text } from "../../../core/options/option-schemas.ts";
import { cursorsOf, type Page, type PageOptions, readFilter } from "../../../engine/page.ts";
import type { Kernel } from "../../../workflow/agent/kernel.ts";
import type { DeployStore } from "../store.ts";
import type { OpenItem, Version } from "../types.ts";
import { distinct } from "./needs.ts";
import { findWorkflow, type Open, type OpenOf, openWorkflows, SOURCES } from "./sources.ts";
import { type Declaring, toolsOf } from "./tools.ts";

/** What is recorded of versions. */
export type RecordedVersions = Pick<DeployStore, "deployments" | "versionsOfRuns">;

export type WorkOf = OpenOf & Declaring & Pick<Kernel, "submissions">;

/**
 * Where a page has ended: the time, the source and the id of its last item, the cursor of the SDK's list of workflows, and whether
 * no workflow of that list was in a page.
 */
type Place = readonly [
  since: number,
  source: number,
  id: string,
  workflows: string | null,
  isFresh: boolean,
];

const START: Place = [Number.MIN_SAFE_INTEGER, 0, "", null, true];
const WORKFLOWS = 0;

/** Rows of one page. */
const MOST_READ = 1_000;
/** Items that are walked for one answer, the oldest ones. */
export const MOST_WALKED = 10_000;

const PLACE = z.tuple([
  z.int(),
  z.int().min(0).max(SOURCES.length),
  z.string().max(2_000),
  z.string().max(2_000).nullable(),
  z.boolean(),
]);
const CURSORS = cursorsOf("work", (text): Place | undefined => {
  try {
    return PLACE.safeParse(JSON.parse(text)).data;
  } catch {
    return undefined;
  }
});

export type ListWorkOptions = PageOptions & {
  /** Only this item: `kind/id`. Of other kinds than `workflow`, it is looked for among the oldest 10,000 items. */
  readonly id?: string | undefined;
};

const LIST = optionsOf<ListWorkOptions>()({
  id: text({ maxLength: 2_000 }).optional(),
  limit: count({ max: MOST_READ }).default(100),
  cursor: CURSORS.option,
});

/**
 * Open work, the oldest first. Two pages may both have a batch, whose time is that of its oldest open submission.
 *
 * @param options.limit 1 to 1,000. @default 100
 * @throws InvalidFilterError, what `getTools()` throws
 */
export async function openWork(
  kernel: WorkOf,
  recorded: RecordedVersions,
  options: ListWorkOptions = {},
): Promise<Page<OpenItem>> {
  const { id, limit, cursor } = readFilter(LIST, "deployments.work()", options);
  await kernel.submissions.ready();
  const { rows, next } =
    id === undefined
      ? readOpen(kernel, limit, cursor)
      : { rows: findOpen(kernel, id), next: undefined };
  const isCalled = rows.some(({ needs }) => needs.some(({ what }) => what === "tool"));
  const tools = isCalled ? await toolsOf(kernel) : undefined;
  const versions = versionsOfRows(rows, recorded);
  const items = rows.map(({ kind, id, since, needs }, at): OpenItem => {
    // A tool that the agent gets elsewhere says nothing of its code.
    const known = needs.filter(({ what, name }) => what !== "tool" || tools?.has(name));
    return { kind, id, version: versions[at]?.version ?? null, since, needs: distinct(known) };
  });
  return { items, ...(next && { cursor: CURSORS.at(JSON.stringify(next)) }) };
}

/** A version of the agent, or of the Workflow whose `versions()` recorded it. */
export type RowVersion = { readonly version: Version; readonly workflow?: string };

/** The version that accepted each row, in two statements. */
export function versionsOfRows(rows: readonly Open[], recorded: RecordedVersions): RowVersion[] {
  const deployments = recorded.deployments();
  const runs = rows.flatMap(({ workflow, id }) =>
    workflow === undefined ? [] : { workflow, instance: id },
  );
  const reported = runs.length > 0 ? recorded.versionsOfRuns(runs) : new Map<string, Version>();
  return rows.map(({ kind, id, since, isCurrent, workflow }) => {
    const own = kind === "workflow" ? reported.get(id) : undefined;
    if (own !== undefined && workflow !== undefined) return { version: own, workflow };
    // The SDK stores the second: a workflow that began in it is of the version that ran at its end.
    const isSecond = kind === "workflow" && since % 1_000 === 0;
    const time = isSecond ? since + 999 : since;
    const found = isCurrent ? deployments[0] : deployments.find((one) => one.since <= time);
    return { version: found?.version ?? null };
  });
}

/** A page of rows, once the object has started. Reads each source once, and those that are open in it. */
function readOpen(kernel: OpenOf, limit: number, place: Place = START) {
  const [since, source, id] = place;
  const tracked = workflowsAfter(kernel, limit, place);
  const others = SOURCES.flatMap((read, at) => {
    const position = at + 1;
    // Of the sources before that of the last item, all of its time were in the page.
    const after = position < source ? since + 1 : since;
    const found = read(kernel, [after, position === source ? id : ""], limit + 1);
    return found.map((row) => ({ row, position }));
  });
  const workflows = tracked.flatMap(({ rows }) => rows);
  const all = [...workflows.map((row) => ({ row, position: WORKFLOWS })), ...others].sort(
    (one, other) => one.row.since - other.row.since || one.position - other.position,
  );
  const page = all.slice(0, limit);
  const rows = page.map(({ row }) => row);
  const last = page.at(-1);
  if (!last || page.length === all.length) return { rows, next: undefined };
  const count = page.filter(({ position }) => position === WORKFLOWS).length;
  const next: Place = [last.row.since, last.position, last.row.id, ...rest(tracked, count)];
  return { rows, next };
}

/** All open rows page by page, until so many were read. Returns whether that was all. */
export function* eachOpen(kernel: OpenOf, most: number): Generator<readonly Open[], boolean> {
  let place: Place | undefined;
  for (let left = most; left > 0; ) {
    const { rows, next } = readOpen(kernel, left, place);
    yield rows;
    if (!next) return true;
    place = next;
    left -= rows.length;
  }
  return false;
}

function findOpen(kernel: OpenOf, id: string): Open[] {
  const isIt = (row: Open) => `${row.kind}/${row.id}` === id;
  const [, workflowId] = /^workflow\/(.*)$/s.exec(id) ?? [];
  if (workflowId !== undefined) return findWorkflow(kernel, workflowId);
  for (const rows of eachOpen(kernel, MOST_WALKED)) {
    const found = rows.find(isIt);
    if (found) return [found];
  }
  return [];
}

/** A page of the SDK's list of workflows: its cursor, and what is left of it. */
type Tracked = {
  readonly cursor: string | null;
  readonly rows: readonly Open[];
  readonly isFresh: boolean;
};

/** The SDK's pages, until there are more workflows than the limit, or no more. */
function workflowsAfter(kernel: OpenOf, limit: number, place: Place): Tracked[] {
  const [since, source, id, first, isFresh] = place;
  const isAfter = (row: Open) =>
    row.since > since || (row.since === since && source === WORKFLOWS && row.id > id);
  const { rows, next } = openWorkflows(kernel, first);
  const pages: Tracked[] = [
    { cursor: first, rows: isFresh ? rows : rows.filter(isAfter), isFresh },
  ];
  let found = pages[0]?.rows.length ?? 0;
  for (let cursor = next; cursor !== null && found <= limit; ) {
    const page = openWorkflows(kernel, cursor);
    pages.push({ cursor, rows: page.rows, isFresh: true });
    found += page.rows.length;
    cursor = page.next;
  }
  return pages;
}

/** Where the SDK's list continues after so many of these workflows. */
function rest(pages: readonly Tracked[], count: number): [cursor: string | null, isFresh: boolean] {
  let left = count;
  for (const { cursor, rows, isFresh } of pages) {
    if (left < rows.length) return [cursor, isFresh && left === 0];
    left -= rows.length;
  }
  // All of them: the last page is read again, for workflows that begin meanwhile.
  return [pages.at(-1)?.cursor ?? null, false];
}
