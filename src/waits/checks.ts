/** What a wait can hold. Looked at before anything is stored. */

import { byteLength, HALF_CHARACTER, preview } from "../core/json.ts";
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
  const bytes = byteLength(JSON.stringify(request));
  if (bytes <= MOST_BYTES) return;
  throw new InvalidWaitError(
    "request",
    `The request of a step of kind ${kind} is ${bytes} bytes, and at most ${MOST_BYTES} are taken. ` +
      "Keep the content elsewhere (R2, the agent's own tables) and pass a reference to it.",
  );
}

/** @throws InvalidWaitError for a result that is too large */
export function checkResult({ result }: Closing): void {
  const bytes = byteLength(JSON.stringify(result));
  if (bytes <= MOST_BYTES) return;
  throw new InvalidWaitError(
    "result",
    `The result of a step is ${bytes} bytes, and at most ${MOST_BYTES} are taken. ` +
      "Keep the content elsewhere (R2, the agent's own tables) and return a reference to it.",
  );
}
