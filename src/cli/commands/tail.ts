/** `perdure tail`: ends of submissions and dead letters of all agents, as they come. */

import { setTimeout as delay } from "node:timers/promises";
import { eachOf } from "../../core/each.ts";
import { type OperatorClient, OperatorError } from "../../operator/client.ts";
import type { AgentRef } from "../../operator/protocol.ts";
import { AT_ONCE, agentsOf, nameOf } from "../agents.ts";
import {
  type Common,
  clientOf,
  EXIT,
  isPassing,
  NOT_INSTALLED,
  note,
  noteRetry,
  onInterrupt,
  print,
} from "../context.ts";
import { jsonText, plain, status, time } from "../print/text.ts";

const POLL_MS = 2_000;
const MAX_DELAY_MS = 30_000;
/** Of what happened before: so many lines. */
const EARLIER = 10;
const ENDED = /^(completed|error|aborted|skipped)$/;
/** Of an agent: ids that were printed and are in no page any more, and submissions that are open and in no page. */
const MAX_IDS = 1_000;

type Line = {
  readonly key: string;
  readonly at: number;
  readonly text: string;
  readonly json: object;
};

type Followed = {
  readonly seen: Set<string>;
  readonly open: Set<string>;
  isNew: boolean;
  failures: number;
  /** When it is asked again. */
  due: number;
};

export async function tail(options: Common): Promise<void> {
  onInterrupt(() => EXIT.ok);
  const client = clientOf();
  const followed = new Map<string, Followed>();
  let isFirst = true;
  for (let failures = 0; ; ) {
    const startedAt = Date.now();
    try {
      const refs = await agentsOf(client, options);
      const show = (lines: readonly Line[]) => {
        for (const { text, json } of lines) print(options.json ? jsonText(json) : text);
      };
      const earlier: Line[] = [];
      await eachOf(refs, AT_ONCE, async (ref) => {
        const lines = await freshOf(client, ref, followed, refs.length > 1);
        if (isFirst) earlier.push(...lines);
        else show(lines);
      });
      show(earlier.sort((a, b) => a.at - b.at).slice(-EARLIER));
      isFirst = false;
      failures = 0;
    } catch (error) {
      if (!isPassing(error)) throw error;
      failures++;
      noteRetry(error);
    }
    // Where a round takes long, the next one comes later: there are many agents, or slow ones.
    await delay(Math.max(delayOf(failures), Date.now() - startedAt));
  }
}

const delayOf = (failures: number) => Math.min(POLL_MS * 2 ** failures, MAX_DELAY_MS);

/** What has ended in an agent since the last call. One that does not answer is asked again later. */
async function freshOf(
  client: OperatorClient,
  ref: AgentRef,
  followed: Map<string, Followed>,
  isNamed: boolean,
): Promise<Line[]> {
  const name = nameOf(ref);
  const state = followed.get(name) ?? {
    ...{ seen: new Set<string>(), open: new Set<string>() },
    ...{ isNew: true, failures: 0, due: 0 },
  };
  followed.set(name, state);
  if (Date.now() < state.due) return [];
  try {
    const lines = await linesOf(client, ref, state, isNamed ? `${name}  ` : "");
    const { seen, isNew } = state;
    const fresh = lines.filter(({ key }) => !seen.has(key)).sort((a, b) => a.at - b.at);
    for (const { key } of fresh) seen.add(key);
    const listed = new Set(lines.map(({ key }) => key));
    for (const key of seen) if (seen.size > MAX_IDS && !listed.has(key)) seen.delete(key);
    Object.assign(state, { isNew: false, failures: 0 });
    return isNew ? fresh.slice(-EARLIER) : fresh;
  } catch (error) {
    if (isNamed && error instanceof OperatorError && error.status === NOT_INSTALLED) {
      state.due = Number.POSITIVE_INFINITY;
      note(`${name}: ${plain(error.message)}`);
      return [];
    }
    if (!isPassing(error)) throw error;
    state.failures++;
    state.due = Date.now() + delayOf(state.failures);
    noteRetry(error, `${name}: `);
    return [];
  }
}

async function linesOf(
  client: OperatorClient,
  ref: AgentRef,
  { open }: Followed,
  name: string,
): Promise<Line[]> {
  const [submissions, dead] = await Promise.all([
    client.list(ref, "submissions", { limit: 100 }),
    client.list(ref, "dead-letters", { limit: 100 }),
  ]);
  const listed = new Set(submissions.items.map(({ submissionId }) => submissionId));
  const unlisted = [...open].filter((id) => !listed.has(id));
  const late = await Promise.all(unlisted.map((id) => client.inspect(ref, "submissions", id)));
  const all = [...late.filter((each) => each !== null), ...submissions.items.toReversed()];
  const lines = all.flatMap((each): Line[] => {
    const { submissionId, thread, completedAt = 0, attempts } = each;
    if (!ENDED.test(each.status)) {
      open.add(submissionId);
      return [];
    }
    open.delete(submissionId);
    const text = `${time(completedAt)}  ${status(each.status)}  ${name}${plain(submissionId)}  thread ${plain(thread)}, ${attempts} attempts  ${plain(each.error ?? "").slice(0, 200)}`;
    return [
      { key: `${submissionId} ${completedAt}`, at: completedAt, text, json: { ...ref, ...each } },
    ];
  });
  for (const id of open) if (open.size > MAX_IDS) open.delete(id);
  const letters = dead.items.map((letter): Line => {
    const { id, diedAt, lastError } = letter;
    const text = `${time(diedAt)}  ${status("dead")}  ${name}${plain(id)}  ${plain(lastError).slice(0, 200)}`;
    return { key: `${id} ${diedAt}`, at: diedAt, text, json: { ...ref, ...letter } };
  });
  return [...lines, ...letters];
}
