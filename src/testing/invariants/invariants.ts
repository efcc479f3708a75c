/** Checks Perdure's guarantees in the rows of an idle object. Writes nothing and starts nothing. */

import { flag, hook, optionsOf, readOptions } from "../../core/option-schemas.ts";
import { inObject } from "../cloudflare-test.ts";
import { instancesOf } from "../crashable.ts";
import { InvalidScenarioError } from "../errors.ts";
import { conversationProblems, type SaidMessage } from "./conversation.ts";
import { ledgerProblems } from "./ledger.ts";
import { type Horizon, openWork } from "./open-work.ts";
import { alarmProblems, runProblems, waitProblems } from "./others.ts";
import { outboxProblems } from "./outbox.ts";
import { Rows } from "./rows.ts";

/** Exceptions that are expected in an object, and are no problem. */
export type InvariantOptions = {
  /**
   * Dead letters are expected.
   * @default false
   */
  readonly deadLetters?: boolean;
  /**
   * Open waits are expected, e.g. an undecided approval.
   * @default false
   */
  readonly openWaits?: boolean;
  /**
   * An alarm is expected, e.g. of the app's own schedule.
   * @default false
   */
  readonly alarm?: boolean;
  /**
   * Reads the messages of a thread in the object.
   * @default `threadMessages(thread)` of a DurableThink agent. In other objects no conversation is checked
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
 * that is not finished is a violation too. Modules that are not installed are skipped. Changes that were overwritten (two
 * ends, two delivery ids) are visible only in objects of {@link crashAtEveryWrite}.
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
  const { deadLetters, openWaits, alarm } = read;
  const taken = instancesOf(stub)?.taken;
  return inObject(stub, async (object, { storage }) => {
    const rows = new Rows(storage.sql, Date.now());
    const due = alarm ? null : await storage.getAlarm();
    const messages = async (thread: string) => threadOf(object, thread, options.messages);
    return [
      ...openWork(rows),
      ...ledgerProblems(rows),
      ...outboxProblems(rows, taken, deadLetters),
      ...runProblems(rows),
      ...(openWaits ? [] : waitProblems(rows)),
      ...alarmProblems(rows, due),
      ...(await conversationProblems(rows, messages)),
    ];
  });
}

/** The unfinished work of an object; see {@link openWork}. */
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
