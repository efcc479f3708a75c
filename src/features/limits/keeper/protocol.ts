/** What agents and keepers say to each other. Times are relative, so that clocks may differ. */

/** Amounts of each dimension. Money in nanodollars, whole numbers. A slot is a model call, or a turn, that runs. */
export type Amounts = Partial<Record<Dimension, number>>;

export const DIMENSIONS = ["requests", "tokens", "nanodollars", "slots"] as const;
export type Dimension = (typeof DIMENSIONS)[number];

/** Characters of a key of a limit. */
export const MAX_KEY_LENGTH = 512;
/** The key of a refusal that closes all keys of a limit. A limit without keys has no other one. */
export const ALL_KEYS = "";
/** Characters of the reason of a pause. */
export const MAX_REASON_LENGTH = 1_000;

/** How long a slot is lent, whatever else the lease has. Renew it after a third of the time, while the work runs. */
export const SLOT_MS = 30_000;

/**
 * A window: any span of `ms` milliseconds, or a day or a month of the calendar in an IANA zone.
 * An amount is never exceeded in any span of that length; in a calendar window, from its start to its end.
 */
export type Window =
  | { readonly ms: number }
  | { readonly calendar: "day" | "month"; readonly zone: string };

export type Rule = { readonly amount: number; readonly window: Window };

/** What a limit allows each of its keys. Slots have no window: they are held until the lease ends, or they are given back. */
export type Rules = Partial<Record<Exclude<Dimension, "slots">, Rule>> & {
  readonly slots?: number;
};

/** An agent asks for capacity of one limit. */
export type Ask = {
  /** The same for each repetition of the ask, so that it keeps its place: the agent's id and the submission's. */
  readonly ticket: string;
  /** Whose capacity: a key of the limit, "" where the limit has no keys. */
  readonly key: string;
  readonly rules: Rules;
  /** The least with which the work can start. */
  readonly need: Amounts;
  /** What the agent is likely to use besides, before the lease ends. Not lent while other work waits. */
  readonly ahead?: Amounts;
  /** Who shares the key's capacity fairly: a key of another limit, and its weight. */
  readonly share?: { readonly key: string; readonly weight: number };
  /** It has made a call already: it goes before work that has not begun, and would have to begin again. */
  readonly hasBegun?: boolean;
  /** -100 to 100. Within a share, higher ones go first. */
  readonly priority?: number;
  /** How long the work has waited for this limit. */
  readonly waitedMs: number;
  /** The work fails where the amount is used up: no place is kept for it. */
  readonly failsIfFull?: boolean;
  /** How long ago the work was accepted, which decides between pieces of work with a {@link singleton} key. */
  readonly ageMs?: number;
  /** The work runs already: its slots are lent again, also where there are none left. */
  readonly isRenewal?: boolean;
  /** A newer piece of work with the key replaces older ones, or is refused while one is open. */
  readonly singleton?: "replace" | "skip";
  /** What is given back with the ask. */
  readonly returns?: readonly Return[];
  /** The notices of money that the agent has put into its outbox. */
  readonly notified?: readonly string[];
};

export type Answer = (Lent | Wait | Refused) & {
  /** 80 or 100 percent of the money of a window is used: the agent that gets one notifies the app, and confirms it. */
  readonly notices?: readonly Notice[];
};

/**
 * Capacity that the agent may use. It counts cautiously, because the answer takes time: from `inMs` after it has the answer, until
 * `inMs + forMs` after it asked. What it does not use is lost then.
 */
export type Lent = {
  readonly outcome: "lent";
  readonly lent: Amounts;
  readonly inMs: number;
  readonly forMs: number;
  /** Names the lease in a {@link Return}. */
  readonly lease: number;
  /** Other agents wait for a slot: it is given back after this use. */
  readonly isWanted?: boolean;
};

/** Nothing is lent. The ask keeps its place if it is repeated in about that time. */
export type Wait = {
  readonly outcome: "wait";
  readonly waitMs: number;
  readonly why: WaitReason;
  /** Which amount is used up. */
  readonly dimension?: Dimension;
  /** Why the key is paused. */
  readonly reason?: string;
};

/**
 * - `full`: others use it, or the window's amount is used
 * - `paused`: an operator has paused the key
 * - `closed`: the provider has refused requests until then
 */
type WaitReason = "full" | "paused" | "closed";

/** The work must not run: it can never fit, or another piece of work has its singleton key. */
export type Refused = {
  readonly outcome: "refused";
  readonly why: "exceeds" | "replaced" | "skipped";
  readonly dimension?: Dimension;
  readonly allowed?: number;
};

/** A part of a lease that is over: what was lent for it, and what of that was used. Sent once: a second one would count twice. */
export type Return = {
  readonly key: string;
  readonly rules: Rules;
  readonly lease: number;
  /** The ticket of the ask that has got the slots, or of one that waits and is not repeated: nothing is lent then. */
  readonly ticket?: string;
  readonly share?: { readonly key: string; readonly weight: number };
  readonly lent: Amounts;
  /** May be more than was lent. Slots are none: they are free again. */
  readonly used: Amounts;
  /** How long ago it was used: when the provider had the last of the requests for certain, e.g. when its answer began. */
  readonly usedAgoMs: number;
};

export type Notice = {
  readonly id: string;
  readonly key: string;
  readonly percent: 80 | 100;
  readonly usedNanodollars: number;
  readonly ofNanodollars: number;
};

/** What a provider says of an account, by its headers or by refusing a request. */
export type Observation = {
  /** A key, or {@link ALL_KEYS}. */
  readonly key: string;
  readonly rules: Rules;
  /** What it allows in a window, where that is less than declared. */
  readonly allowed?: Partial<Record<"requests" | "tokens", number>>;
  /** It has refused a request, and takes none for this long; undefined where it does not say. */
  readonly refused?: { readonly retryAfterMs?: number };
};

/** A key as operators see it. */
export type KeyState = {
  readonly key: string;
  readonly rules: Rules;
  /** Of the windows now, lent capacity included. */
  readonly used: Amounts;
  /** What the provider allows by its headers, where that is less than declared. */
  readonly allowed?: Partial<Record<"requests" | "tokens", number>>;
  /** What is lent for a while after refusals that named no limit. */
  readonly lowered?: Partial<Record<"requests" | "tokens", number>>;
  readonly waiting: number;
  readonly longestWaitMs: number;
  readonly pausedAt?: number;
  readonly reason?: string;
  readonly closedForMs?: number;
  /** When money comes back: the first part of it, where the window slides. */
  readonly windowEndsAt?: number;
};
