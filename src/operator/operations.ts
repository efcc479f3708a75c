/** The feature for operators: the health report, actions with their audit log, lists, and traces. */

import { readOptions } from "../core/options/option-schemas.ts";
import type { Feature } from "../kernel/index.ts";
import { listActions, operate } from "./actions/operate.ts";
import { Alerts } from "./alerts/alerts.ts";
import { type AlertOptions, OPERATIONS } from "./alerts/options.ts";
import { inspectWorkflow, listThreadMessages, listThreads, listWorkflows } from "./listing.ts";
import { type OperatedAgent, operatedOf } from "./operated.ts";
import type { Filters, OperateRequest, PageOptions } from "./protocol.ts";
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
      kernel.use(new Alerts(operated, alerts));
      return new Operations(operated);
    },
  };
}

/** The verbs of operators, which the agent's class has as methods. */
export class Operations {
  constructor(private readonly agent: OperatedAgent) {}

  healthReport() {
    return healthReport(this.agent);
  }

  operate(request: OperateRequest) {
    return operate(this.agent, request);
  }

  listActions(page?: PageOptions) {
    return listActions(this.agent, page);
  }

  listThreads(page?: PageOptions) {
    return listThreads(this.agent, page);
  }

  listThreadMessages(thread: string, page?: PageOptions) {
    return listThreadMessages(this.agent, thread, page);
  }

  listWorkflows(options?: Filters["workflows"] & PageOptions) {
    return listWorkflows(this.agent, options);
  }

  inspectWorkflow(workflowId: string) {
    return inspectWorkflow(this.agent, workflowId);
  }

  traceSubmission(submissionId: string) {
    return traceSubmission(this.agent, submissionId);
  }
}
