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
  "test/think-agent-tools-again.test.ts": 52,
  "test/think-forged-events.test.ts": 44,
  "test/think-tools.test.ts": 42,
  "test/think-agent-tools.test.ts": 34,
  "test/think-reset.test.ts": 32,
  "test/think-prompt-lost.test.ts": 24,
  "test/think-crash.test.ts": 24,
  "test/think-codemode-crash.test.ts": 24,
  "test/think-prompt-all.test.ts": 22,
  "test/think-prompt-schemas.test.ts": 21,
  "test/think-crash-turns.test.ts": 19,
  "test/peers/peers.test.ts": 18,
  "test/think-workflow-start.test.ts": 16,
  "test/think-prompt-boundaries.test.ts": 16,
  "test/think-crash-prompts.test.ts": 16,
  "test/think-prompt.test.ts": 13,
  "test/think-codemode.test.ts": 13,
  "test/think-schedules.test.ts": 12,
  "test/think-crash-gates.test.ts": 12,
  "test/think-answers-asked.test.ts": 11,
  "test/think-edges.test.ts": 10,
  "test/think-ids.test.ts": 9,
  "test/think-flight.test.ts": 9,
  "test/think-answers.test.ts": 8,
  "test/think-approval.test.ts": 7,
  "test/think-approval-clients.test.ts": 7,
  "test/think-threads.test.ts": 6,
  "test/think-approval-crash.test.ts": 6,
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
