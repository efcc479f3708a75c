/** What random sequences are made of: what is submitted, what its turn does, and what is known of it. */

import { NEXT, type SubmissionStatus } from "../../../src/submissions/states.ts";
import type { WhenBusy } from "../../../src/submissions/types.ts";

/** What the turn of a submission does in each of its attempts. */
export type Plot = {
  /** It fails so often before it succeeds, */
  readonly fails: number;
  /** for good, for now, or with what a reset object says. */
  readonly failure: "permanent" | "transient" | "reset";
  /** It calls the model, and so often it is held until it is released, and calls the model again. */
  readonly holds: number;
  /** It goes on, though it is told to stop. */
  readonly deaf: boolean;
  /** It is to end with a structured answer, and gives it before it holds. */
  readonly answers: boolean;
  /** One of its tools has had effects. */
  readonly effects: boolean;
  /** The app's status hook returns at once, after a while, or never. */
  readonly hook: "fast" | "slow" | "hangs";
};

export type Ask = {
  readonly id: string;
  readonly key: string | undefined;
  readonly plot: Plot;
  readonly thread: string;
  readonly priority: number;
  readonly whenBusy: WhenBusy;
  readonly maxAttempts: number | undefined;
  readonly afterSideEffects: "tell" | "fail" | "repeat";
  readonly onConflict: "return" | "throw";
  /** How long from now it must not start, */
  readonly delayMs: number | undefined;
  /** and by when it has to. */
  readonly expiresMs: number | undefined;
  /** What makes it a repetition. */
  readonly debounce: string | undefined;
};

export type Entry = {
  readonly id: string;
  readonly ask: Ask;
  /** The one that goes first has the lowest. */
  readonly rank: number;
  /** A crash has interrupted its turn: it goes before all others. */
  isNext?: boolean;
  key: string | undefined;
  /** Those of the latest repetition, where there are any. */
  plot: Plot;
  messages: readonly string[];
  status: SubmissionStatus;
  attempts: number;
  /** When a deferred one is due. */
  dueAt: number | undefined;
  /** When one that is not in line yet joins it. */
  notBefore: number | undefined;
  expiresAt: number | undefined;
  /** Until when repetitions are gathered in it, and put it off. */
  gathersUntil: number | undefined;
  /** Whose turn it has joined. */
  mergedInto: string | undefined;
  /** Its messages are still to leave the conversation. */
  isToBeUndone: boolean;
  /** Whether its answer is written. */
  isAnswered: boolean;
  /** How many failed attempts were followed by another. */
  deferrals: number;
  /** How often its turn has failed. */
  failed: number;
  /** Attempts that resets have ended, which cost none. */
  resets: number;
};

export type Rules = {
  readonly maxPending: number;
  readonly maxAttempts: number;
  readonly maxConcurrentTurns: number;
  /** How long the attempt after the nth failure is put off. */
  readonly delayMs: (failures: number) => number;
  /** How long a repetition puts its submission off, and all of them together. */
  readonly debounce: { readonly delayMs: number; readonly maxDelayMs: number };
};

/** What each submission says, all or nothing. */
export const messageIds = (id: string) => [`${id}.1`, `${id}.2`];

/** What its turn says in the end. */
export const replyId = (id: string) => `${id}.reply`;

/** Of an attempt `s1#2` or a message `main/s1.2`. */
export function idOf(name: string): string {
  return name.split("/").at(-1)?.split(/[.#]/)[0] ?? "";
}

export const isOpen = ({ status }: Pick<Entry, "status">) =>
  status === "pending" || status === "running";

/** Those that want the turn that runs out of the way, or to join it, go before all others. */
export const isUrgent = ({ whenBusy }: Pick<Ask, "whenBusy">) =>
  whenBusy === "interrupt" || whenBusy === "rollback" || whenBusy === "steer";

const compare = (a: number, b: number) => (a === b ? 0 : a - b);

/** Those in line in a thread, by priority and then by the order of acceptance (L4). */
export function inLine(entries: readonly Entry[], thread: string): Entry[] {
  return entries
    .filter(({ ask, status, notBefore }) => {
      return ask.thread === thread && status === "pending" && notBefore === undefined;
    })
    .sort(
      (a, b) => Number(b.isNext ?? false) - Number(a.isNext ?? false) || compare(a.rank, b.rank),
    );
}

/** A repetition of one that has not begun takes its place there, which is returned. */
export function gather(
  entries: readonly Entry[],
  { ask, plot, messages, notBefore, expiresAt }: Entry,
): Entry | undefined {
  const gathering = entries.find(
    (entry) =>
      entry.status === "pending" &&
      entry.gathersUntil !== undefined &&
      entry.ask.debounce === ask.debounce &&
      entry.ask.thread === ask.thread,
  );
  if (!gathering) return undefined;
  const { gathersUntil = 0 } = gathering;
  const isInLine = gathering.notBefore === undefined;
  const putOffTo = isInLine ? undefined : Math.min(notBefore ?? 0, gathersUntil);
  return Object.assign(gathering, { plot, messages, expiresAt, notBefore: putOffTo });
}

/** All that a submission in this status can still become. */
export function reachable(status: SubmissionStatus): Set<SubmissionStatus> {
  const found = new Set<SubmissionStatus>([status]);
  for (const from of found) for (const to of NEXT[from]) found.add(to);
  return found;
}

/** Where one that interrupted goes when it is tried again: with the highest priority, and not before it. */
export const LAST_URGENT = -100;

/** @param id that of the submission, which is another one where it is tried again */
export function entryOf(ask: Ask, { debounce }: Rules, now: number): Entry {
  const { id, key, plot, priority, delayMs, expiresMs } = ask;
  const isDebounced = ask.debounce !== undefined;
  const putOffMs = isDebounced ? debounce.delayMs : delayMs;
  return {
    id,
    ask,
    rank: isUrgent(ask) ? Number.NEGATIVE_INFINITY : -priority,
    key,
    plot,
    messages: messageIds(id),
    status: "pending",
    attempts: 0,
    dueAt: undefined,
    notBefore: putOffMs === undefined ? undefined : now + putOffMs,
    expiresAt: expiresMs === undefined ? undefined : now + expiresMs,
    gathersUntil: isDebounced ? now + debounce.maxDelayMs : undefined,
    mergedInto: undefined,
    isToBeUndone: false,
    isAnswered: false,
    deferrals: 0,
    failed: 0,
    resets: 0,
  };
}
