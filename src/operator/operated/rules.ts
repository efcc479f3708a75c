/** What can be wrong with workflows that the agent tracks. One function for each cause. */

import type { WorkflowInfo } from "agents/workflows";
import type * as operated from "../../core/operated/part.ts";
import { at, line, plural, verb } from "../../core/operated/text.ts";
import { hasEnded } from "../../kernel/outbox/internal.ts";
import type { Action, FINDINGS } from "./catalog.ts";

/** Operators have seen older ones, and have not restarted them. */
const WINDOW_MS = 24 * 3_600_000;

type WorkflowFacts = {
  /** The newest of all, and the newest that failed. */
  readonly newest: readonly WorkflowInfo[];
  readonly errored: readonly WorkflowInfo[];
  readonly env: object;
};

type Finding = operated.Finding<keyof typeof FINDINGS, Action>;
type Rule = operated.Rule<WorkflowFacts, Finding>;

const endOf = ({ completedAt, updatedAt }: WorkflowInfo) => (completedAt ?? updatedAt).getTime();

const workflowFailed: Rule = ({ errored }, now) => {
  const recent = errored.filter((one) => now - endOf(one) < WINDOW_MS);
  const groups = Map.groupBy(recent, ({ workflowName, error }) =>
    JSON.stringify([workflowName, error?.name]),
  );
  return [...groups.values()].flatMap((failed): Finding[] => {
    const [first] = failed;
    if (!first) return [];
    const { workflowName, workflowId, error } = first;
    const count = failed.length;
    const since = Math.min(...failed.map(endOf));
    const message = error?.message ?? "";
    const name = error?.name ? { error: error.name } : {};
    const ofGroup = { status: ["errored"], workflow: workflowName, ...name, since };
    return [
      {
        code: "workflow-failed",
        about: `${workflowName} ${error?.name}`,
        severity: "error",
        title: `${plural(count, "instance")} of ${workflowName} failed since ${at(since, now)} with ${line(error?.name ?? "an error")}.`,
        evidence: {
          count,
          since,
          ids: failed.slice(0, 10).map((one) => one.workflowId),
          ...(message && { lastError: message.slice(0, 500) }),
        },
        cause: message ? `The latest error is: ${line(message)}` : "Its error is not known.",
        fix: {
          text: `First correct what the error names, then restart ${verb(count, "it", "them")} from the step that failed.`,
          action:
            count === 1
              ? { do: "restart-workflow", workflowId, step: "failed" }
              : { do: "restart-workflow", filter: ofGroup },
        },
        link: { view: "workflows", id: workflowId },
      },
    ];
  });
};

const workflowMissing: Rule = ({ newest, env }, now) => {
  const lost = newest.filter((one) => !hasEnded(one) && !Reflect.get(env, one.workflowName));
  return [...Map.groupBy(lost, ({ workflowName }) => workflowName)].map(([name, some]): Finding => {
    const count = some.length;
    const since = Math.min(...some.map(({ createdAt }) => createdAt.getTime()));
    return {
      code: "workflow-missing",
      about: name,
      severity: "error",
      title: `${plural(count, "instance")} of ${name}, started since ${at(since, now)}, cannot be reached: this Worker has no such Workflow binding.`,
      evidence: { count, since, ids: some.slice(0, 10).map(({ workflowId }) => workflowId) },
      cause: "The binding was renamed or removed in the Wrangler configuration.",
      fix: {
        text: `Add the binding ${name} to "workflows" in the Wrangler configuration and deploy.`,
      },
      link: { view: "workflows", filter: `workflow:${name}` },
    };
  });
};

export const WORKFLOW_RULES: readonly Rule[] = [workflowFailed, workflowMissing];
