/** What the ledger's model knows of a submission, and the order of those that wait. */

import { NEXT, type SubmissionStatus } from "../../../src/submissions/states.ts";
import type { WhenBusy } from "../../../src/submissions/submit-options.ts";

/** What the turn of a submission does in each of its attempts. */
export type PlannedTurn = {
  /** So many attempts fail before one succeeds. */
  readonly fails: number;
  /** How they fail: permanently, transiently, or with the error of an object that is reset. */
  readonly failure: "permanent" | "transient" | "reset";
  /** After its first call of the model it is held so often, until it is released, and calls the model again. */
  readonly holds: number;
  /** It goes on after its signal has aborted. */
  readonly ignoresAbort: boolean;
  /** It must end with a structured answer, and gives it before it is held. */
  readonly answers: boolean;
  /** One of its tools has had effects. */
  readonly effects: boolean;
  /** The app's status hook returns at once, after a while, or never. */
  readonly hook: "fast" | "slow" | "hangs";
};

export type Request = {
  readonly id: string;
  readonly key: string | undefined;
  readonly turn: PlannedTurn;
  readonly thread: string;
  readonly priority: number;
  readonly whenBusy: WhenBusy;
  readonly maxAttempts: number | undefined;
  readonly afterSideEffects: "tell" | "fail" | "repeat";
  readonly onConflict: "return" | "throw";
  /** It must not start before so many milliseconds from now, */
  readonly delayMs: number | undefined;
  /** and expires after so many. */
  readonly expiresMs: number | undefined;
  /** Submissions with the same debounce key become one. */
  readonly debounce: string | undefined;
};

export type Entry = {
  readonly id: string;
  readonly request: Request;
  /** The lowest goes first. */
  readonly rank: number;
  /** A crash has interrupted its turn: it goes before all others. */
  isNext?: boolean;
  key: string | undefined;
  /** Those of the latest repetition, where there are any. */
  turn: PlannedTurn;
  messages: readonly string[];
  status: SubmissionStatus;
  attempts: number;
  /** When a deferred one is due. */
  dueAt: number | undefined;
  /** When one that is not in line yet joins it. */
  notBefore: number | undefined;
  expiresAt: number | undefined;
  /** Until when repetitions are gathered in it, and delay it. */
  gathersUntil: number | undefined;
  /** The submission whose turn it has joined. */
  mergedInto: string | undefined;
  /** Its messages must still leave the conversation. */
  isToBeUndone: boolean;
  /** Whether its answer is written. */
  isAnswered: boolean;
  /** Whether a call of its tool is recorded. */
  hasCalled: boolean;
  /** How many failed attempts were followed by another. */
  deferrals: number;
  /** How often its turn has failed. */
  failed: number;
  /** Attempts that resets have ended, which do not count towards the limit. */
  resets: number;
};

export type Rules = {
  readonly maxPending: number;
  readonly maxAttempts: number;
  readonly maxConcurrentTurns: number;
  /** The delay before the next attempt, after so many failures. */
  readonly delayMs: (failures: number) => number;
  /** How long a repetition delays its submission, and all of them together. */
  readonly debounce: { readonly delayMs: number; readonly maxDelayMs: number };
};

/** The ids of the messages of a submission: both are in the conversation, or neither. */
export const messageIds = (id: string) => [`${id}.1`, `${id}.2`];

/** The id of the reply of its turn. */
export const replyId = (id: string) => `${id}.reply`;

/** The submission's id in an attempt `s1#2` or a message `main/s1.2`. */
export function idOf(name: string): string {
  return name.split("/").at(-1)?.split(/[.#]/)[0] ?? "";
}

export const isOpen = ({ status }: Pick<Entry, "status">) =>
  status === "pending" || status === "running";

/** Those that interrupt the running turn, or join it, go before all others. */
export const isUrgent = ({ whenBusy }: Pick<Request, "whenBusy">) =>
  whenBusy === "interrupt" || whenBusy === "rollback" || whenBusy === "steer";

const compare = (a: number, b: number) => (a === b ? 0 : a - b);

/** Those in line in a thread, by priority and then by the order of acceptance (L4). */
export function inLine(entries: readonly Entry[], thread: string): Entry[] {
  return entries
    .filter(({ request, status, notBefore }) => {
      return request.thread === thread && status === "pending" && notBefore === undefined;
    })
    .sort(
      (a, b) => Number(b.isNext ?? false) - Number(a.isNext ?? false) || compare(a.rank, b.rank),
    );
}

/** A repetition of a debounced submission that has not begun replaces its contents. Returns that submission. */
export function gather(
  entries: readonly Entry[],
  { request, turn, messages, notBefore, expiresAt }: Entry,
): Entry | undefined {
  const gathering = entries.find(
    (entry) =>
      entry.status === "pending" &&
      entry.gathersUntil !== undefined &&
      entry.request.debounce === request.debounce &&
      entry.request.thread === request.thread,
  );
  if (!gathering) return undefined;
  const { gathersUntil = 0 } = gathering;
  const isInLine = gathering.notBefore === undefined;
  const delayedTo = isInLine ? undefined : Math.min(notBefore ?? 0, gathersUntil);
  return Object.assign(gathering, { turn, messages, expiresAt, notBefore: delayedTo });
}

/** Every status that a submission in this status can still reach. */
export function reachable(status: SubmissionStatus): Set<SubmissionStatus> {
  const found = new Set<SubmissionStatus>([status]);
  for (const from of found) for (const to of NEXT[from]) found.add(to);
  return found;
}

/** The rank of a retried submission that once interrupted: that of the highest priority. */
export const LAST_URGENT = -100;

/** A submission as it is accepted. */
export function entryOf(request: Request, { debounce }: Rules, now: number): Entry {
  const { id, key, turn, priority, delayMs, expiresMs } = request;
  const isDebounced = request.debounce !== undefined;
  const startsInMs = isDebounced ? debounce.delayMs : delayMs;
  return {
    id,
    request,
    rank: isUrgent(request) ? Number.NEGATIVE_INFINITY : -priority,
    key,
    turn,
    messages: messageIds(id),
    status: "pending",
    attempts: 0,
    dueAt: undefined,
    notBefore: startsInMs === undefined ? undefined : now + startsInMs,
    expiresAt: expiresMs === undefined ? undefined : now + expiresMs,
    gathersUntil: isDebounced ? now + debounce.maxDelayMs : undefined,
    mergedInto: undefined,
    isToBeUndone: false,
    isAnswered: false,
    hasCalled: false,
    deferrals: 0,
    failed: 0,
    resets: 0,
  };
}

/** The conversations of the model: the messages of all threads, in one list. */
export class Conversations {
  said: string[] = [];

  /** An isolated turn stores no messages. A message that is added again stays where it is. */
  add({ request: { thread } }: Entry, messages: readonly string[]): void {
    if (thread === "isolated") return;
    const names = messages.map((id) => `${thread}/${id}`);
    this.said.push(...names.filter((name) => !this.said.includes(name)));
  }

  /** L5. Its messages and its reply are removed. */
  removeMessages({ id, request: { thread }, messages }: Entry): void {
    const gone = [...messages, replyId(id)].map((name) => `${thread}/${name}`);
    this.said = this.said.filter((name) => !gone.includes(name));
  }

  has({ request: { thread }, messages }: Entry): boolean {
    return messages.some((id) => this.said.includes(`${thread}/${id}`));
  }
}
