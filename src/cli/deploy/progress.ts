/** Notes on stderr how far long work has come. */

import { note } from "../context.ts";

const EVERY_MS = 5_000;

/** @returns call it after each part */
export function progressOf(what: string, total: number, everyMs = EVERY_MS): () => void {
  let done = 0;
  let notedAt = Date.now();
  return () => {
    done++;
    if (done === total || Date.now() - notedAt < everyMs) return;
    notedAt = Date.now();
    note(`${done} of ${total} ${what}...`);
  };
}
