/** The open work of an agent: all that its code has accepted and that has not ended. */

import * as z from "zod";
import { count, optionsOf, text } from "../../core/options/option-schemas.ts";
import { cursorsOf, type Page, type PageOptions, readFilter } from "../../core/page.ts";
import type { Kernel } from "../../kernel/index.ts";
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
    return { kind, id, version: versions[at] ?? null, since, needs: distinct(known) };
  });
  return { items, ...(next && { cursor: CURSORS.at(JSON.stringify(next)) }) };
}

/** The version that accepted each row, in two statements. */
export function versionsOfRows(rows: readonly Open[], recorded: RecordedVersions): Version[] {
  const deployments = recorded.deployments();
  const runs = rows.flatMap(({ workflow, id }) =>
    workflow === undefined ? [] : { workflow, instance: id },
  );
  const reported = runs.length > 0 ? recorded.versionsOfRuns(runs) : new Map<string, Version>();
  return rows.map(({ kind, id, since, isCurrent }) => {
    const own = kind === "workflow" ? reported.get(id) : undefined;
    if (own !== undefined) return own;
    // The SDK stores the second: a workflow that began in it is of the version that ran at its end.
    const isSecond = kind === "workflow" && since % 1_000 === 0;
    const time = isSecond ? since + 999 : since;
    const found = isCurrent ? deployments[0] : deployments.find((one) => one.since <= time);
    return found?.version ?? null;
  });
}

/** A page of rows, once the object has started. Reads each source once, and those that are open in it. */
function readOpen(kernel: OpenOf, limit: number, place: Place = START) {
  const [since, source, id] = place;
  const tracked = workflowsAfter(kernel, place);
  const others = SOURCES.flatMap((read, at) => {
    const position = at + 1;
    // Of the sources before that of the last item, all of its time were in the page.
    const after = position < source ? since + 1 : since;
    const found = read(kernel, [after, position === source ? id : ""], limit + 1);
    return found.map((row) => ({ row, position }));
  });
  const all = [...tracked.rows.map((row) => ({ row, position: WORKFLOWS })), ...others].sort(
    (one, other) => one.row.since - other.row.since || one.position - other.position,
  );
  // What is older than the last workflow of the SDK's page is complete.
  const end = all.findLastIndex(({ position }) => position === WORKFLOWS) + 1;
  const page = all.slice(0, Math.min(limit, tracked.next === null ? all.length : end));
  const last = page.at(-1);
  const isWhole = page.length === all.length && tracked.next === null;
  const rows = page.map(({ row }) => row);
  if (!last || isWhole) return { rows, next: undefined };
  const left = tracked.rows.length - page.filter(({ position }) => position === WORKFLOWS).length;
  const isOver = left === 0 && tracked.next !== null;
  const workflows = isOver ? tracked.next : tracked.cursor;
  const isFresh = isOver || (tracked.isFresh && left === tracked.rows.length);
  const next: Place = [last.row.since, last.position, last.row.id, workflows, isFresh];
  return { rows, next };
}

/** All open rows page by page, until so many were read, Returns whether that was all. */
export function* eachOpen(kernel: OpenOf, most: number): Generator<readonly Open[], boolean> {
  let place: Place | undefined;
  for (let left = most; left > 0; ) {
    const { rows, next } = readOpen(kernel, Math.min(MOST_READ, left), place);
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

/** The rest of the SDK's page of workflows, or the next one. */
function workflowsAfter(kernel: OpenOf, [since, source, id, cursor, isFresh]: Place) {
  const { rows, next } = openWorkflows(kernel, cursor);
  const isAfter = (row: Open) =>
    row.since > since || (row.since === since && source === WORKFLOWS && row.id > id);
  const left = isFresh ? rows : rows.filter(isAfter);
  if (left.length > 0 || next === null) return { rows: left, cursor, isFresh, next };
  return { ...openWorkflows(kernel, next), cursor: next, isFresh: true };
}
