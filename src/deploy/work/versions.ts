/** The versions that an agent has run with, and how much of the work of each is open. */

import { count, optionsOf } from "../../core/options/option-schemas.ts";
import { bySeq, cursorsOf, type Page, type PageOptions, readFilter } from "../../core/page.ts";
import type { DeployedVersion, Version } from "../types.ts";
import {
  eachOpen,
  MOST_WALKED,
  type RecordedVersions,
  versionsOfRows,
  type WorkOf,
} from "./work.ts";

/** Cursors are the number of newer versions. */
const CURSORS = cursorsOf("versions", bySeq);
const LIST = optionsOf<PageOptions>()({
  limit: count({ max: 1_000 }).default(100),
  cursor: CURSORS.option,
});

type Counted = { since: number; readonly open: Record<string, number> };

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
  // The last start of each comes first. A version may have come back: its first start is the last one here.
  const known = new Map<Version, number | null>();
  for (const { version, since } of deployments) known.set(version, since);
  // Versions of workflows have names of their own.
  const others = [...byVersion].filter(([version]) => !known.has(version) && version !== null);
  for (const [version, { since }] of others.reverse()) known.set(version, since);
  if (byVersion.has(null)) known.set(null, null);
  const items = Array.from(known, ([version, since]): DeployedVersion => {
    const { open = {} } = byVersion.get(version) ?? {};
    const isCurrent = version === current;
    return { version, since, isCurrent, open, ...(!isWhole && { isCut: true }) };
  });
  const page = items.slice(from, from + limit);
  return { items: page, ...(from + limit < items.length && { cursor: CURSORS.at(from + limit) }) };
}

function counted(kernel: WorkOf, recorded: RecordedVersions) {
  const byVersion = new Map<Version, Counted>();
  const pages = eachOpen(kernel, MOST_WALKED);
  for (let page = pages.next(); ; page = pages.next()) {
    if (page.done) return { byVersion, isWhole: page.value };
    const versions = versionsOfRows(page.value, recorded);
    for (const [at, { kind, since }] of page.value.entries()) {
      const version = versions[at] ?? null;
      const of = byVersion.get(version) ?? { since, open: {} };
      of.open[kind] = (of.open[kind] ?? 0) + 1;
      byVersion.set(version, of);
    }
  }
}
