/** What can be asked of an answer. Looks at the argument alone, and says what is wrong with it. */

import { preview } from "../../core/json.ts";
import { isPlainObject } from "../../core/options.ts";
import { InvalidSubmissionError } from "../errors.ts";
import type { AnswerSpec, AnswerStrategy } from "../types.ts";
import { checkNames, checkNumber, checkText } from "./checks.ts";

const NAMES = ["schema", "check", "strategy", "repair", "models", "maxSteps"] as const;
const STRATEGIES: readonly AnswerStrategy[] = ["auto", "tool", "json"];
const MAX_REPAIRS = 10;
const MAX_STEPS = 1_000;
const MAX_MODELS = 10;

/** @throws InvalidSubmissionError naming the option, what it is and what it has to be */
export function checkAnswer(answer: AnswerSpec | undefined): void {
  if (answer === undefined) return;
  checkNames("answer", answer, NAMES);
  const { schema, check, strategy, repair, models, maxSteps } = answer;
  for (const [option, given] of Object.entries({ output: schema, check })) {
    if (given === undefined || isPlainObject(given)) continue;
    refuse(option, given, "a JSON Schema that is an object, or leave it out for a text");
  }
  if (strategy !== undefined && !STRATEGIES.includes(strategy)) {
    refuse("strategy", strategy, `one of ${STRATEGIES.join(", ")}, or leave it out`);
  }
  checkNumber("repair", repair, 0, MAX_REPAIRS);
  checkNumber("maxSteps", maxSteps, 1, MAX_STEPS);
  if (models === undefined) return;
  if (!Array.isArray(models) || models.length === 0 || models.length > MAX_MODELS) {
    refuse("models", models, `a list of 1 to ${MAX_MODELS} ids of models, or leave it out`);
  }
  for (const [index, model] of models.entries()) {
    if (model === undefined) refuse(`models[${index}]`, model, "the id of a model");
    checkText(`models[${index}]`, model);
  }
}

/** Names the option as the caller of a step wrote it. */
function refuse(field: string, value: unknown, expected: string): never {
  throw new InvalidSubmissionError(field, `${field} is ${preview(value)}; expected ${expected}.`);
}
