/** The open work of all agents of a deployment, as one JSON file. */

import { readFileSync, statSync, writeFileSync } from "node:fs";
import { eachOf } from "../../core/each.ts";
import { byteLength, parsedJson } from "../../core/json.ts";
import { isPlainObject } from "../../core/options/options.ts";
import { plural } from "../../engine/operated/text.ts";
import type { OpenItem, Version, WorkflowHistory } from "../../features/deploy/types.ts";
import { type OperatorClient, OperatorError } from "../../operator/client.ts";
import { allAgents } from "../../operator/pages.ts";
import type { AgentRef } from "../../operator/protocol.ts";
import { AT_ONCE, nameOf } from "../agents.ts";
import { clientOf, EXIT, isPassing, NOT_INSTALLED, note, usageError } from "../context.ts";
import { jsonText, plain } from "../print/text.ts";
import { currentOf, historyOf, versionsOf, workOf } from "./deployed.ts";
import { progressOf } from "./progress.ts";

/** Of all agents. */
const MAX_ITEMS = 10_000;
const MAX_BYTES = 268_435_456;
const MAX_AGENTS = 10_000;
const MAX_MS = 300_000;
/** Agents that notes name. */
const MAX_NAMED = 20;

export type AgentWork = AgentRef & {
  /** The version that it runs with. */
  readonly version: Version;
  readonly work: readonly OpenItem[];
  /** Of its open workflows. */
  readonly histories: readonly WorkflowHistory[];
};

/** Something that was not read, and why. `id` is that of an item. */
export type NotRead = AgentRef & { readonly id?: string; readonly why: string };

export type Snapshot = {
  /** The format. */
  readonly perdure: 1;
  /** Epoch milliseconds. */
  readonly at: number;
  readonly agents: readonly AgentWork[];
  /** Agents whose class does not install `deployments()`. */
  readonly notInstalled: readonly NotRead[];
  /** Agents that did not answer, and workflows without their history. */
  readonly notRead: readonly NotRead[];
  /** Why it is not all. */
  readonly isCut?: string;
};

/** Of agents whose names the Worker could not list. */
export const notListed = (agent: string): NotRead => {
  return { agent, name: "*", why: "its names() failed, see the log of the Worker" };
};

/** Limits of a snapshot. A test lowers them. */
export type Limits = {
  readonly items: number;
  readonly bytes: number;
  readonly agents: number;
  /** What is not read by then is named as not read. */
  readonly ms: number;
  /** Between two notes of the progress. */
  readonly progressMs: number;
};
const LIMITS: Limits = {
  ...{ items: MAX_ITEMS, bytes: MAX_BYTES, agents: MAX_AGENTS },
  ...{ ms: MAX_MS, progressMs: 5_000 },
};

type Room = { items: number; bytes: number; cut: string | undefined; readonly until: number };

const late = ({ ms }: Limits) => `reading the rest took ${ms / 60_000} minutes`;

/** @throws OperatorError where the deployment does not answer */
export async function takeSnapshot(
  client: OperatorClient,
  lowered: Partial<Limits> = {},
): Promise<Snapshot> {
  const limits = { ...LIMITS, ...lowered };
  const at = Date.now();
  const unlisted: string[] = [];
  const refs = await allAgents(client, limits.agents, unlisted);
  const { items, bytes, ms } = limits;
  const room: Room = { items, bytes, cut: undefined, until: at + ms };
  if (refs.length > limits.agents) room.cut = `there are more than ${limits.agents} agents`;
  const agents: AgentWork[] = [];
  const notInstalled: NotRead[] = [];
  const notRead = unlisted.map(notListed);
  const read = refs.slice(0, limits.agents);
  const progress = progressOf("agents read", read.length, limits.progressMs);
  await eachOf(read, AT_ONCE, async (ref) => {
    try {
      if (Date.now() > room.until) return void notRead.push({ ...ref, why: late(limits) });
      const { version, work } = await openWorkOf(client, ref, room, limits);
      agents.push({ ...ref, version, work, histories: [] });
    } catch (error) {
      if (!(error instanceof OperatorError)) throw error;
      // 404: the deployment's Perdure does not have the list, or the agent has gone.
      const isWithout = error.status === NOT_INSTALLED || error.status === 404;
      if (!isWithout && !isPassing(error)) throw error;
      (isWithout ? notInstalled : notRead).push({ ...ref, why: error.message });
    } finally {
      progress();
    }
  });
  const histories = await historiesOf(client, agents, room, limits, notRead);
  const order = (one: AgentRef, other: AgentRef) => (nameOf(one) < nameOf(other) ? -1 : 1);
  return {
    perdure: 1,
    at,
    agents: agents.map((each) => ({ ...each, histories: histories.get(each) ?? [] })).sort(order),
    notInstalled: notInstalled.sort(order),
    notRead: notRead.sort(order),
    ...(room.cut !== undefined && { isCut: room.cut }),
  };
}

async function openWorkOf(client: OperatorClient, ref: AgentRef, room: Room, limits: Limits) {
  const work: OpenItem[] = [];
  for await (const items of workOf(client, ref)) {
    for (const item of items) {
      if (!takes(room, item, limits)) return { version: null, work };
      work.push(item);
    }
  }
  return { version: currentOf(await versionsOf(client, ref)), work };
}

/** Whether there is room for an item or a history. */
function takes(room: Room, part: OpenItem | WorkflowHistory, limits: Limits): boolean {
  room.bytes -= byteLength(JSON.stringify(part));
  if ("needs" in part) room.items--;
  if (room.items < 0) room.cut ??= `there are more than ${limits.items} items of open work`;
  else if (room.bytes < 0) room.cut ??= `it would have more than ${limits.bytes} bytes`;
  else return true;
  return false;
}

async function historiesOf(
  client: OperatorClient,
  agents: readonly AgentWork[],
  room: Room,
  limits: Limits,
  notRead: NotRead[],
) {
  const histories = new Map<AgentWork, WorkflowHistory[]>(agents.map((each) => [each, []]));
  const open = agents.flatMap((agent) =>
    agent.work.filter(({ kind }) => kind === "workflow").map((item) => ({ agent, item })),
  );
  const progress = progressOf("histories of workflows read", open.length, limits.progressMs);
  await eachOf(open, AT_ONCE, async ({ agent, item }) => {
    const missing = (why: string) => {
      notRead.push({ agent: agent.agent, name: agent.name, id: item.id, why });
    };
    try {
      if (room.bytes < 0) return missing("the snapshot was cut");
      if (Date.now() > room.until) return missing(late(limits));
      const history = await historyOf(client, agent, item.id);
      // It has ended in the meantime.
      if (history === null) return;
      if (takes(room, history, limits)) histories.get(agent)?.push(history);
      else missing("the snapshot was cut");
    } catch (error) {
      if (!(error instanceof OperatorError)) throw error;
      missing(error.message);
    } finally {
      progress();
    }
  });
  return histories;
}

export type SnapshotOptions = { readonly from?: string; readonly out?: string };

/** `npx perdure snapshot` */
export async function snapshot({ from, out }: SnapshotOptions): Promise<void> {
  const taken = await takeSnapshot(clientOf(from));
  const text = `${jsonText(taken, 1)}\n`;
  if (out === undefined) process.stdout.write(text);
  else write(out, text);
  const items = taken.agents.reduce((sum, { work }) => sum + work.length, 0);
  note(`${plural(items, "item")} of open work of ${plural(taken.agents.length, "agent")}.`);
  noteGaps(taken);
  if (taken.notRead.some(({ id }) => id === undefined)) process.exitCode = EXIT.unreachable;
}

function write(out: string, text: string): void {
  try {
    // It has what users have written.
    writeFileSync(out, text, { mode: 0o600 });
  } catch (cause) {
    throw usageError(`Cannot write --out ${JSON.stringify(out)}: ${(cause as Error).message}`);
  }
}

/** Says what a snapshot does not have. */
function noteGaps({ notInstalled, notRead, isCut }: Snapshot): void {
  const noteEach = (what: string, all: readonly NotRead[]) => {
    if (all.length > 0) note(`${what}:`);
    for (const one of all.slice(0, MAX_NAMED))
      note(`  ${nameOf(one)}${one.id === undefined ? "" : ` ${plain(one.id)}`}: ${plain(one.why)}`);
    if (all.length > MAX_NAMED) note(`  and ${all.length - MAX_NAMED} more`);
  };
  noteEach("Agents without deployments(), which tell no open work", notInstalled);
  noteEach("Not read", notRead);
  if (isCut !== undefined) note(`The snapshot is not complete: ${isCut}.`);
}

/** A file that `snapshot` has written. @throws CliError */
export function readSnapshot(file: string): Snapshot {
  const fail = (why: string) => usageError(`Invalid --snapshot ${JSON.stringify(file)}: ${why}.`);
  let text: string;
  try {
    const { size } = statSync(file);
    // The bound counts the items, and the file has line breaks besides.
    if (size > 2 * MAX_BYTES) throw new Error(`it has more than ${2 * MAX_BYTES} bytes`);
    text = readFileSync(file, "utf8");
  } catch (cause) {
    throw fail((cause as Error).message);
  }
  const value = parsedJson(text);
  if (!isPlainObject(value) || value.perdure !== 1)
    throw fail('expected what `npx perdure snapshot` has written, with "perdure": 1');
  const { agents, notInstalled, notRead } = value;
  const isWhole =
    Array.isArray(agents) &&
    agents.every(isAgentWork) &&
    Array.isArray(notInstalled) &&
    Array.isArray(notRead);
  if (!isWhole) throw fail("expected agents with their work and histories");
  return value as unknown as Snapshot;
}

function isAgentWork(value: unknown): boolean {
  if (!isPlainObject(value)) return false;
  const { agent, name, work, histories } = value;
  const isItem = (each: unknown) =>
    isPlainObject(each) &&
    typeof each.kind === "string" &&
    typeof each.id === "string" &&
    Array.isArray(each.needs) &&
    each.needs.every((need) => isPlainObject(need) && typeof need.name === "string");
  const isHistory = (each: unknown) =>
    isPlainObject(each) &&
    typeof each.workflow === "string" &&
    typeof each.workflowId === "string" &&
    Array.isArray(each.platform) &&
    Array.isArray(each.asked);
  return (
    typeof agent === "string" &&
    typeof name === "string" &&
    Array.isArray(work) &&
    work.every(isItem) &&
    Array.isArray(histories) &&
    histories.every(isHistory)
  );
}
