/** The versions that an agent has run with, and how much of the work of each is open. */

import { count, optionsOf } from "../../../core/options/option-schemas.ts";
import { bySeq, cursorsOf, type Page, type PageOptions, readFilter } from "../../../engine/page.ts";
import type { DeployedVersion } from "../types.ts";
import {
  eachOpen,
  MOST_WALKED,
  type RecordedVersions,
  type RowVersion,
  versionsOfRows,
  type WorkOf,
} from "./work.ts";

/** Cursors are the number of newer versions. */
const CURSORS = cursorsOf("versions", bySeq);
const LIST = optionsOf<PageOptions>()({
  limit: count({ max: 1_000 }).default(100),
  cursor: CURSORS.option,
});

type Counted = RowVersion & { since: number; readonly open: Record<string, number> };

/** Versions of an agent and of its Workflows may have the same name. */
const keyOf = ({ version, workflow }: RowVersion) => JSON.stringify([workflow, version]);

/**
 * Versions, the newest first, with their open work by kind. At most 10,000 items are counted, the oldest first: `isCut` says that
 * there are more.
 *
 * @param options.limit 1 to 1,000. @default 100
 * @throws InvalidFilterError
 */
export async function versionsOf(
  kernel: WorkOf,
  recorded: RecordedVersions,
  options: PageOptions = {},
): Promise<Page<DeployedVersion>> {
  const { limit, cursor: from = 0 } = readFilter(LIST, "deployments.list()", options);
  await kernel.submissions.ready();
  const { byVersion, isWhole } = counted(kernel, recorded);
  const deployments = recorded.deployments();
  const current = deployments[0]?.version;
  type Known = RowVersion & { readonly since: number | null };
  // The last start of each comes first. A version may have come back: its first start is the last one here.
  const known = new Map<string, Known>();
  for (const { version, since } of deployments) known.set(keyOf({ version }), { version, since });
  const unversioned = keyOf({ version: null });
  const others = [...byVersion].filter(([key]) => !known.has(key) && key !== unversioned);
  for (const [key, { open: _, ...found }] of others.reverse()) known.set(key, found);
  if (byVersion.has(unversioned)) known.set(unversioned, { version: null, since: null });
  const items = Array.from(known, ([key, found]): DeployedVersion => {
    const { open = {} } = byVersion.get(key) ?? {};
    const isCurrent = found.workflow === undefined && found.version === current;
    return { ...found, isCurrent, open, ...(!isWhole && { isCut: true }) };
  });
  const page = items.slice(from, from + limit);
  return { items: page, ...(from + limit < items.length && { cursor: CURSORS.at(from + limit) }) };
}

function counted(kernel: WorkOf, recorded: RecordedVersions) {
  const byVersion = new Map<string, Counted>();
  const pages = eachOpen(kernel, MOST_WALKED);
  for (let page = pages.next(); ; page = pages.next()) {
    if (page.done) return { byVersion, isWhole: page.value };
    const versions = versionsOfRows(page.value, recorded);
    for (const [at, { kind, since }] of page.value.entries()) {
      const found = versions[at] ?? { version: null };
      const key = keyOf(found);
      const of = byVersion.get(key) ?? { ...found, since, open: {} };
      of.open[kind] = (of.open[kind] ?? 0) + 1;
      byVersion.set(key, of);
    }
  }
}
