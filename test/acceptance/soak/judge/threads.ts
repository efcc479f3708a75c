/** Conversations: messages once and in the order of acceptance, each with its own reply; none of what never ran. */

import type { Entry, SubmissionEntry } from "../ledger.ts";
import { isDisturbed, LANES, type Look, type Said } from "../words.ts";
import { type Evidence, type Finding, isRead, type Row } from "./evidence.ts";
import { type Rows, rowsById } from "./submissions.ts";

export function threadFindings(evidence: Evidence): Finding[] {
  const rows = rowsById(evidence);
  const looks = new Map(evidence.looks.map((look) => [look.agent, look]));
  const submitted = evidence.entries.filter(isInThread);
  return [
    ...evidence.looks.flatMap(repeatedMessages),
    ...submitted.flatMap((entry) => {
      const said = looks.get(entry.agent)?.messages[entry.ask.thread] ?? [];
      return messageFindings(entry, said, rows);
    }),
    ...evidence.looks.flatMap((look) =>
      LANES.flatMap((lane) => laneFindings(look, lane, submitted, rows)),
    ),
  ];
}

function isInThread(entry: Entry): entry is SubmissionEntry {
  return entry.kind === "submission" && isRead(entry.ask.thread);
}

function repeatedMessages({ agent, messages }: Look): Finding[] {
  return Object.entries(messages).flatMap(([thread, said]) => {
    const ids = said.map(({ id }) => id);
    return ids
      .filter((id, index) => ids.indexOf(id) !== index)
      .map((id): Finding => ({ kind: "came back", id, what: `twice in ${thread} of ${agent}` }));
  });
}

/** The message of one submission, and its reply. */
function messageFindings(entry: SubmissionEntry, said: readonly Said[], rows: Rows): Finding[] {
  const { id, agent, ask, isCleared, isRetried, isDeleted } = entry;
  const found = (kind: Finding["kind"], what: string): Finding[] => [
    { kind, id, what: `${what}, in ${ask.thread} of ${agent}` },
  ];
  const at = said.findIndex((message) => message.id === id);
  if (isCleared) return at < 0 ? [] : found("came back", "its message was cleared");
  const [row] = [...entry.submissionIds].flatMap((submissionId) => rows.get(submissionId) ?? []);
  if (row === undefined || isRetried || isDeleted || isDisturbed(agent)) return [];
  const neverRan = /^(aborted|skipped)$/.test(row.status) && row.attempts === 0;
  if (neverRan && row.mergedInto === null && at >= 0) {
    return found("came back", `its message is there, and it was ${row.status} before it started`);
  }
  if (row.status !== "completed" || row.mergedInto !== null) return [];
  if (at < 0) return found("lost", "its message is missing");
  // An answer by a schema may be no message.
  if (ask.hasOutput && row.messageId === null) return [];
  const replyAt = said.findIndex((message) => message.id === row.messageId);
  if (replyAt < 0) return found("lost", `its reply ${row.messageId} is missing`);
  if (replyAt < at) return found("order", "its reply is before its message");
  if (ask.hasOutput || isJoined(row, rows)) return [];
  const { text = "" } = said[replyAt] ?? {};
  if (text.includes(ask.text)) return [];
  return found("wrong answer", `its reply is ${JSON.stringify(text.slice(0, 300))}`);
}

/** Whether another submission has joined its turn. */
function isJoined({ id }: Row, rows: Rows): boolean {
  return [...rows.values()].some(({ mergedInto }) => mergedInto === id);
}

/** Submissions of a lane were accepted one after the other: so are their turns. */
function laneFindings(
  { agent, messages }: Look,
  lane: string,
  submitted: readonly SubmissionEntry[],
  rows: Rows,
): Finding[] {
  const places = new Map(messages[lane]?.map(({ id }, index) => [id, index]));
  const own = submitted.filter((entry) => entry.agent === agent && entry.ask.thread === lane);
  let last = { at: -1, id: "" };
  return own.flatMap(({ id, submissionIds }): Finding[] => {
    const at = places.get(id);
    if (at === undefined) return [];
    const before = last;
    const [row] = [...submissionIds].flatMap((submissionId) => rows.get(submissionId) ?? []);
    const replyAt = places.get(row?.messageId ?? "") ?? at;
    last = { at: Math.max(at, replyAt), id };
    if (at > before.at) return [];
    return [
      {
        kind: "order",
        id,
        what: `was said before the turn of ${before.id} ended, in ${lane} of ${agent}`,
      },
    ];
  });
}
