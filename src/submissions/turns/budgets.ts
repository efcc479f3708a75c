/**
 * What turns spend, in tokens, and whether they may go on. Counted in memory
 * and written with the end of the attempt; what has a budget is written after
 * each call of the model, so that no crash gives tokens back.
 */

import type { Clock } from "../../core/clock.ts";
import { preview } from "../../core/json.ts";
import { BudgetExceededError, UsageNotReportedError } from "../errors.ts";
import type { AttemptRef } from "../host.ts";
import type { Limits } from "../options.ts";
import type { Submission } from "../store/rows.ts";
import type { SubmissionStore } from "../store/store.ts";
import type { DayUsage } from "../store/usage.ts";
import type { TokenUsage } from "../types.ts";

const DAY_MS = 86_400_000;
/** Calls in a row that may report tokens of which none can be counted, where there is a budget. */
const MAX_UNMEASURED = 5;

type Account = {
  readonly attempt: number;
  readonly budget: number | undefined;
  /** What had been written when this life took the attempt up. */
  readonly before: TokenUsage | undefined;
  /** What has been spent since then. */
  spent: TokenUsage | undefined;
  /** How many of its latest calls have used no tokens that can be counted; the most where the latest reported nothing, or garbage. */
  unmeasured: number;
  /** What the latest call has reported that cannot be counted. */
  garbage: string | undefined;
};

export type SpendingOwner = {
  readonly store: SubmissionStore;
  readonly dayUsage: DayUsage;
  readonly clock: Clock;
  readonly limits: Limits;
};

export class Spending {
  readonly #accounts = new Map<number, Account>();
  #hasWarned = false;

  constructor(private readonly owner: SpendingOwner) {}

  /** An attempt begins. */
  begin({ seq, attempts, budget, usage }: Submission): void {
    this.#accounts.set(seq, {
      attempt: attempts,
      budget,
      before: usage,
      spent: undefined,
      unmeasured: 0,
      garbage: undefined,
    });
  }

  /**
   * A call of the model has used tokens. A word about an earlier attempt changes nothing (L2).
   *
   * @param reported as the model reports it, which may be anything
   */
  add(ref: AttemptRef, reported: unknown): void {
    const account = this.#accountOf(ref);
    if (!account) return;
    const { usage, garbage } = this.#read(reported);
    const tokens = tokensOf(usage ?? {});
    if (usage) account.spent = sum(account.spent, usage);
    account.garbage = garbage;
    if (!usage || garbage !== undefined) account.unmeasured = MAX_UNMEASURED;
    else account.unmeasured = tokens > 0 ? 0 : account.unmeasured + 1;
    const { store, dayUsage, clock, limits } = this.owner;
    const isOfDay = Number.isFinite(limits.tokensPerDay);
    if (account.budget === undefined && !isOfDay) return;
    store.transaction(() => {
      if (usage) store.spend(ref, sum(account.before, account.spent ?? {}));
      if (isOfDay) dayUsage.add(dayOf(clock.now()), tokens);
    });
  }

  /**
   * What is a number of tokens in a report; no usage where nothing is reported, and `garbage` where what is reported
   * leaves open how many tokens there were: a part is no number of tokens, and so is the total, or there is none.
   */
  #read(reported: unknown): { usage?: TokenUsage; garbage?: string } {
    const report = (reported ?? {}) as Record<string, unknown>;
    const fields = FIELDS.filter((name) => report[name] !== undefined && report[name] !== null);
    if (fields.length === 0) return {};
    const counts = fields.filter((name) => isCount(report[name]));
    const usage = Object.fromEntries(counts.map((name) => [name, report[name]]));
    if (counts.length === fields.length) return { usage };
    const garbage = fields.map((name) => `${name} ${preview(report[name])}`).join(", ");
    if (!this.#hasWarned) {
      this.#hasWarned = true;
      console.error(
        `[perdure] a model reports its usage as ${garbage}: what is no finite number from 0 counts as 0. This is logged once.`,
      );
    }
    return counts.includes("totalTokens") ? { usage } : { usage, garbage };
  }

  /**
   * A call of the model comes next.
   *
   * @throws BudgetExceededError when the submission, or the agent for today, has no tokens left
   * @throws UsageNotReportedError when what is left cannot be told
   */
  check(ref: AttemptRef): void {
    const account = this.#accountOf(ref);
    if (!account) return;
    const { budget, before, spent = {}, unmeasured, garbage } = account;
    const used = tokensOf(sum(before, spent));
    if (budget !== undefined && used >= budget) {
      throw new BudgetExceededError("submission", used, budget);
    }
    const isUnmeasured = unmeasured >= MAX_UNMEASURED;
    if (budget !== undefined && isUnmeasured) {
      throw new UsageNotReportedError("submission", budget, garbage);
    }
    const { dayUsage, clock, limits } = this.owner;
    const { tokensPerDay } = limits;
    if (!Number.isFinite(tokensPerDay)) return;
    const today = dayUsage.of(dayOf(clock.now()));
    if (today.tokens >= tokensPerDay) {
      throw new BudgetExceededError("day", today.tokens, tokensPerDay);
    }
    if (isUnmeasured || today.unmeasured >= MAX_UNMEASURED) {
      throw new UsageNotReportedError("day", tokensPerDay, garbage);
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

/** Some providers report the parts only, or a total that leaves some of them out. */
function tokensOf({ inputTokens = 0, outputTokens = 0, totalTokens = 0 }: TokenUsage): number {
  return Math.max(totalTokens, inputTokens + outputTokens);
}

const FIELDS = [
  "inputTokens",
  "outputTokens",
  "totalTokens",
] as const satisfies (keyof TokenUsage)[];

function isCount(value: unknown): boolean {
  return typeof value === "number" && Number.isFinite(value) && value >= 0;
}

function dayOf(now: number): number {
  return Math.floor(now / DAY_MS);
}
