/** What can be asked of an answer. Looks at the argument alone, and says what is wrong with it. */

import { shown } from "../core/json.ts";
import { checkNames, checkNumber, checkText } from "./checks.ts";
import { InvalidSubmissionError } from "./errors.ts";
import type { AnswerSpec, AnswerStrategy } from "./types.ts";

const NAMES = ["schema", "strategy", "repair", "models", "maxSteps"] as const;
const STRATEGIES: readonly AnswerStrategy[] = ["auto", "tool", "json"];
const MAX_REPAIRS = 10;
const MAX_STEPS = 1_000;
const MAX_MODELS = 10;

/**
 * @param prefix what the names of the options begin with
 * @throws InvalidSubmissionError naming the option, what it is and what it has to be
 */
export function checkAnswer(answer: AnswerSpec | undefined, prefix = "answer."): void {
  if (answer === undefined) return;
  checkNames("answer", answer, NAMES);
  const { schema, strategy, repair, models, maxSteps } = answer;
  if (schema !== undefined && (typeof schema !== "object" || !schema || Array.isArray(schema))) {
    refuse(
      `${prefix}schema`,
      schema,
      "a JSON Schema that is an object, or leave it out for a text",
    );
  }
  if (strategy !== undefined && !STRATEGIES.includes(strategy)) {
    refuse(`${prefix}strategy`, strategy, `one of ${STRATEGIES.join(", ")}, or leave it out`);
  }
  checkNumber(`${prefix}repair`, repair, 0, MAX_REPAIRS);
  checkNumber(`${prefix}maxSteps`, maxSteps, 1, MAX_STEPS);
  if (models === undefined) return;
  if (!Array.isArray(models) || models.length === 0 || models.length > MAX_MODELS) {
    refuse(
      `${prefix}models`,
      models,
      `a list of 1 to ${MAX_MODELS} ids of models, or leave it out`,
    );
  }
  for (const [index, model] of models.entries()) {
    if (model === undefined) refuse(`${prefix}models[${index}]`, model, "the id of a model");
    checkText(`${prefix}models[${index}]`, model);
  }
}

function refuse(field: string, value: unknown, expected: string): never {
  throw new InvalidSubmissionError(field, `${field} is ${shown(value)}; expected ${expected}.`);
}
