/** The verbs that a delivery calls in one transaction with its log. The app's class may override them: then they are ordinary methods. */

import type { UIMessage } from "ai";
import type { TransactionalVerb } from "../inbound/index.ts";
import type {
  Submissions,
  SubmitMessagesOptions,
  SubmitMessagesResult,
} from "../submissions/index.ts";
import { resultOf, take } from "../submissions/intake/intake.ts";
import { internalOptions } from "../submissions/intake/output.ts";
import { checkMany, checkPublic, ofItem } from "../submissions/intake/request.ts";
import type { RunWorkflow, Workflows } from "./workflows.ts";

type Item = { messages: UIMessage[]; options?: SubmitMessagesOptions };
type Of = {
  readonly submissions: Submissions;
  readonly workflows: Workflows;
  readonly storage: DurableObjectStorage;
};

/**
 * The verbs by their names, without those that the app overrides. Their arguments come from a handler and can be anything.
 *
 * @param isBuiltIn whether the app does not override a verb
 */
export function deliveryVerbs(
  { submissions, workflows, storage }: Of,
  isBuiltIn: (verb: string) => boolean,
): Readonly<Record<string, TransactionalVerb>> {
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

/** Names of methods of a class, as they were when it was constructed first: agents replace all of them by wrappers then. */
const methodNames = new WeakMap<object, ReadonlySet<string>>();

/**
 * Those verbs that no class between an agent's class and its host overrides. Call it before each construction.
 *
 * @param agent the class that is constructed
 * @param host the class of Perdure that it extends
 */
export function notOverridden(agent: object, host: object): (verb: string) => boolean {
  const names: ReadonlySet<string>[] = [];
  for (let at: object | null = agent; at !== null && at !== host; at = Object.getPrototypeOf(at)) {
    const { prototype } = at as { readonly prototype: object };
    const known = methodNames.get(at) ?? new Set(Object.getOwnPropertyNames(prototype));
    methodNames.set(at, known);
    names.push(known);
  }
  return (verb) => !names.some((known) => known.has(verb));
}

/**
 * Whether the app has a hook of its own, in a class or as a field of the agent. A comparison with the host's method does not
 * show it: agents replace inherited methods by wrappers.
 *
 * @param isBuiltIn what {@link notOverridden} has returned
 */
export function hooksOf(
  agent: object,
  isBuiltIn: (name: string) => boolean,
): (name: string) => boolean {
  return (name) => !isBuiltIn(name) || Object.hasOwn(agent, name);
}
