/** Submissions and threads for operators, as data. */

import type { ActionCatalog, ActionOf, FindingCatalog } from "../../engine/operated/catalog.ts";
import type { ListSubmissionsOptions } from "../types.ts";

export const FINDINGS = {
  backlog: "starts",
  "backlog-near-limit": "starts",
  "work-does-not-start": "starts",
  "turn-hangs": "starts",
  "thread-stuck": "starts",
  "failing-submissions": "succeeds",
  "model-rate-limited": "succeeds",
  "model-no-credit": "succeeds",
  "poison-turn": "succeeds",
  "budget-used-up": "succeeds",
  "answers-empty": "succeeds",
  "answers-partial": "succeeds",
  "answers-repaired": "succeeds",
  "tool-fails": "succeeds",
  "model-slow": "succeeds",
  "retries-grow": "succeeds",
  "storage-grows": "starts",
} as const satisfies FindingCatalog;

export const COUNTS = {
  submissions: { pending: 0, running: 0, completed: 0, error: 0, aborted: 0, skipped: 0 },
};

const submission = {
  fields: { submissionId: ["id", "the id of the submission"] },
  filter: "submissions",
} as const;

export const ACTIONS = {
  cancel: {
    label: "Cancel",
    ...submission,
    does: "Cancels submissions that have not ended.",
    isOfOpen: true,
    statuses: ["pending", "running"],
    isDestructive: true,
    isIdempotent: true,
  },
  retry: {
    label: "Retry",
    ...submission,
    does: "Submits ended submissions again. Each is submitted again once.",
    statuses: ["error", "aborted", "skipped"],
  },
  "clear-thread": {
    label: "Clear",
    fields: { thread: ["id", "the name of the thread"] },
    does: "Deletes the messages of a thread, and ends what is open in it.",
    loss: "its messages are deleted",
    isDestructive: true,
    isForPeople: true,
  },
} as const satisfies ActionCatalog;

export type Filters = {
  readonly submissions: Pick<
    ListSubmissionsOptions,
    "status" | "thread" | "metadata" | "createdAfter" | "createdBefore"
  >;
};
export type Action = ActionOf<typeof ACTIONS, Filters>;
