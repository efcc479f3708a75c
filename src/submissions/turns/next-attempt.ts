/**
 * Decides what follows an attempt that has failed or was interrupted, and what the next attempt asks. Pure: computed from the
 * submission and its failed attempts, so that a restart decides the same.
 */

import {
  type Backoff,
  backoffMs,
  type Failure,
  responseOf,
  type Transient,
} from "../../core/failures.ts";
import type { AnswerSpec, SubmitMessagesOptions } from "../submit-options.ts";

/**
 * What follows a failed attempt:
 * - `"again"`: the same is asked later;
 * - `"model"`: the same is asked of the next model;
 * - `"json"`: the answer is asked for as a text, from the beginning;
 * - `"finish"`: the answer is asked for as a text, and nothing else is done;
 * - `"repair"`: the model is shown what is wrong with its answer, and gives a better one.
 */
export type NextAction = "again" | "model" | "json" | "finish" | "repair";

/** A failed attempt, as the next one needs it. */
export type PriorAttempt = {
  readonly follow: NextAction;
  readonly error: string;
  /** The refused answer, maybe cut. */
  readonly given: string | undefined;
};

export type AttemptPlan = {
  /** How the answer comes: as the text of the reply, as JSON in that text, or by a call of the final-answer tool. */
  readonly how: "text" | "json" | "tool";
  /** JSON Schema of the answer; only a text has none. */
  readonly schema: object | undefined;
  /** JSON Schema that checks the answer; never stricter than the caller's schema. */
  readonly check: object | undefined;
  /** Whether a matching text is accepted in place of a call. */
  readonly takesText: boolean;
  /** Id of the model; by default the agent's own. */
  readonly model: string | undefined;
  /** Model calls at most; by default the limit of the agent. */
  readonly maxSteps: number | undefined;
  /**
   * The last message of an attempt that continues the reply of the one before, which stays in the conversation. It is not
   * stored. Only the final-answer tool is offered, so the attempt has no effects.
   */
  readonly followUp: string | undefined;
};

/** The plan of the next attempt; undefined where no answer was asked for. */
export function attemptPlanOf(
  spec: AnswerSpec | undefined,
  priors: readonly PriorAttempt[],
): AttemptPlan | undefined {
  if (!spec) return undefined;
  const { schema, check = schema, strategy = "auto", models = [], maxSteps } = spec;
  const isSwitched = priors.some(({ follow }) => follow === "json" || follow === "finish");
  const how = !schema ? "text" : strategy === "json" || isSwitched ? "json" : "tool";
  // A repetition, also with another model, has the request of the attempt before.
  const latest = priors.findLast(({ follow }) => follow !== "again" && follow !== "model");
  return {
    how,
    schema,
    check,
    takesText: how === "tool" && strategy === "auto",
    model: models.length > 0 ? models[failuresOfModels(priors) % models.length] : undefined,
    maxSteps,
    followUp: latest && followUpOf(latest),
  };
}

/** How often a model has failed. After each failure the next one is asked; after the last, the first again. */
function failuresOfModels(priors: readonly PriorAttempt[]): number {
  return priors.filter(({ follow }) => follow === "again" || follow === "model").length;
}

/** Attempts that do not count for `maxAttempts`: they have limits of their own. */
export function freeAttempts(priors: readonly PriorAttempt[]): number {
  return priors.filter(({ follow }) => follow !== "again").length;
}

/** How often the model may still be shown what is wrong with its answer. */
export function repairsLeft(spec: AnswerSpec | undefined, priors: readonly PriorAttempt[]): number {
  return (spec?.repair ?? 0) - priors.filter(({ follow }) => follow === "repair").length;
}

function followUpOf({ follow, error, given }: PriorAttempt): string | undefined {
  const shown = given === undefined ? "" : `\n\nThis is what you gave:\n\n${given}`;
  if (follow === "repair") {
    return `${REPAIR}\n\n${error}${shown}\n\nGive the whole answer again with that put right, ${FORM}`;
  }
  return follow === "finish" ? `${FINISH}${shown}\n\nGive it now, ${FORM}` : undefined;
}

const REPAIR = "Your answer was not accepted. This is wrong with it:";
const FINISH = "Your work is done, and its answer is still missing in the form that was asked for.";
const FORM = "in the form that your instructions ask for, and nothing else.";

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
  return retry?.afterSideEffects ?? "tell";
}

/**
 * Whether a turn whose tools have run may be attempted again.
 *
 * @param hasProviderEffects whether the model's provider has run one of them, so that it may run twice
 */
export function mayRepeatEffects(
  retry: SubmitMessagesOptions["retry"],
  hasProviderEffects: boolean,
) {
  const chosen = afterSideEffects(retry);
  return chosen === "repeat" || (chosen === "tell" && !hasProviderEffects);
}

/** A turn with effects is repeated only if allowed; an attempt without tools always. */
export function mayActAgain({
  spec,
  priors,
  hasEffects,
  mayRepeatEffects,
}: Pick<FailedTurn, "spec" | "priors" | "hasEffects" | "mayRepeatEffects">): boolean {
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
  const { status, text } = responseOf(error);
  if (text.includes("AI_UnsupportedFunctionalityError")) return refusalIn(text);
  const isRefused = status !== undefined && status < 500 && !NOT_ABOUT_IT.has(status);
  return isRefused ? refusalIn(text) : undefined;
}

function refusalIn(text: string): ToolRefusal | undefined {
  return TOOL_CHOICE.test(text) ? "toolChoice" : TOOLS.test(text) ? "tools" : undefined;
}

/** What is known of a submission that was running when its object stopped. */
export type Evidence = {
  readonly isAnswered: boolean;
  /** Whether the whole reply is in the conversation, and no answer is needed. */
  readonly isReplied: boolean;
  readonly applied: Applied;
  readonly hasEffects: boolean;
  readonly isHostRecovering: boolean;
  /** Whether another attempt is allowed in spite of that. */
  readonly mayRepeatEffects: boolean;
  /** Attempts so far, without those that a reset of the platform ended; and the limit. */
  readonly attempts: number;
  readonly maxAttempts: number;
  /** Milliseconds since the object started, or since the host last reported progress. */
  readonly waitedMs: number;
};

export type Decision =
  /** The result is there: only the last write was missing. */
  | { readonly action: "complete" }
  /** The host recovers the turn and reports its end. */
  | { readonly action: "wait" }
  /** The host does not recover it: a new, counted attempt. */
  | { readonly action: "startOver" }
  | { readonly action: "fail"; readonly failure: Failure };

/** How long the ledger waits for a host that reports no progress. */
export const HOST_RECOVERY_LIMIT_MS = 10 * 60_000;

/** Attempts of one submission that resets of the platform may end without being counted. A turn that is always reset must end. */
export const MAX_FREE_RESETS = 20;

export function recover(evidence: Evidence): Decision {
  const { isAnswered, isReplied, applied, isHostRecovering, attempts, maxAttempts, waitedMs } =
    evidence;
  if (isAnswered || isReplied) return { action: "complete" };
  if (applied !== "none" && isHostRecovering && waitedMs < HOST_RECOVERY_LIMIT_MS) {
    return { action: "wait" };
  }
  if (evidence.hasEffects && !evidence.mayRepeatEffects) {
    return fail("its tools have had effects, so it is not run again");
  }
  if (attempts >= maxAttempts) return fail(`this was attempt ${attempts} of ${maxAttempts}`);
  return { action: "startOver" };
}

/** An attempt that has just given its answer. */
export type Answered = Pick<Evidence, "hasEffects" | "attempts" | "maxAttempts"> & {
  /** Whether its tokens are limited, so that another attempt might find none left. */
  readonly hasBudget: boolean;
};

/** Whether another attempt would certainly follow a crash and answer again: only then may the answer be held in memory. */
export function isAskedAgain({ hasEffects, hasBudget, attempts, maxAttempts }: Answered): boolean {
  return !hasEffects && !hasBudget && attempts < maxAttempts;
}

function fail(why: string): Decision {
  const message = `The turn was interrupted, and ${why}.`;
  return { action: "fail", failure: { name: "TurnInterruptedError", message } };
}

/** Why a turn that was to end with an answer has none. */
export type Unanswered = {
  /** It was refused, it is missing, or the arguments of its call are not JSON. */
  readonly answer: "invalid" | "missing" | "unreadable";
  /** The model's answer as text. */
  readonly given: string | undefined;
  /** The answer that does not match, as JSON. */
  readonly refused?: string | undefined;
  /** Whether the reply was cut off, so that another model may succeed. */
  readonly isCutOff?: boolean | undefined;
};

export type Applied = "none" | "partial" | "all";
