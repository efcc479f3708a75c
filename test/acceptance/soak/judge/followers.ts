/** Each follower has received each end and each message once, over all kills. */

import type { Follower } from "../followers.ts";
import { BUSY } from "../words.ts";
import { type Evidence, type Finding, isOpen, type Row } from "./evidence.ts";
import { type Known, knownSubmissions, type Rows, rowsById } from "./submissions.ts";

export function followerFindings(evidence: Evidence): Finding[] {
  const rows = rowsById(evidence);
  const known = knownSubmissions(evidence);
  return evidence.followers.flatMap((follower) =>
    followed(follower, evidence).flatMap((id) => oneFollowed(follower, id, rows, known)),
  );
}

/** Whether all that it follows has ended for it, too. */
export function hasCaughtUp(follower: Follower, evidence: Pick<Evidence, "looks">): boolean {
  const rows = rowsById(evidence);
  return followed(follower, evidence).every(
    (id) => follower.ends.has(id) && (follower.messages.has(id) || !hasMessage(rows.get(id))),
  );
}

/** Whether an ended submission has stored a reply, which its followers receive. */
function hasMessage(row: Row | undefined): boolean {
  return row?.status === "completed" && row.messageId !== null;
}

/** Ended submissions that it follows, except those that were deleted. */
function followed({ agent, kind, id }: Follower, { looks }: Pick<Evidence, "looks">): string[] {
  const rows = looks.find((look) => look.agent === agent)?.submissions ?? [];
  return rows
    .filter((row) => !isOpen(row) && (kind === "thread" ? row.thread === id : row.id === id))
    .map((row) => row.id);
}

function oneFollowed(
  { agent, kind, id: place, ends, messages, connections }: Follower,
  id: string,
  rows: Rows,
  known: ReadonlyMap<string, Known>,
): Finding[] {
  const row = rows.get(id);
  const statuses = ends.get(id) ?? [];
  const texts = messages.get(id) ?? [];
  const who = `follower of the ${kind} ${place} of ${agent}, connected ${connections} times`;
  const found = (what: string): Finding => ({ kind: "follower", id, what: `${who}: ${what}` });
  if (statuses.length !== 1 || statuses[0] !== row?.status) {
    return [found(`has the ends ${statuses.join() || "none"}, and it is ${row?.status}`)];
  }
  // An isolated turn stores no message, and its followers may receive its reply.
  if (texts.length > 1 || (texts.length === 0 && hasMessage(row)))
    return [found(`has ${texts.length} messages of it`)];
  const { ask } = known.get(id) ?? {};
  const isOwn = ask === undefined || ask.hasOutput || ask.thread === BUSY;
  if (isOwn || texts.every((text) => text.includes(ask.text))) return [];
  return [{ ...found(`has the message ${texts.join().slice(0, 300)}`), kind: "wrong answer" }];
}
