/** Decides whether another attempt follows a failed one, when, and what it does. Pure. */

import { type Backoff, backoffMs, type Transient } from "../../../core/failures.ts";
import type { Unanswered } from "../host.ts";
import type { AnswerSpec, SubmitMessagesOptions } from "../types.ts";
import {
  attemptPlanOf,
  failuresOfModels,
  freeAttempts,
  type NextAction,
  type PriorAttempt,
  repairsLeft,
} from "./attempt-plan.ts";

/** The longest Retry-After: the thread is closed for that time. */
const MAX_RETRY_AFTER_MS = 86_400_000;

/** Why an attempt failed, as the next one depends on it. */
export type FailureKind =
  /** The answer was refused, or is missing. */
  | Unanswered
  /** The model or a tool failed. */
  | { readonly refusal: ToolRefusal | undefined }
  /** A budget or an interruption: no other model would do better. */
  | "other";

export type FailedTurn = {
  readonly spec: AnswerSpec | undefined;
  readonly priors: readonly PriorAttempt[];
  readonly why: FailureKind;
  /** Set when the failure may not happen again. */
  readonly transient: Transient | undefined;
  readonly hasEffects: boolean;
  /** Whether another attempt is allowed in spite of that. */
  readonly mayRepeatEffects: boolean;
  /** Whether another attempt sees the conversation of this one. */
  readonly isRemembered: boolean;
  /** Attempts so far, without those that a reset of the platform ended; and the limit. */
  readonly attempts: number;
  readonly maxAttempts: number;
};

type NextAttempt = { readonly follow: NextAction; readonly delayMs: number };

export function nextAttempt(
  turn: FailedTurn,
  backoff: Backoff,
  random: number,
): NextAttempt | undefined {
  const { why } = turn;
  if (why === "other") return laterAttempt(turn, backoff, random);
  const isAnswer = "answer" in why;
  const follow = isAnswer ? afterAnswer(turn, why) : why.refusal && switched(turn);
  if (follow) return { follow, delayMs: 0 };
  if (isAnswer) return why.isCutOff ? nextModel(turn) : undefined;
  return nextModel(turn) ?? laterAttempt(turn, backoff, random);
}

/** A model that cannot make JSON of a call may still do so in a text. */
function afterAnswer(turn: FailedTurn, { answer }: Unanswered): NextAction | undefined {
  if (answer === "missing") return switched(turn);
  if (repairsLeft(turn.spec, turn.priors) > 0) return "repair";
  return answer === "unreadable" ? switched(turn) : undefined;
}

/** From the tool to a text, once. */
function switched(turn: FailedTurn): NextAction | undefined {
  const { spec, priors, why, hasEffects, isRemembered } = turn;
  const plan = attemptPlanOf(spec, priors);
  if (!plan?.takesText || why === "other") return undefined;
  const isFollowUp = plan.followUp !== undefined;
  const doesWithoutTools = "refusal" in why && why.refusal === "tools";
  if (!hasEffects && !isFollowUp && !doesWithoutTools) return "json";
  // Without the results of its tools, the model could only invent an answer.
  const given = "answer" in why ? why.given : undefined;
  return hasEffects && !isRemembered && !isFollowUp && !given ? undefined : "finish";
}

/** The next model is asked at once, while one is left that has not failed in this round. */
function nextModel(turn: FailedTurn): NextAttempt | undefined {
  const { spec, priors } = turn;
  const { length } = spec?.models ?? [];
  if (length === 0 || !mayActAgain(turn)) return undefined;
  const isLast = failuresOfModels(priors) % length === length - 1;
  return isLast ? undefined : { follow: "model", delayMs: 0 };
}

function laterAttempt(turn: FailedTurn, backoff: Backoff, random: number): NextAttempt | undefined {
  const { transient, priors, maxAttempts } = turn;
  const attempts = turn.attempts - freeAttempts(priors);
  if (!transient || attempts >= maxAttempts || !mayActAgain(turn)) return undefined;
  const asked = Math.min(transient.retryAfterMs ?? 0, MAX_RETRY_AFTER_MS);
  return { follow: "again", delayMs: Math.max(backoffMs(attempts, backoff, random), asked) };
}

export type AfterSideEffects = "tell" | "fail" | "repeat";

export function afterSideEffects(retry: SubmitMessagesOptions["retry"]): AfterSideEffects {
  const { afterSideEffects: chosen = "tell" } = retry ?? {};
  if (typeof chosen !== "boolean") return chosen;
  return chosen ? "repeat" : "fail";
}

/**
 * Whether a turn whose tools have run may be attempted again.
 *
 * @param isUnrecorded whether the model's provider has run one of them, so that it may run twice
 */
export function mayRepeatEffects(retry: SubmitMessagesOptions["retry"], isUnrecorded: boolean) {
  const chosen = afterSideEffects(retry);
  return chosen === "repeat" || (chosen === "tell" && !isUnrecorded);
}

/** A turn with effects is repeated only if allowed; an attempt without tools always. */
function mayActAgain({ spec, priors, hasEffects, mayRepeatEffects }: FailedTurn): boolean {
  return !hasEffects || mayRepeatEffects || attemptPlanOf(spec, priors)?.followUp !== undefined;
}

/** A model provider's refusal: of all tools, or of a choice among them. Asking in another way may do better. */
export type ToolRefusal = "toolChoice" | "tools";

const TOOL_CHOICE = /tool[\s_-]?choice/i;
const TOOLS = /\btools?\b|\bfunction[\s_-]?call(s|ing)?\b|\btool[\s_-]?(use|calls?|calling)\b/i;
/** Statuses of the 4xx that say nothing about the content of the request. */
const NOT_ABOUT_IT = new Set([401, 403, 408, 409, 425, 429]);

/**
 * Whether a provider refused a request because of its tools or its tool choice: a 4xx whose text mentions them, or the AI SDK's
 * error for an unsupported function. Reads the causes of wrapped errors.
 */
export function toolRefusalOf(error: unknown): ToolRefusal | undefined {
  for (let at = error, depth = 0; at && depth < 8; depth++) {
    const refused = at as Partial<Refused>;
    const { name, statusCode, message = "", responseBody = "" } = refused;
    if (name === "AI_UnsupportedFunctionalityError") return refusalIn(message);
    if (statusCode !== undefined) {
      const isRefused = statusCode >= 400 && statusCode < 500 && !NOT_ABOUT_IT.has(statusCode);
      return isRefused ? refusalIn(`${message}\n${responseBody}`) : undefined;
    }
    at = refused.lastError ?? refused.cause;
  }
  return undefined;
}

function refusalIn(text: string): ToolRefusal | undefined {
  return TOOL_CHOICE.test(text) ? "toolChoice" : TOOLS.test(text) ? "tools" : undefined;
}

/** Fields of the AI SDK's errors of model providers. */
type Refused = {
  name: string;
  statusCode: number;
  message: string;
  responseBody: string;
  lastError: unknown;
  cause: unknown;
};
