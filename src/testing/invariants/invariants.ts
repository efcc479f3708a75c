/**
 * Everything that Perdure guarantees of an object at rest, checked in its rows.
 * Joins the rooms' own checks; it writes nothing, and starts no room.
 */

import { problemOfNames } from "../../core/options.ts";
import { inObject } from "../cloudflare-test.ts";
import { livesOf } from "../crashable.ts";
import { InvalidScenarioError } from "../errors.ts";
import { conversationProblems, type SaidMessage } from "./conversation.ts";
import { ledgerProblems } from "./ledger.ts";
import { type Horizon, openWork } from "./open-work.ts";
import { alarmProblems, runProblems, waitProblems } from "./others.ts";
import { outboxProblems } from "./outbox.ts";
import { Rows } from "./rows.ts";

/** What of an object is meant to be as it would otherwise be a problem. */
export type InvariantOptions = {
  /**
   * Dead letters are expected.
   * @default false
   */
  readonly deadLetters?: boolean;
  /**
   * Open waits are expected: an approval that nobody has decided.
   * @default false
   */
  readonly openWaits?: boolean;
  /**
   * An alarm is expected, e.g. of a schedule of the app's own.
   * @default false
   */
  readonly alarm?: boolean;
  /**
   * Reads the messages of a thread, in the object.
   * @default `threadMessages(thread)` of a DurableThink agent; of what has none, no conversation is checked
   */
  readonly messages?: (object: DurableObject, thread: string) => Promise<readonly SaidMessage[]>;
};

const NAMES = ["deadLetters", "openWaits", "alarm", "messages"];

/**
 * What is not as Perdure guarantees it, in words that begin with the number of the guarantee; empty when all is well.
 * For an object at rest: what is still under way is a problem, too. Rooms that are not installed are left out.
 * What was written and changed again since (two ends, two delivery ids) is seen in objects of {@link crashAtEveryWrite}.
 *
 * @throws InvalidScenarioError for an unknown option
 */
export async function invariantsOf(
  stub: DurableObjectStub,
  options: InvariantOptions = {},
): Promise<string[]> {
  const problem = problemOfNames("invariantsOf()", options, NAMES);
  if (problem) throw new InvalidScenarioError("invariantsOf()", problem.message);
  const { deadLetters = false, openWaits = false, alarm = false } = options;
  const taken = livesOf(stub)?.taken;
  return inObject(stub, async (object, { storage }) => {
    const rows = new Rows(storage.sql, Date.now());
    const due = alarm ? null : await storage.getAlarm();
    const read = async (thread: string) => threadOf(object, thread, options.messages);
    return [
      ...openWork(rows),
      ...ledgerProblems(rows),
      ...outboxProblems(rows, taken, deadLetters),
      ...runProblems(rows),
      ...(openWaits ? [] : waitProblems(rows)),
      ...alarmProblems(rows, due),
      ...(await conversationProblems(rows, read)),
    ];
  });
}

/** What is still to be done in an object; see {@link openWork}. */
export function openWorkOf(stub: DurableObjectStub, horizon?: Horizon): Promise<string[]> {
  return inObject(stub, (_, { storage }) => openWork(new Rows(storage.sql, Date.now()), horizon));
}

function threadOf(
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
