/** Checks Perdure's guarantees in the rows of an idle object. Writes nothing and starts nothing. */

import { flag, hook, optionsOf, readOptions } from "../../core/options/option-schemas.ts";
import { inObject } from "../cloudflare-test.ts";
import { instancesOf } from "../crashable.ts";
import { InvalidScenarioError } from "../errors.ts";
import { conversationProblems, type SaidMessage } from "./conversation.ts";
import { ledgerProblems } from "./ledger.ts";
import { type Horizon, openWork } from "./open-work.ts";
import { outboxProblems } from "./outbox.ts";
import { isoTime, Rows } from "./rows.ts";

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
      ...rows.problems(
        "perdure_runs",
        `'S1 ' || task_id || ' has ' || count(*) || ' runs at ' || ${isoTime("occurrence")}`,
        "WHERE cause <> 'trigger' GROUP BY task_id, occurrence HAVING count(*) > 1",
      ),
      ...rows.problems(
        "perdure_waits",
        "'W2 the wait ' || wait_id || ' (' || kind || ') is open'",
        "WHERE settled_at IS NULL AND NOT ?",
        Number(openWaits),
      ),
      ...alarmProblems(rows, due),
      ...(await conversationProblems(rows, messages)),
    ];
  });
}

/** The unfinished work of an object; see {@link openWork}. */
export function openWorkOf(stub: DurableObjectStub, horizon?: Horizon): Promise<string[]> {
  return inObject(stub, (_, { storage }) => openWork(new Rows(storage.sql, Date.now()), horizon));
}

/** A wake that is no longer needed may fire instead of being removed. This is longer than any module arms ahead without work. */
const LAPSE_MS = 35_000;

/** Work for a later time. */
const PLANS = [
  ["perdure_submissions", "settled_at IS NULL OR rollback_state = 'pending'"],
  ["perdure_tasks", "next_at IS NOT NULL"],
  ["perdure_runs", "ended_at IS NULL"],
  ["perdure_waits", "done_at IS NULL"],
  ["perdure_endpoints", "held_until IS NOT NULL"],
] as const;

/** O5: an idle object has no alarm. */
function alarmProblems(rows: Rows, alarm: number | null): string[] {
  if (alarm === null || alarm <= rows.now + LAPSE_MS) return [];
  const hasPlans = PLANS.some(
    ([table, where]) => rows.of(table, `SELECT 1 FROM ${table} WHERE ${where} LIMIT 1`).length > 0,
  );
  const at = new Date(alarm).toISOString();
  return hasPlans ? [] : [`O5 the object is idle, and an alarm is set for ${at}`];
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
