/** The columns of each list. */

import type { Collections } from "../../protocol.ts";
import { CliError, EXIT } from "../context.ts";
import { plain, short, status, time } from "../print/text.ts";

type Columns<Item> = Readonly<Record<string, (item: Item) => string>>;
type Lists = { readonly [Name in keyof Collections]: Columns<Collections[Name]> };

export const COLUMNS: Lists = {
  submissions: {
    STATUS: (item) => status(item.status),
    SUBMISSION: (item) => plain(item.submissionId),
    THREAD: (item) => short(item.thread, 24),
    ACCEPTED: (item) => time(item.createdAt),
    ENDED: (item) => time(item.completedAt),
    ATTEMPTS: (item) => String(item.attempts),
    RESULT: (item) => short(item.error ?? item.output ?? "", 60),
  },
  approvals: {
    STATUS: (item) => status(item.status),
    APPROVAL: (item) => plain(item.approvalId),
    TITLE: (item) => short(item.title ?? "", 50),
    WORKFLOW: (item) => plain(item.workflow.id),
    ASKED: (item) => time(item.createdAt),
    EXPIRES: (item) => time(item.expiresAt),
    BY: (item) => plain(item.by ?? ""),
  },
  inbound: {
    VERDICT: (item) => status(item.verdict),
    SOURCE: (item) => plain(item.source),
    ARRIVAL: (item) => plain(item.id),
    TYPE: (item) => plain(item.type ?? ""),
    STORED: (item) => time(item.storedAt),
    STARTED: (item) => String(item.calls.length),
    ERROR: (item) => short(item.error?.message ?? "", 60),
  },
  deliveries: {
    STATE: (item) => status(item.state),
    DELIVERY: (item) => plain(item.id),
    TO: (item) => destinationText(item.destination),
    ATTEMPT: (item) => String(item.attempt),
    PUT: (item) => time(item.createdAt),
    ERROR: (item) => short("lastError" in item ? (item.lastError ?? "") : "", 60),
  },
  "dead-letters": {
    DELIVERY: (item) => plain(item.id),
    TO: (item) => destinationText(item.destination),
    ATTEMPTS: (item) => String(item.attempts),
    DIED: (item) => time(item.diedAt),
    UNCERTAIN: (item) => (item.isUncertain ? "yes" : "no"),
    ERROR: (item) => short(item.lastError, 60),
  },
  endpoints: {
    STATE: (item) => status(item.state),
    URL: (item) => plain(item.url),
    SINCE: (item) => ("since" in item ? time(item.since) : ""),
    REASON: (item) => short("reason" in item ? item.reason : "", 60),
  },
  tasks: {
    STATE: (item) => status(item.state),
    TASK: (item) => plain(item.taskId),
    SCHEDULE: (item) => plain(item.schedule),
    NEXT: (item) => time(item.next),
    "LAST RUN": (item) => status(item.lastRun?.status ?? ""),
    FAILED: (item) => String(item.counts.failed),
    MISSED: (item) => String(item.counts.missed),
  },
  workflows: {
    STATUS: (item) => status(item.status),
    WORKFLOW: (item) => plain(item.workflow),
    INSTANCE: (item) => plain(item.workflowId),
    STARTED: (item) => time(item.createdAt),
    CHANGED: (item) => time(item.updatedAt),
    ERROR: (item) => short(item.error?.message ?? "", 60),
  },
  threads: {
    THREAD: (item) => plain(item.thread),
    OPEN: (item) => String(item.open),
    ALL: (item) => String(item.total),
    LATEST: (item) => time(item.lastAt),
  },
  actions: {
    OUTCOME: (item) => status(item.outcome),
    AT: (item) => time(item.at),
    BY: (item) => plain(item.by),
    ACTION: (item) => plain(item.action.do),
    TARGET: ({ action: { do: _, ...target } }) => short(target, 60),
    REASON: (item) => short(item.reason, 60),
    COUNT: (item) => String(item.count),
  },
};

export const COLLECTIONS = Object.keys(COLUMNS) as (keyof Collections)[];

/** @throws CliError */
export function collectionOf(name: string): keyof Collections {
  const found = COLLECTIONS.find((each) => each === name);
  if (found) return found;
  throw new CliError(
    EXIT.usage,
    `Unknown list ${JSON.stringify(name)}. Lists: ${COLLECTIONS.join(", ")}.`,
  );
}

/** Where a delivery goes, e.g. `webhook https://example.com/hook`. */
function destinationText(destination: { readonly kind: string }): string {
  const { kind, ...rest } = destination as Readonly<Record<string, unknown>> & { kind: string };
  const target =
    rest.url ?? rest.queue ?? rest.method ?? rest.agent ?? rest.workflow ?? rest.channel ?? "";
  return short(`${kind} ${typeof target === "string" ? target : ""}`, 60);
}
