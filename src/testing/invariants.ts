/** Checks Perdure's guarantees on an idle object, by its public verbs and by what receivers outside of it have accepted. */

import { flag, hook, optionsOf, readOptions } from "../core/options/option-schemas.ts";
import { inObject } from "./cloudflare-test.ts";
import { conversationProblems, type SaidMessage } from "./conversation.ts";
import { instancesOf } from "./crashable.ts";
import { InvalidScenarioError } from "./errors.ts";
import { readWork } from "./inspection/inspect-work.ts";
import { isoTime, type WorkInspection } from "./inspection/open-work.ts";

/** Exceptions that are expected in an object, and are no problem. */
export type InvariantOptions = {
  /**
   * Dead letters are expected.
   * @default false
   */
  readonly deadLetters?: boolean;
  /**
   * Undecided approvals are expected.
   * @default false
   */
  readonly openWaits?: boolean;
  /**
   * An alarm is expected, e.g. of the app's own schedule, or of a step that waits for a webhook.
   * @default false
   */
  readonly alarm?: boolean;
  /**
   * Reads the messages of a thread in the object.
   * @default `threadMessages(thread)` of a host. In other objects no conversation is checked
   */
  readonly messages?: (object: DurableObject, thread: string) => Promise<readonly SaidMessage[]>;
};

const OPTIONS = optionsOf<InvariantOptions>()({
  deadLetters: flag().default(false),
  openWaits: flag().default(false),
  alarm: flag().default(false),
  messages: hook().optional(),
});

/**
 * Returns the violations of Perdure's guarantees in an idle object: lines that begin with the number of the guarantee. Work
 * that is not finished is a violation too. Reads by the public verbs, see {@link inspectWork}, so it starts the object.
 * Changes in time (an end that changes, a delivery that disappears) are visible only in objects of {@link crashAtEveryWrite}.
 *
 * @throws InvalidScenarioError for an invalid option
 */
export async function invariantsOf(
  stub: DurableObjectStub,
  options: InvariantOptions = {},
): Promise<string[]> {
  const refuse = (_: string, message: string) =>
    new InvalidScenarioError("invariantsOf()", message);
  const read = readOptions(OPTIONS, options, "options of invariantsOf()", refuse);
  const observer = instancesOf(stub)?.observer;
  return inObject(stub, async (object, { storage }) => {
    // Before a verb starts the object, which may set a wake ahead.
    const alarm = read.alarm ? null : await storage.getAlarm();
    const work = await readWork(object, storage);
    observer?.inspected(work);
    const messages = async (thread: string) => readThread(object, thread, options.messages);
    return [
      ...work.open,
      ...(observer?.problems ?? []),
      ...outputProblems(work),
      ...(read.deadLetters ? [] : deadLetterProblems(work)),
      ...(read.deadLetters ? [] : (observer?.lost(work) ?? []).map(describeLost)),
      ...runProblems(work),
      ...(read.openWaits ? [] : approvalProblems(work)),
      ...alarmProblems(work, alarm),
      ...(await conversationProblems(work, messages)),
    ];
  });
}

/** L7: each completed submission has an output. */
function outputProblems({ submissions }: WorkInspection): string[] {
  return submissions
    .filter(({ status, output }) => status === "completed" && output === undefined)
    .map(({ submissionId }) => `L7 ${submissionId} completed and has no output`);
}

function deadLetterProblems({ deliveries }: WorkInspection): string[] {
  return deliveries.flatMap((delivery) =>
    delivery.state === "dead"
      ? [`O3 delivery ${delivery.id} is a dead letter: ${delivery.lastError}`]
      : [],
  );
}

function describeLost(id: string): string {
  return `O2 delivery ${id} left the outbox, and no destination accepted it`;
}

/** S1: each occurrence has one run. Any number of triggers can share a time. */
function runProblems({ runs }: WorkInspection): string[] {
  const counts = new Map<string, number>();
  for (const { taskId, scheduledFor, cause } of runs) {
    if (cause === "trigger") continue;
    const occurrence = `${isoTime(scheduledFor)} of ${taskId}`;
    counts.set(occurrence, (counts.get(occurrence) ?? 0) + 1);
  }
  return [...counts]
    .filter(([, count]) => count > 1)
    .map(([occurrence, count]) => `S1 the occurrence ${occurrence} has ${count} runs`);
}

function approvalProblems({ approvals }: WorkInspection): string[] {
  return approvals
    .filter(({ status }) => status === "pending")
    .map(({ approvalId }) => `W2 the approval ${approvalId} is open`);
}

/** A wake that is no longer needed may fire instead of being removed. This is longer than any module arms ahead without work. */
const LAPSE_MS = 35_000;

/** O5: an idle object has no alarm. */
function alarmProblems(work: WorkInspection, alarm: number | null): string[] {
  if (alarm === null || alarm <= Date.now() + LAPSE_MS) return [];
  const hasPlans =
    work.submissions.some(({ status }) => status === "pending" || status === "running") ||
    work.tasks.some(({ next }) => next !== null) ||
    work.runs.some(({ endedAt }) => endedAt === undefined) ||
    work.approvals.some(({ status }) => status === "pending") ||
    work.endpoints.some(({ state }) => state === "failing");
  return hasPlans ? [] : [`O5 the object is idle, and an alarm is set for ${isoTime(alarm)}`];
}

function readThread(
  object: DurableObject,
  thread: string,
  messages: InvariantOptions["messages"],
): Promise<readonly SaidMessage[] | undefined> {
  if (messages) return messages(object, thread);
  const { threadMessages } = object as {
    threadMessages?: (thread: string) => Promise<readonly SaidMessage[]>;
  };
  return threadMessages ? threadMessages.call(object, thread) : Promise.resolve(undefined);
}
