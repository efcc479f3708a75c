/** The feature for operators: the health report, actions with their audit log, lists, and traces. */

import { readOptions } from "../core/options/option-schemas.ts";
import type { Feature } from "../workflow/agent/kernel.ts";
import { listActions, operate } from "./actions/operate.ts";
import { Alerts } from "./alerts/alerts.ts";
import { type AlertOptions, OPERATIONS } from "./alerts/options.ts";
import {
  inspectWorkflow,
  listCosts,
  listThreadMessages,
  listThreads,
  listWorkflows,
} from "./listing.ts";
import { type OperatedAgent, operatedOf } from "./operated.ts";
import { healthReport } from "./report/report.ts";
import { traceSubmission } from "./trace/trace.ts";

/**
 * Lets operators see and repair an agent: `operator()`, `dashboard()`, `operatorMcp()` and `npx perdure` call its methods. It has no rows of its own until an operator acts.
 *
 * @param options.alerts sends a message when something is wrong for a time, and when that is over. @default none
 * @throws InvalidOptionError
 * @example
 * export class Support extends DurableThink<Env> {
 *   static override readonly features = [operations()];
 * }
 */
export function operations(
  options: { readonly alerts?: AlertOptions } = {},
): Feature<"operations", Operations> {
  const { alerts } = readOptions(OPERATIONS, options, "options of operations()");
  return {
    feature: "operations",
    install: (kernel) => {
      const operated = operatedOf(kernel);
      if (alerts) kernel.use(new Alerts(operated, alerts));
      return operationsOf(operated);
    },
  };
}

const VERBS = {
  ...{ healthReport, operate, listActions, listThreads, listThreadMessages, listWorkflows },
  ...{ inspectWorkflow, listCosts, traceSubmission },
};

type OfAgent<Verb> = Verb extends (agent: OperatedAgent, ...args: infer Args) => infer Result
  ? (...args: Args) => Result
  : never;

/** The verbs of operators, which the agent's class has as methods. */
export type Operations = { readonly [Name in keyof typeof VERBS]: OfAgent<(typeof VERBS)[Name]> };

function operationsOf(agent: OperatedAgent): Operations {
  const all = Object.entries<(agent: OperatedAgent, ...args: never[]) => unknown>(VERBS);
  const verbs = all.map(([name, verb]) => [name, verb.bind(undefined, agent)]);
  return Object.fromEntries(verbs) as Operations;
}
