/** `npx perdure drain`: what is open of each version, and which ones nothing needs any more. */

import { setTimeout as delay } from "node:timers/promises";
import { eachOf } from "../../core/each.ts";
import { plural } from "../../engine/operated/text.ts";
import type { Version } from "../../features/deploy/types.ts";
import { type OperatorClient, OperatorError } from "../../operator/client.ts";
import { allAgents } from "../../operator/pages.ts";
import { AT_ONCE, nameOf } from "../agents.ts";
import {
  clientOf,
  isPassing,
  NOT_INSTALLED,
  note,
  noteRetry,
  onInterrupt,
  print,
  printJson,
} from "../context.ts";
import { table } from "../print/table.ts";
import { jsonText, paint, plain, time } from "../print/text.ts";
import { versionsOf } from "./deployed.ts";
import { type NotRead, notListed } from "./snapshot.ts";

const WATCH_MS = 30_000;
const MAX_AGENTS = 10_000;

type VersionOfAll = {
  /** The class of agents, or the Workflow, that has the version. Others may have another one by the same name. */
  readonly of: string;
  readonly version: Version;
  /** When an agent has started with it first. */
  since: number | null;
  /** Agents that run with it now. */
  current: number;
  /** Open work of all of its agents, by kind. */
  open: Record<string, number>;
  /** Nothing of it is open, no agent runs with it, and all agents have counted all of their work. */
  isSafeToDelete: boolean;
};

type Drained = {
  readonly at: number;
  readonly versions: readonly VersionOfAll[];
  readonly notInstalled: readonly NotRead[];
  readonly notRead: readonly NotRead[];
};

export type DrainOptions = {
  readonly from?: string;
  readonly watch?: boolean;
  readonly json?: boolean;
};

export async function drain(options: DrainOptions): Promise<void> {
  const { from, watch } = options;
  const client = clientOf(from);
  if (watch) onInterrupt(() => 0);
  for (let before: string | undefined; ; await delay(WATCH_MS)) {
    try {
      const found = await drainedOf(client);
      const now = JSON.stringify({ ...found, at: 0 });
      if (now !== before) show(found, options);
      before = now;
      if (!watch || isDrained(found)) return;
    } catch (error) {
      if (!watch || !isPassing(error)) throw error;
      noteRetry(error);
    }
  }
}

const isDrained = ({ versions, notRead }: Drained) =>
  notRead.length === 0 &&
  versions.every(({ current, isSafeToDelete }) => current > 0 || isSafeToDelete);

async function drainedOf(client: OperatorClient): Promise<Drained> {
  const at = Date.now();
  const versions = new Map<string, VersionOfAll>();
  const notInstalled: NotRead[] = [];
  const unlisted: string[] = [];
  const refs = await allAgents(client, MAX_AGENTS, unlisted);
  const notRead = unlisted.map(notListed);
  for (const ref of refs.slice(MAX_AGENTS))
    notRead.push({ ...ref, why: `only ${MAX_AGENTS} agents are asked` });
  await eachOf(refs.slice(0, MAX_AGENTS), AT_ONCE, async (ref) => {
    try {
      const own = await versionsOf(client, ref);
      if (own.some(({ isCut }) => isCut))
        notRead.push({ ...ref, why: "it has more open work than it counts" });
      for (const { version, workflow, since, isCurrent, open } of own) {
        const key = JSON.stringify([workflow ?? "", workflow ? "" : ref.agent, version]);
        const all = versions.get(key) ?? {
          ...{ of: workflow ?? ref.agent, version, since },
          ...{ current: 0, open: {}, isSafeToDelete: false },
        };
        versions.set(key, all);
        if (since !== null) all.since = Math.min(all.since ?? since, since);
        if (isCurrent) all.current++;
        for (const [kind, count] of Object.entries(open))
          if (count > 0) all.open[kind] = (all.open[kind] ?? 0) + count;
      }
    } catch (error) {
      if (!(error instanceof OperatorError)) throw error;
      const isWithout = error.status === NOT_INSTALLED || error.status === 404;
      if (!isWithout && !isPassing(error)) throw error;
      (isWithout ? notInstalled : notRead).push({ ...ref, why: error.message });
    }
  });
  for (const each of versions.values())
    each.isSafeToDelete =
      each.current === 0 && Object.keys(each.open).length === 0 && notRead.length === 0;
  const newest = [...versions.values()].sort((a, b) => (b.since ?? 0) - (a.since ?? 0));
  return { at, versions: newest, notInstalled, notRead };
}

function show(found: Drained, { watch, json }: DrainOptions): void {
  const { at, versions, notInstalled, notRead } = found;
  if (json) {
    if (watch) print(jsonText(found));
    else printJson(found);
    return;
  }
  if (watch) print(time(at));
  const rows = versions.map(({ of, version, since, current, open, isSafeToDelete }) => [
    plain(of),
    version === null ? "(none)" : plain(version),
    since === null ? "" : time(since),
    current > 0 ? plural(current, "agent") : "",
    Object.entries(open)
      .map(([kind, count]) => plural(count, plain(kind)))
      .join(", "),
    isSafeToDelete
      ? paint("green", "safe to delete")
      : current > 0
        ? "current"
        : Object.keys(open).length > 0
          ? paint("yellow", "still needed")
          : "unknown",
  ]);
  if (rows.length === 0) note("No agent has recorded a version.");
  else print(table(["OF", "VERSION", "SINCE", "RUNS IN", "OPEN", "STATE"], rows));
  for (const { why, ...ref } of notRead) note(`${nameOf(ref)}: ${plain(why)}`);
  if (notRead.length > 0)
    note("No version is known to be safe to delete: these agents may have open work of it.");
  if (notInstalled.length > 0)
    note(
      `${plural(notInstalled.length, "agent")} without deployments(): their work is not counted.`,
    );
}
