/** What a wait can hold. Looked at before anything is stored. */

import { checkBytes, HALF_CHARACTER, preview } from "../core/json.ts";
import { isWellFormedText } from "../core/text.ts";
import { InvalidWaitError } from "./errors.ts";
import type { Closing, WaitRequest } from "./types.ts";

/** Bytes of a request or of a result, as JSON: a row takes 2 MB. */
export const MOST_BYTES = 1_500_000;

/** @throws InvalidWaitError for what is too large, or would be another text in storage */
export function checkRequest({
  kind,
  request,
  idempotencyKey,
  run,
  workflow,
}: Pick<WaitRequest, "kind" | "request"> & Partial<WaitRequest>): void {
  const texts = { idempotencyKey, run, ...workflow };
  for (const [field, text] of Object.entries(texts)) {
    if (text === undefined || isWellFormedText(text)) continue;
    throw new InvalidWaitError(field, `${field} is ${preview(text)}, ${HALF_CHARACTER}`);
  }
  const refuse = (message: string) => new InvalidWaitError("request", message);
  const name = `request of a step of kind ${kind}`;
  checkBytes(name, JSON.stringify(request), { maxBytes: MOST_BYTES, refuse });
}

/** @throws InvalidWaitError for a result that is too large */
export function checkResult({ result }: Closing): void {
  const refuse = (message: string) => new InvalidWaitError("result", message);
  // JSON has no text for undefined, which is no result.
  checkBytes("result of a step", JSON.stringify(result) ?? "", { maxBytes: MOST_BYTES, refuse });
}
