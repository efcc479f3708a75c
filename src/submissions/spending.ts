/**
 * What turns spend, in tokens, and whether they may go on. Counted in memory
 * and written with the end of the attempt; what has a budget is written after
 * each call of the model, so that no crash gives tokens back.
 */

import type { Clock } from "../core/clock.ts";
import type { DayUsage } from "./day-usage.ts";
import { BudgetExceededError } from "./errors.ts";
import type { Limits } from "./options.ts";
import type { Submission } from "./rows.ts";
import type { SubmissionStore } from "./store.ts";
import type { AttemptRef } from "./turn.ts";
import type { TokenUsage } from "./types.ts";

const DAY_MS = 86_400_000;

type Account = {
  readonly attempt: number;
  readonly budget: number | undefined;
  /** What had been written when this life took the attempt up. */
  readonly before: TokenUsage | undefined;
  /** What has been spent since then. */
  spent: TokenUsage | undefined;
};

export type SpendingOwner = {
  readonly store: SubmissionStore;
  readonly dayUsage: DayUsage;
  readonly clock: Clock;
  readonly limits: Limits;
};

export class Spending {
  readonly #accounts = new Map<number, Account>();

  constructor(private readonly owner: SpendingOwner) {}

  /** An attempt begins. */
  begin({ seq, attempts, budget, usage }: Submission): void {
    this.#accounts.set(seq, { attempt: attempts, budget, before: usage, spent: undefined });
  }

  /** A call of the model has used tokens. A word about an earlier attempt changes nothing (L2). */
  add(ref: AttemptRef, usage: TokenUsage): void {
    const account = this.#accountOf(ref);
    if (!account) return;
    account.spent = sum(account.spent, usage);
    const { store, dayUsage, clock, limits } = this.owner;
    const isOfDay = Number.isFinite(limits.tokensPerDay);
    if (account.budget === undefined && !isOfDay) return;
    store.transaction(() => {
      store.spend(ref, sum(account.before, account.spent ?? {}));
      if (isOfDay) dayUsage.add(dayOf(clock.now()), tokensOf(usage));
    });
  }

  /** @throws BudgetExceededError when the submission, or the agent for today, has none left */
  check(ref: AttemptRef): void {
    const account = this.#accountOf(ref);
    if (!account) return;
    const { budget, before, spent = {} } = account;
    const used = tokensOf(sum(before, spent));
    if (budget !== undefined && used >= budget) {
      throw new BudgetExceededError("submission", used, budget);
    }
    const { dayUsage, clock, limits } = this.owner;
    if (!Number.isFinite(limits.tokensPerDay)) return;
    const today = dayUsage.of(dayOf(clock.now()));
    if (today >= limits.tokensPerDay) {
      throw new BudgetExceededError("day", today, limits.tokensPerDay);
    }
  }

  /** What this attempt has spent in this life, and all attempts together. */
  of(seq: number): { spent: TokenUsage | undefined; usage: TokenUsage | undefined } {
    const { before, spent } = this.#accounts.get(seq) ?? {};
    return { spent, usage: spent && sum(before, spent) };
  }

  /** The attempt is over, and what it has spent is written. */
  close(seq: number): void {
    this.#accounts.delete(seq);
  }

  /** That of an attempt which an earlier life began is opened when it is first heard of. */
  #accountOf({ seq, attempt }: AttemptRef): Account | undefined {
    if (!this.#accounts.has(seq)) {
      const submission = this.owner.store.get(seq);
      if (submission?.status === "running") this.begin(submission);
    }
    const account = this.#accounts.get(seq);
    return account?.attempt === attempt ? account : undefined;
  }
}

function sum(a: TokenUsage | undefined, b: TokenUsage): TokenUsage {
  return {
    inputTokens: (a?.inputTokens ?? 0) + (b.inputTokens ?? 0),
    outputTokens: (a?.outputTokens ?? 0) + (b.outputTokens ?? 0),
    totalTokens: (a?.totalTokens ?? 0) + tokensOf(b),
  };
}

/** Some providers report the parts only. */
function tokensOf({ inputTokens = 0, outputTokens = 0, totalTokens }: TokenUsage): number {
  return totalTokens ?? inputTokens + outputTokens;
}

function dayOf(now: number): number {
  return Math.floor(now / DAY_MS);
}
