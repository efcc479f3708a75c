/** The verbs that an arrival calls in one transaction with its log. The app's class may override them: then they are ordinary methods. */

import type { Kernel, RunWorkflow } from "../kernel/index.ts";
import type { SubmitItem } from "../kernel/submissions/internal.ts";
import type { TransactionalVerb } from "./acceptance.ts";

/**
 * The verbs by their names, without those that the app overrides. Their arguments come from a handler and can be anything.
 */
export function arrivalVerbs({
  submissions,
  workflows,
  storage,
  isBuiltIn,
}: Pick<Kernel, "submissions" | "workflows" | "storage" | "isBuiltIn">): Readonly<
  Record<string, TransactionalVerb>
> {
  const submitMessages: TransactionalVerb = async ([messages, options], commit) => {
    const item = { messages, options } as SubmitItem;
    await submissions.submitAll([item], { commit: ([result]) => commit(result) });
  };
  const submitMany: TransactionalVerb = async ([items], commit) => {
    await submissions.submitAll(items as SubmitItem[], { verb: "submitMany()", commit });
  };
  const runWorkflow: TransactionalVerb = async (args, commit) => {
    const [name, params, options] = args as [string, unknown, RunWorkflow];
    const { id, isDead, ended } = storage.transactionSync(() => {
      const start = workflows.put(name, params, options);
      if (start.error) throw start.error;
      if (!start.isDead) commit(start.id);
      return { ...start, ended: start.end() };
    });
    // It is sent again before it is recorded, so that a crash in between leaves it to the next arrival.
    if (isDead) return commit(await ended);
    // The start is stored, and the sender's time is short.
    ended.catch((error: unknown) => {
      console.error(`[perdure] workflow ${name} ${id}, which an arrival has started:`, error);
    });
  };
  const verbs = Object.entries({ submitMessages, submitMany, runWorkflow });
  return Object.fromEntries(verbs.filter(([name]) => isBuiltIn(name)));
}
