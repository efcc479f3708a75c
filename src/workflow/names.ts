/**
 * Every name that a step gives away: step names, idempotency keys. Built here
 * only, within the platform's limits for any input, and different for any two
 * different steps.
 */

import { digest } from "../core/ids.ts";

/**
 * The longest step name that the platform takes.
 * https://developers.cloudflare.com/workflows/reference/limits/
 */
const MAX_STEP_NAME = 256;

/** Longer keys are made a digest; no shorter one looks like that, as it has more parts. */
const MAX_KEY = 512;

/** What makes a prompt the same prompt (W1). */
export type PromptIdentity = {
  readonly workflowName: string;
  readonly workflowId: string;
  readonly stepName: string;
  readonly key: string | undefined;
};

/** The idempotency key of a prompt: readable where it can be, and never that of another. */
export async function promptKey({
  workflowName,
  workflowId,
  stepName,
  key,
}: PromptIdentity): Promise<string> {
  const parts = [workflowName, workflowId, stepName].map(escaped);
  if (key !== undefined) parts.push(await digest(key));
  const readable = `think-workflow:${parts.join(":")}`;
  return readable.length <= MAX_KEY ? readable : `think-workflow:${await digest(readable)}`;
}

/**
 * The name of one of the platform steps that a prompt consists of. A step
 * name that is short and plain is kept as it is; any other, and any with a
 * key, gets a digest behind a `~`, which no plain one has.
 */
export async function promptStepName(
  { stepName, key }: Pick<PromptIdentity, "stepName" | "key">,
  part: "submit" | "wait" | "expire" | `answer-${number}`,
): Promise<string> {
  const plain = `${stepName}:${part}`;
  const isPlain = !stepName.includes("~") && stepName.isWellFormed();
  if (key === undefined && isPlain && plain.length <= MAX_STEP_NAME) return plain;
  const suffix = `~${await digest(JSON.stringify([stepName, key]))}:${part}`;
  const head = stepName.slice(0, MAX_STEP_NAME - suffix.length);
  // A cut through a character would leave half of it.
  return head.replace(/[\uD800-\uDBFF]$/, "").toWellFormed() + suffix;
}

/** Without a ":" that would look like the border to the next part, and for any text at all. */
function escaped(part: string): string {
  // JSON has a form for half of a surrogate pair, URIs have none.
  return encodeURIComponent(JSON.stringify(part).slice(1, -1));
}
