/** The verbs that a delivery calls in one transaction with its log. The app's class may override them: then they are ordinary methods. */

import type { UIMessage } from "ai";
import type { Kernel, RunWorkflow } from "../kernel/index.ts";
import type { SubmitMessagesOptions, SubmitMessagesResult } from "../kernel/submissions/index.ts";
import {
  checkMany,
  checkPublic,
  internalOptions,
  ofItem,
  resultOf,
  take,
} from "../kernel/submissions/internal.ts";
import type { TransactionalVerb } from "./acceptance.ts";

type Item = { messages: UIMessage[]; options?: SubmitMessagesOptions };
/**
 * The verbs by their names, without those that the app overrides. Their arguments come from a handler and can be anything.
 */
export function deliveryVerbs({
  submissions,
  workflows,
  storage,
  isBuiltIn,
}: Pick<Kernel, "submissions" | "workflows" | "storage" | "isBuiltIn">): Readonly<
  Record<string, TransactionalVerb>
> {
  const accept = (
    items: readonly Item[],
    commit: (results: SubmitMessagesResult[]) => void,
    of: <T>(index: number, work: () => T) => T,
  ) =>
    submissions.takeAll(() => {
      const { ledger, current } = submissions.engine;
      const taken = items.map(({ messages, options: given }, index) =>
        of(index, () => {
          const options = internalOptions(given);
          return { taken: take(ledger, messages, options, current), options };
        }),
      );
      commit(taken.map((item) => resultOf(item.taken)));
      return taken;
    });
  const submitMessages: TransactionalVerb = async (args, commit) => {
    const [messages, options] = args as [UIMessage[], SubmitMessagesOptions];
    const known = await submissions.acceptedElsewhere(messages, options);
    if (known) return commit(known);
    checkPublic(options);
    await accept(
      [{ messages, options }],
      ([result]) => commit(result),
      (_, work) => work(),
    );
  };
  const submitMany: TransactionalVerb = async (args, commit) => {
    const [items] = args as [Item[]];
    checkMany(items);
    const known = await Promise.all(
      items.map(({ messages, options = null }) => submissions.acceptedElsewhere(messages, options)),
    );
    const unknown = items.filter((_, index) => !known[index]);
    await accept(
      unknown,
      (accepted) => {
        const rest = [...accepted];
        commit(known.map((found) => found ?? rest.shift()));
      },
      (index, work) => ofItem("submitMany()", index, work),
    );
  };
  const runWorkflow: TransactionalVerb = async (args, commit) => {
    const [name, params, options] = args as [string, unknown, RunWorkflow];
    const { id, isDead, ended } = storage.transactionSync(() => {
      const start = workflows.put(name, params, options);
      if (start.error) throw start.error;
      if (!start.isDead) commit(start.id);
      return { ...start, ended: start.end() };
    });
    // It is sent again before it is recorded, so that a crash in between leaves it to the next delivery.
    if (isDead) return commit(await ended);
    // The start is stored, and the sender's time is short.
    ended.catch((error: unknown) => {
      console.error(`[perdure] workflow ${name} ${id}, which a delivery has started:`, error);
    });
  };
  const verbs = Object.entries({ submitMessages, submitMany, runWorkflow });
  return Object.fromEntries(verbs.filter(([name]) => isBuiltIn(name)));
}
