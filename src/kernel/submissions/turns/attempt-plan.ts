/**
 * Plans an attempt: how the answer is asked for, of which model, and what the model sees of earlier attempts. Pure: computed from
 * the submission and its failed attempts, so that a restart plans the same.
 */

import type { AnswerSpec } from "../types.ts";

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
export function failuresOfModels(priors: readonly PriorAttempt[]): number {
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
