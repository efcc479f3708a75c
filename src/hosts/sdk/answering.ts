/** Takes the answers of one attempt: the first that matches the schema is recorded, and the problem of a refused one is kept. */

import type { StepResult, ToolSet } from "ai";
import { type Failure, failureOf } from "../../core/failures.ts";
import { isTooDeep, MAX_DEPTH, stableJson } from "../../core/json.ts";
import { mismatchesOf } from "../../core/schema/json-schema.ts";
import { AnswerTooLargeError } from "../../submissions/errors.ts";
import { type AnswerState, isFinalAnswer } from "../../submissions/host.ts";
import type { AttemptPlan } from "../../submissions/turns/next-attempt.ts";
import { jsonIn } from "./answer-json.ts";
import { IncompleteReplyError, isCutOff } from "./attempt-model.ts";
import { readings } from "./final-answer.ts";

export class Answering implements AnswerState {
  problem: Failure | undefined;
  isUnreadable = false;
  isCutOff = false;
  given: string | undefined;
  refused: string | undefined;
  /** Why no answer of the step is taken. */
  #dispute: Failure | undefined;

  constructor(
    private readonly plan: AttemptPlan,
    /** Returns whether the answer was recorded now, and throws when it is too large. */
    private readonly record: (answer: unknown) => boolean,
    /** Whether an earlier run of the attempt has recorded one. */
    public isAnswered = false,
  ) {}

  get missing(): Failure | undefined {
    return this.plan.how === "text" ? SILENT : undefined;
  }

  /** The arguments of all calls of the tool in a step, before they run. */
  called(inputs: readonly unknown[]): void {
    const answers = inputs.map((one) => this.#reading(one));
    const valid = answers.filter((one) => !isTooDeep(one) && !this.#problemOf(one));
    const isDisputed = new Set(valid.map(stableJson)).size > 1;
    this.#dispute = isDisputed
      ? invalid(`was given ${valid.length} times, ${DIFFERENT}`)
      : undefined;
    if (isDisputed) this.given = valid.map(asText).join("\n\n");
  }

  /** Takes the arguments of a call. Returns what the model is told: after a problem it may give a better one. */
  take(input: unknown): string {
    if (this.isAnswered) return "The final answer was recorded before; it stands.";
    try {
      if (this.#dispute) this.problem = this.#dispute;
      else this.#take(this.#reading(input));
    } catch (error) {
      // The AI SDK would swallow it.
      this.problem = failureOf(error);
    }
    return this.problem?.message ?? "Final answer recorded.";
  }

  /** The first reading that matches the schema. */
  #reading(input: unknown): unknown {
    const all = readings(input, this.plan.schema ?? {});
    return all.find((one) => !isTooDeep(one) && !this.#problemOf(one)) ?? all[0];
  }

  /** A step has ended. The AI SDK does not run a call whose arguments it cannot read. */
  stepped(calls: StepResult<ToolSet>["toolCalls"]): void {
    const unread = calls.find(({ toolName, invalid }) => invalid && isFinalAnswer(toolName));
    if (!unread || this.isAnswered || this.problem) return;
    this.isUnreadable = true;
    this.problem = invalid("is to be JSON, and the arguments of its call cannot be read as such.");
    this.given = asText(unread.input);
  }

  /**
   * The turn has ended with this text. It is the answer if the plan asks for a text.
   * @param finishReason why the last call of the model ended; undefined when it is not known
   * @throws what storage throws: then it is unknown whether the answer is recorded
   */
  conclude(text: string, finishReason?: string): void {
    if (this.isAnswered) return;
    if (!isCutOff(finishReason)) {
      this.#takeText(text);
      return;
    }
    // The first half of an answer can look like a whole one.
    const { name, message } = new IncompleteReplyError(finishReason);
    const { problem } = this;
    this.isCutOff = true;
    this.problem = problem
      ? { ...problem, message: `${problem.message} ${message}` }
      : { name, message };
    if (text.trim() !== "") this.given ??= text;
  }

  #takeText(text: string): void {
    const { how, takesText } = this.plan;
    if (how === "json") {
      const found = jsonIn(text);
      if (found) this.#take(found.value);
      else this.problem = invalid(NO_JSON);
      if (this.problem) this.given = text;
    } else if (text.trim() === "") return;
    else if (how === "text") this.#take(text);
    else if (takesText && !this.problem) {
      // A call was asked for. A text that is a valid answer is taken; any other text is not a problem of its own.
      const found = jsonIn(text);
      if (found && !this.#problemOf(found.value)) this.#take(found.value);
      if (!this.isAnswered) this.given = text;
    }
  }

  #take(answer: unknown): void {
    if (isTooDeep(answer)) {
      this.problem = invalid(`is nested more than ${MAX_DEPTH} levels deep. Give a flatter one.`);
      return;
    }
    this.problem = this.#problemOf(answer);
    try {
      if (!this.problem) this.isAnswered = this.record(answer);
    } catch (error) {
      if (!(error instanceof AnswerTooLargeError)) throw error;
      this.problem = failureOf(error);
    }
    if (!this.problem) return;
    this.given = asText(answer);
    this.refused = JSON.stringify(answer);
  }

  /** Why an answer does not match its schema, or undefined if it does. */
  #problemOf(answer: unknown): Failure | undefined {
    const { check } = this.plan;
    const issues = check ? mismatchesOf("answer", answer, check) : [];
    return issues.length === 0
      ? undefined
      : invalid(`does not match the schema: ${issues.join("; ")}`);
  }
}

function asText(answer: unknown): string | undefined {
  return typeof answer === "string" ? answer : JSON.stringify(answer);
}

function invalid(what: string): Failure {
  const { message } = failureOf(new Error(`The model's final answer ${what}`));
  return { name: "InvalidAnswerError", message };
}

const DIFFERENT = "and with different arguments, so none of them was taken. Give it once.";

const NO_JSON =
  "is to be JSON: the whole reply, or its only fenced block, after any closed thoughts. It is neither, and may have been cut off.";

const SILENT: Failure = {
  name: "EmptyReplyError",
  message:
    "The turn ended without a text after its last tool call, and the text was to be the answer. " +
    "Ask for one in the prompt, or give the turn more steps (maxSteps).",
};
