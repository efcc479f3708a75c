/** Steps of Workflows, which several modules have: their names, invalid options, and calls without an `await`. */

import { NonRetryableError } from "cloudflare:workflows";
import { HALF_CHARACTER, preview } from "./json.ts";
import { digest } from "./text.ts";

/** The identity of a step within its workflow. */
export type StepIdentity = {
  readonly kind: string;
  readonly stepName: string;
  readonly key: string | undefined;
};

/**
 * The longest step name that the platform takes.
 * https://developers.cloudflare.com/workflows/reference/limits/
 */
const MAX_STEP_NAME = 256;

/**
 * The name of one of the platform steps that a step consists of. A step name that is short and plain is kept as it is;
 * any other, and any with a key, gets a digest behind a `~`, which no plain one has. Two kinds of steps share none: the
 * kind is part of the name, but for a prompt, whose names are Think's.
 */
export function partName({ kind, stepName, key }: StepIdentity, part: string): string {
  const suffixed = kind === "prompt" ? part : `${kind}-${part}`;
  const plain = `${stepName}:${suffixed}`;
  const isPlain = !stepName.includes("~") && headOf(stepName, "") === stepName;
  if (key === undefined && isPlain && plain.length <= MAX_STEP_NAME) return plain;
  const suffix = `~${digest(JSON.stringify([stepName, key]))}:${suffixed}`;
  return headOf(stepName, suffix) + suffix;
}

/** The start of a step name that fits before its suffix, without the control characters that the platform refuses. */
export function headOf(stepName: string, suffix: string): string {
  const head = stepName.replace(/\p{Cc}/gu, "").slice(0, MAX_STEP_NAME - suffix.length);
  // A cut through a character would leave half of it.
  return head.replace(/[\uD800-\uDBFF]$/, "").toWellFormed();
}

/** With what the readable keys of all steps of one kind of an instance begin. Those of `promptAll()` have one of their own. */
export function keyPrefix(
  kind: string,
  { workflowName, workflowId }: { readonly workflowName: string; readonly workflowId: string },
): string {
  const prefix =
    { prompt: "think-workflow", batch: "think-workflow-all" }[kind as string] ?? `perdure-${kind}`;
  return `${prefix}:${escapedKeyPart(workflowName)}:${escapedKeyPart(workflowId)}:`;
}

/** Without a ":" that would look like the border to the next part, and for any text at all. */
export function escapedKeyPart(part: string): string {
  // JSON has a form for half of a surrogate pair, URIs have none.
  return encodeURIComponent(JSON.stringify(part).slice(1, -1));
}

/** @throws NonRetryableError for a name that no step can have */
export function checkedName(name: string): string {
  const isText = typeof name === "string" && name !== "";
  if (isText && name.isWellFormed()) return name;
  const problem = isText ? `, ${HALF_CHARACTER}` : "; expected a non-empty string.";
  throw new NonRetryableError(
    `A step got ${preview(name)} as its name${problem}`,
    "InvalidStepNameError",
  );
}

/**
 * The error of a call that no retry could make valid.
 *
 * @param kind the name of the step's function, e.g. `"prompt"`
 */
export function invalidStep(kind: string, message: string): NonRetryableError {
  return new NonRetryableError(
    message,
    `Invalid${kind.charAt(0).toUpperCase()}${kind.slice(1)}Error`,
  );
}

/** Where a step has the calls that nothing has awaited. A symbol: a proxy or a copy of the step has it, too. */
export const UNAWAITED: unique symbol = Symbol("perdure.unawaited");

/** What a step returns. `await` calls `then()` of a promise whose class is not Promise itself. */
class StepPromise<Result> extends Promise<Result> {
  calls?: Map<unknown, string> | undefined;

  // biome-ignore lint/suspicious/noThenProperty: it is the promise's own method.
  override then<A = Result, B = never>(
    onResult?: ((result: Result) => A | PromiseLike<A>) | null,
    onError?: ((reason: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    this.calls?.delete(this);
    return super.then(onResult, onError);
  }
}

/**
 * Makes a call of a step, and notes it until something awaits it or handles its error. A step that is not Perdure's has no
 * place for the note.
 *
 * @param call the call as it is shown, e.g. `step.prompt("triage")`
 */
export function noteCall<Result>(
  step: object,
  call: string,
  work: () => Promise<Result>,
): Promise<Result> {
  const promise = new StepPromise<Result>((resolve) => resolve(work()));
  promise.calls = (step as { [UNAWAITED]?: Map<unknown, string> })[UNAWAITED]?.set(promise, call);
  return promise;
}

/** Key of the classes that a class of `versions()` makes instances of, for a replay. Registered: a build has a copy of this module. */
export const VERSIONS: unique symbol = Symbol.for("perdure.versions");
