/**
 * Deals test files to processes that run side by side, so that all of them end at about the same time. A file that is
 * not in the table counts as short; a new long one is worth a line.
 */
import { globSync } from "node:fs";
import path from "node:path";

const root = path.join(import.meta.dirname, "..");

/** What a file takes when nothing is known of it, in seconds. */
const SHORT = 2;

/** Seconds, as measured by `npm test`. */
const SECONDS: Readonly<Record<string, number>> = {
  "test/peers/peers.test.ts": 20,
  "test/think-prompt-schemas.test.ts": 29,
  "test/think-prompt-all.test.ts": 28,
  "test/think-answers.test.ts": 18,
  "test/think-answers-asked.test.ts": 18,
  "test/think-edges.test.ts": 17,
  "test/think-codemode-crash.test.ts": 17,
  "test/think-codemode.test.ts": 15,
  "test/think-agent-tools-again.test.ts": 55,
  "test/think-crash-prompts.test.ts": 30,
  "test/think-crash-gates.test.ts": 30,
  "test/think-crash.test.ts": 25,
  "test/think-crash-turns.test.ts": 22,
  "test/think-testing.test.ts": 10,
  "test/think-approval.test.ts": 11,
  "test/think-rollback.test.ts": 11,
  "test/think-threads.test.ts": 9,
  "test/think-schedules.test.ts": 7,
  "test/think-agent-tools.test.ts": 38,
  "test/think-prompt-boundaries.test.ts": 17,
  "test/think-prompt.test.ts": 11,
  "test/think-approval-crash.test.ts": 10,
};

const secondsOf = (file: string): number => SECONDS[file] ?? SHORT;

/** The longest first, each to whoever has the least. */
export function deal(files: readonly string[], hands: number): string[][] {
  const dealt = Array.from({ length: hands }, () => ({ seconds: 0, files: [] as string[] }));
  const longestFirst = files.toSorted((one, other) => secondsOf(other) - secondsOf(one));
  for (const file of longestFirst) {
    const hand = dealt.reduce((least, next) => (next.seconds < least.seconds ? next : least));
    hand.files.push(file);
    hand.seconds += secondsOf(file);
  }
  return dealt.map((hand) => hand.files);
}

/** The files that match. */
export function filesOf(patterns: readonly string[]): string[] {
  return globSync([...patterns], { cwd: root }).sort();
}
