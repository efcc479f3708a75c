/**
 * Counts the tokens of running turns, and records the times of their model calls. Tokens and dollars are written before tools run
 * and before the next call, so that a crash loses those of the call in flight only. With a budget, what that call may use is
 * written before it. The times are kept in memory, and stored by the statement that ends an attempt.
 */

import type { Clock } from "../../core/clock.ts";
import { preview } from "../../core/json.ts";
import { BudgetExceededError, UsageNotReportedError } from "../errors.ts";
import type { Limiter } from "../limiter.ts";
import type { AttemptRef } from "../states.ts";
import type { Submission } from "../store/rows.ts";
import type { SubmissionStore } from "../store/store.ts";
import { AttemptTimes, type CalledModel, type EndedCall, isCount } from "../store/timeline.ts";
import type { TokenUsage } from "../types.ts";

/** Model calls in a row without a countable number of tokens, after which a budget counts as not measurable. */
const MAX_UNMEASURED = 5;

type Account = {
  readonly attempt: number;
  readonly budget: number | undefined;
  /** Whether its usage is written after each call. */
  readonly isLimited: boolean;
  /** Tokens that were written before this object instance began to count. */
  readonly before: TokenUsage | undefined;
  spent: TokenUsage | undefined;
  /** Tokens of a call whose step has not ended. */
  finished: TokenUsage | undefined;
  /** What the call in flight may use, where a budget limits that. */
  reserved: Pick<TokenUsage, "totalTokens" | "cost">;
  /** What was written last, as JSON. */
  written: string | undefined;
  /** How many of the latest calls reported no countable tokens; the maximum after a call that reported nothing, or garbage. */
  unmeasured: number;
  /** The value that the latest call reported instead of numbers. */
  garbage: string | undefined;
  readonly times: AttemptTimes;
};

type AttemptRecord = {
  readonly spent: TokenUsage | undefined;
  readonly usage: TokenUsage | undefined;
  readonly times: AttemptTimes | undefined;
};

export class TokenBudgets {
  readonly #accounts = new Map<number, Account>();
  #hasWarned = false;

  constructor(
    private readonly store: SubmissionStore,
    private readonly clock: Clock,
    private readonly limiter: Limiter,
  ) {}

  /**
   * An attempt begins.
   *
   * @param isResumed whether an earlier object instance began it
   */
  open(submission: Submission, isResumed = false): void {
    const { seq, attempts: attempt, budget, limits, usage: before, timeline } = submission;
    const times = new AttemptTimes(timeline, isResumed);
    const unused = {
      ...{ spent: undefined, finished: undefined, reserved: {}, written: undefined },
      ...{ unmeasured: 0, garbage: undefined },
    };
    const isLimited = (budget ?? limits?.usd) !== undefined;
    this.#accounts.set(seq, { attempt, budget, isLimited, before, ...unused, times });
  }

  /**
   * Adds the tokens of a model call. The report of an earlier attempt changes nothing.
   *
   * @param reported as the model reports it, which may be anything
   */
  add(ref: AttemptRef, reported: unknown, call?: EndedCall): void {
    const account = this.#accountOf(ref);
    if (!account) return;
    account.times.ended(call, reported, this.clock.now());
    const { usage, garbage } = this.#read(reported);
    const tokens = tokensOf(usage ?? {});
    account.finished = undefined;
    // A call without a report may have used all of it.
    if (usage) account.reserved = { cost: account.reserved.cost };
    this.#spend(ref.seq, account, usage);
    account.garbage = garbage;
    if (!usage || garbage !== undefined) account.unmeasured = MAX_UNMEASURED;
    else account.unmeasured = tokens > 0 ? 0 : account.unmeasured + 1;
    if (account.isLimited) this.#write(ref, account);
  }

  /**
   * A call begins, of an attempt with a budget of tokens.
   *
   * @param worst computes about how many tokens it uses
   */
  reserveTokens(ref: AttemptRef, worst: () => number): void {
    const account = this.#accountOf(ref);
    if (account?.budget === undefined) return;
    account.reserved = { ...account.reserved, totalTokens: worst() };
    this.#write(ref, account);
  }

  /** Calls in flight of the latest attempt may cost this many dollars. Those that have ended are in the cost of the gate. */
  reserveCost(seq: number, cost: number): void {
    const account = this.#accounts.get(seq);
    if (!account) return;
    const isMore = cost > (account.reserved.cost ?? 0);
    account.reserved = { ...account.reserved, cost };
    this.#spend(seq, account);
    if (isMore) this.#write({ seq, attempt: account.attempt }, account);
  }

  /** A model has finished a call. Its step has not ended: its tools run, and {@link add} follows. */
  finished(ref: AttemptRef, usage: TokenUsage, hasToolCalls: boolean): void {
    const account = this.#accountOf(ref);
    if (!account) return;
    account.finished = this.#read(usage).usage;
    if (account.finished) account.reserved = { cost: account.reserved.cost };
    this.#spend(ref.seq, account);
    if (hasToolCalls || account.isLimited) this.#write(ref, account);
  }

  /** One row, where something has changed since the latest one. */
  #write(ref: AttemptRef, account: Account): void {
    const { before, reserved } = account;
    const spent = spentOf(account);
    const isReserving = Boolean(reserved.totalTokens || reserved.cost);
    if (!spent && !isReserving) return;
    account.spent ??= {};
    const usage = sum(sum(before, spent ?? {}), reserved);
    const written = JSON.stringify(usage);
    if (written === account.written) return;
    this.store.spend(ref, usage);
    account.written = written;
  }

  /** Adds the tokens of a call, and the dollars that the gate has counted. */
  #spend(seq: number, account: Account, usage?: TokenUsage): void {
    const cost = this.limiter.gate?.takeCost(seq);
    if (usage || cost) account.spent = sum(account.spent, { ...usage, cost });
  }

  /**
   * Reads the numbers of a report. Without any field there is no usage. `garbage` is set where the total cannot be known:
   * a part is not a number, and the total is missing or not a number either.
   */
  #read(reported: unknown): { usage?: TokenUsage; garbage?: string } {
    const report = (reported ?? {}) as Record<string, unknown>;
    const fields = FIELDS.filter((name) => report[name] != null);
    if (fields.length === 0) return {};
    const counts = fields.filter((name) => isCount(report[name]));
    const usage = Object.fromEntries(counts.map((name) => [name, report[name]]));
    if (counts.length === fields.length) return { usage };
    const garbage = fields.map((name) => `${name} ${preview(report[name])}`).join(", ");
    if (!this.#hasWarned) {
      this.#hasWarned = true;
      console.error(
        `[perdure] a model reports its usage as ${garbage}: a value that is not a finite number from 0 counts as 0.`,
      );
    }
    return counts.includes("totalTokens") ? { usage } : { usage, garbage };
  }

  /**
   * Checks the budget before a model call.
   *
   * @throws BudgetExceededError when the submission has no tokens left
   * @throws UsageNotReportedError when the tokens left cannot be measured
   */
  check(ref: AttemptRef): void {
    const account = this.#accountOf(ref);
    if (account?.budget === undefined) return;
    const { budget, before, spent = {}, unmeasured, garbage } = account;
    const used = tokensOf(sum(before, spent));
    if (used >= budget) throw new BudgetExceededError(used, budget);
    if (unmeasured >= MAX_UNMEASURED) throw new UsageNotReportedError(budget, garbage);
  }

  /** A model call begins, after {@link check}. */
  callStarted(ref: AttemptRef, called: CalledModel | undefined): void {
    const account = this.#accounts.get(ref.seq);
    if (!account) return;
    account.times.started(this.clock.now(), called);
    this.#write(ref, account);
  }

  /**
   * The tokens of this attempt in this object instance, those of all attempts together, and the times of its model calls. A call
   * in flight counts as what it may use: it may not report any more. Reading it again counts nothing twice.
   */
  recordOf(seq: number): AttemptRecord {
    const account = this.#accounts.get(seq);
    if (!account) return { spent: undefined, usage: undefined, times: undefined };
    // The cost of a call that has failed.
    this.#spend(seq, account);
    const { totalTokens } = account.reserved;
    const reported = spentOf(account);
    const spent = totalTokens ? sum(reported, { totalTokens }) : reported;
    return { spent, usage: spent && sum(account.before, spent), times: account.times };
  }

  close(seq: number): void {
    this.#accounts.delete(seq);
  }

  /** The account of an attempt that an earlier object instance began is opened at its first report. */
  #accountOf({ seq, attempt }: AttemptRef): Account | undefined {
    if (!this.#accounts.has(seq)) {
      const submission = this.store.get(seq);
      if (submission?.status === "running") this.open(submission, true);
    }
    const account = this.#accounts.get(seq);
    return account?.attempt === attempt ? account : undefined;
  }
}

function spentOf({ spent, finished }: Account): TokenUsage | undefined {
  return finished ? sum(spent, finished) : spent;
}

function sum(a: TokenUsage | undefined, b: TokenUsage): TokenUsage {
  const cost = (a?.cost ?? 0) + (b.cost ?? 0);
  return {
    inputTokens: (a?.inputTokens ?? 0) + (b.inputTokens ?? 0),
    outputTokens: (a?.outputTokens ?? 0) + (b.outputTokens ?? 0),
    totalTokens: (a?.totalTokens ?? 0) + tokensOf(b),
    // Without the digits that only an addition of binary fractions brings.
    ...(cost > 0 && { cost: Math.round(cost * 1e9) / 1e9 }),
  };
}

/** Some providers report the parts only, or a total that leaves some of them out. */
function tokensOf({ inputTokens = 0, outputTokens = 0, totalTokens = 0 }: TokenUsage): number {
  return Math.max(totalTokens, inputTokens + outputTokens);
}

const FIELDS = ["inputTokens", "outputTokens", "totalTokens"] as const;
