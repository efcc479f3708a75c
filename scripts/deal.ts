/**
 * Distributes test files to parallel processes, so that all end at about the same time. A file that is not in the table
 * counts as short. Add a line for a long one.
 */
import { globSync } from "node:fs";
import path from "node:path";

const root = path.join(import.meta.dirname, "..");

/** The default duration of a file, in seconds. */
const SHORT = 2;

/** Seconds, as measured by `npm test`. */
const SECONDS: Readonly<Record<string, number>> = {
  "test/workflow/steps/agent-tools-again.test.ts": 55,
  "test/hosts/think/turns/tools.test.ts": 48,
  "test/workflow/steps/forged-events.test.ts": 44,
  "test/workflow/steps/agent-tools.test.ts": 37,
  "test/hosts/think/schedules.test.ts": 36,
  "test/hosts/think/turns/reset.test.ts": 34,
  "test/submissions/turns/answers.test.ts": 30,
  "test/operator/actions/bulk.test.ts": 10,
  "test/outbox/crash.test.ts": 18,
  "test/submissions/crash.test.ts": 14,
  "test/workflow/prompt-answers.test.ts": 13,
  "test/waits/webhooks.test.ts": 12,
  "test/testing/crash.test.ts": 12,
  "test/submissions/turns/joining.test.ts": 11,
  "test/webhooks/email/email.test.ts": 10,
  "test/submissions/store/scale.test.ts": 8,
  "test/outbox/delivery/trouble.test.ts": 8,
  "test/waits/model.test.ts": 7,
  "test/submissions/options.test.ts": 7,
  "test/core/lost-alarms.test.ts": 7,
  "test/submissions/model.test.ts": 7,
  "test/waits/approvals.test.ts": 6,
  "test/submissions/submissions.test.ts": 6,
  "test/core/schema.test.ts": 6,
  "test/waits/crash.test.ts": 6,
  "test/hosts/think/turns/crash.test.ts": 24,
  "test/codemode/steps/crash.test.ts": 24,
  "test/workflow/steps/prompt-all.test.ts": 30,
  "test/workflow/steps/prompt-schemas.test.ts": 21,
  "test/hosts/think/turns/crash-turns.test.ts": 20,
  "test/peers/peers.test.ts": 18,
  "test/hosts/think/workflow-start.test.ts": 21,
  "test/workflow/steps/prompt-boundaries.test.ts": 40,
  "test/workflow/steps/crash-prompts.test.ts": 28,
  "test/workflow/steps/prompt.test.ts": 19,
  "test/codemode/steps/codemode.test.ts": 13,
  "test/workflow/steps/crash-waits.test.ts": 38,
  "test/hosts/think/turns/answers-asked.test.ts": 11,
  "test/hosts/think/turns/edges.test.ts": 10,
  "test/hosts/think/ids.test.ts": 9,
  "test/hosts/think/work-in-flight.test.ts": 9,
  "test/hosts/think/turns/answers.test.ts": 8,
  "test/workflow/steps/approval.test.ts": 7,
  "test/hosts/think/approval-clients.test.ts": 7,
  "test/hosts/think/turns/crash-tools.test.ts": 6,
  "test/hosts/think/turns/threads.test.ts": 6,
  "test/workflow/steps/approval-crash.test.ts": 6,
};

const secondsOf = (file: string): number => SECONDS[file] ?? SHORT;

/** Assigns the longest file first, each to the process with the least work. */
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
