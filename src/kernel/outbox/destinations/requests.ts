/** Helpers for requests to other servers. */

import { withTimeout } from "../../../core/timeout.ts";

/** Characters of a response's body that an error keeps. */
const MAX_EXCERPT = 1_024;
/** The time limit for reading that body, after the status. */
const EXCERPT_MS = 1_000;

/** The beginning of a response's body on one line, or as much as arrives in time. The rest is never read. */
export async function excerptOf({ body }: Response): Promise<string> {
  if (body === null) return "";
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let text = "";
  const read = async () => {
    while (text.length < MAX_EXCERPT) {
      const { done, value } = await reader.read();
      if (done) return;
      text += decoder.decode(value, { stream: true });
    }
  };
  // A body that breaks off, hangs or is aborted changes nothing: the status decides.
  await withTimeout(read(), EXCERPT_MS).catch(() => {});
  void reader.cancel().catch(() => {});
  return text
    .slice(0, MAX_EXCERPT)
    .replace(/[\s\p{Cc}]+/gu, " ")
    .trim();
}
