/** The errors of limits. A submission that ends with one has its name as `errorName`; nothing of a turn that only waited has run. */

import { failureOf } from "../../core/failures.ts";
import { durationText, InvalidFieldError } from "../../core/options/options.ts";
import type { WaitingFor } from "../../submissions/types.ts";
import type { Dimension } from "./keeper/protocol.ts";

/** Nanodollars of a dollar. */
export const NANODOLLARS = 1e9;

/** The limit and its key, as messages name them. */
function named(limit: string, key: string): string {
  const name = `limit ${JSON.stringify(limit)}`;
  return key === "" ? name : `${name} of ${JSON.stringify(key)}`;
}

/** An amount as people read it: money in dollars. */
function amountText(dimension: Dimension, amount: number): string {
  if (dimension === "nanodollars") return dollarText(amount);
  if (dimension === "slots") return `${amount} at a time`;
  return `${amount} ${dimension}`;
}

/** @param nanodollars are shown with the digits that they need, up to a millionth of a dollar */
export function dollarText(nanodollars: number): string {
  const [whole = "0", part = ""] = (nanodollars / NANODOLLARS).toFixed(6).split(".");
  return `${whole}.${part.replace(/0{1,4}$/, "")} dollars`;
}

/** A turn waits for a limit longer than the limit's `timeout`, or than a client's turn can. Submit it again later. */
export class LimitTimeoutError extends Error {
  override readonly name = "LimitTimeoutError";
  constructor(
    readonly limit: string,
    readonly key: string,
    readonly timeoutMs: number,
    /** What it has waited for at the end. */
    readonly why: WaitingFor["why"],
  ) {
    super(
      `The ${named(limit, key)} has nothing free within ${durationText(timeoutMs)} (${why}). ` +
        "Submit it again later, or let turns wait longer for the limit.",
    );
  }
}

/** The limit is used up and has `atEnd: "fail"`, or the work needs more than the limit ever allows. */
export class LimitReachedError extends Error {
  override readonly name = "LimitReachedError";
  constructor(
    readonly limit: string,
    readonly key: string,
    /** What is used up: `requests`, `tokens`, `nanodollars` or `slots`. */
    readonly dimension: Dimension,
    /** How much the limit allows. */
    readonly allowed: number,
    /** When the work could run, epoch milliseconds; undefined: never with this limit. */
    readonly until?: number,
    /** How much the work needs, where that is more than the limit allows. */
    readonly needed?: number,
  ) {
    const of = `The ${named(limit, key)} allows ${amountText(dimension, allowed)}`;
    super(
      until === undefined
        ? `${of}, and one model call may need ${amountText(dimension, needed ?? allowed)}. ` +
            "Raise the limit, set a lower maxOutputTokens, or send a shorter prompt."
        : `${of}, which are used, until ${new Date(until).toISOString()}. ` +
            'Submit it again then, raise the limit, or use atEnd: "wait".',
    );
  }
}

/** The function `key` of a limit has returned no string of 1 to 256 characters for a turn, or has thrown. */
export class InvalidLimitKeyError extends Error {
  override readonly name = "InvalidLimitKeyError";
  constructor(
    readonly limit: string,
    problem: string,
  ) {
    super(
      `The ${named(limit, "")} has no key for this turn: ${problem}. ` +
        "Return a string of 1 to 256 characters, or undefined where the limit does not apply.",
    );
  }
}

/** The submission's budget of dollars does not cover the next model call. No further call is made. */
export class DollarBudgetExceededError extends Error {
  override readonly name = "BudgetExceededError";
  constructor(
    /** Dollars that its model calls have cost. */
    readonly used: number,
    /** Its `budget.usd`. */
    readonly budget: number,
    /** Dollars that the next call may cost. */
    readonly needed: number,
  ) {
    const [spent, allowed, next] = [used, budget, needed].map((usd) =>
      dollarText(usd * NANODOLLARS),
    );
    super(
      `The submission has used ${spent} of its ${allowed}, and the next model call may cost ${next}. ` +
        "Raise budget.usd, set a lower maxOutputTokens, or use a cheaper model.",
    );
  }
}

/** A newer submission with `singleton: "replace"` has taken the place of this one. */
export class SubmissionReplacedError extends Error {
  override readonly name = "SubmissionReplacedError";
  constructor(readonly key: string) {
    super(
      `A newer submission with the concurrency key ${JSON.stringify(key)} has replaced this one.`,
    );
  }
}

/** A submission with `singleton: "skip"` found another one open under its key. Submit it again when that has ended. */
export class SubmissionSkippedError extends Error {
  override readonly name = "SubmissionSkippedError";
  constructor(readonly key: string) {
    super(
      `Another submission with the concurrency key ${JSON.stringify(key)} is open. ` +
        "Submit this one again when that one has ended.",
    );
  }
}

/** A limit or a budget counts money, and the table of prices has no price of the model. */
export class PriceMissingError extends Error {
  override readonly name = "PriceMissingError";
  constructor(
    /** As `prices` would name it: `<provider>/<modelId>`. */
    readonly model: string,
    /** What needs the price. */
    readonly usedBy: string,
  ) {
    const line = `${JSON.stringify(model)}: { input: 0.25, output: 2 }`;
    super(
      `${usedBy} counts money, and the model ${JSON.stringify(model)} has no price. ` +
        `Add it to prices of limits(), in dollars per million tokens: ${line}.`,
    );
  }
}

/** A model call has to wait for long: the ledger ends the attempt, which is not counted, and the submission waits there. */
export class LimitWaitError extends Error {
  override readonly name = "LimitWait";
  constructor(readonly waitingFor: WaitingFor) {
    const { limit, key, until } = waitingFor;
    super(`The turn waits for the ${named(limit, key)} until ${new Date(until).toISOString()}.`);
  }
}

const KEEPER_CALL = "InvalidKeeperCallError";

/** A call of a keeper has an invalid field. The keeper has changed nothing. */
export class InvalidKeeperCallError extends InvalidFieldError {
  override readonly name = KEEPER_CALL;

  /** The error that RPC carries as another class. Without `enhanced_error_serialization` its name is part of the message. */
  static of(error: unknown): InvalidKeeperCallError | undefined {
    const { name, message } = failureOf(error);
    if (name !== KEEPER_CALL && !message.startsWith(`${KEEPER_CALL}: `)) return undefined;
    const { field } = error as Partial<InvalidKeeperCallError>;
    return new InvalidKeeperCallError(field ?? "", message.replace(`${KEEPER_CALL}: `, ""));
  }
}
