/** What can be wrong with workflows that the agent tracks. One function for each cause. */

import type { WorkflowInfo } from "agents/workflows";
import type * as operated from "../../engine/operated/part.ts";
import { at, earliestOf, line, plural, verb } from "../../engine/operated/text.ts";
import { hasEnded } from "../../outbox/destinations/workflow-event.ts";
import { TERMINATED_OUTSIDE } from "../workflows/instances.ts";
import type { OpenRun } from "../workflows/run-states.ts";
import type { Action, FINDINGS } from "./catalog.ts";

/** Operators have seen older ones, and have not restarted them. */
const WINDOW_MS = 24 * 3_600_000;

/** A pause that was forgotten. */
const LONG_PAUSE_MS = 7 * 86_400_000;

type WorkflowFacts = {
  /** The newest of all, and the newest that failed or were terminated. */
  readonly newest: readonly WorkflowInfo[];
  readonly ended: readonly WorkflowInfo[];
  /** Of the oldest open ones. */
  readonly open: readonly OpenRun[];
  readonly env: object;
};

type Finding = operated.Finding<keyof typeof FINDINGS, Action>;
type Rule = operated.Rule<WorkflowFacts, Finding>;

const endOf = ({ completedAt, updatedAt }: WorkflowInfo) => (completedAt ?? updatedAt).getTime();

const workflowFailed: Rule = ({ ended }, now) => {
  const recent = ended.filter((one) => one.status === "errored" && now - endOf(one) < WINDOW_MS);
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

type Named = Pick<OpenRun, "workflowName" | "workflowId" | "since">;

/** What a finding about runs of one Workflow has. */
type Found = Omit<Finding, "about" | "evidence" | "link"> & {
  readonly lastError?: string | undefined;
};

/** Findings by Workflow about runs in a state. */
function byWorkflow<Run extends Named>(
  runs: readonly Run[],
  find: (some: readonly Run[]) => Found,
) {
  return [...Map.groupBy(runs, ({ workflowName }) => workflowName)].map(([name, some]): Finding => {
    const ids = some.map(({ workflowId }) => workflowId);
    const { lastError, ...found } = find(some);
    return {
      ...found,
      about: name,
      evidence: {
        count: some.length,
        since: earliestOf(some),
        ids: ids.slice(0, 10),
        ...(lastError !== undefined && { lastError: lastError.slice(0, 500) }),
      },
      link: { view: "workflows", id: ids[0] ?? "" },
    };
  });
}

/** E.g. `2 instances of ORDERS`, and which of them an action changes. */
function named(runs: readonly Named[]) {
  const [first] = runs;
  return {
    what: `${plural(runs.length, "instance")} of ${first?.workflowName}`,
    ids: runs.map(({ workflowId }) => workflowId),
  };
}

const restartOf = (ids: readonly string[], status: readonly string[]): Action =>
  ids.length === 1
    ? { do: "restart-workflow", workflowId: ids[0] ?? "", step: "failed" }
    : { do: "restart-workflow", filter: { status, id: ids } };

const workflowStalled: Rule = ({ open }, now) =>
  byWorkflow(
    open.filter(({ state }) => state === "stalled"),
    (runs) => {
      const { what, ids } = named(runs);
      const count = runs.length;
      const step = runs[0]?.step;
      return {
        code: "workflow-stalled",
        severity: "error",
        title: `${what} ${verb(count, "stands", "stand")} still since ${at(earliestOf(runs), now)}${step === undefined ? "" : `, ${count === 1 ? "" : "one "}in the step ${JSON.stringify(line(step))}`}.`,
        lastError: runs[0]?.error,
        cause:
          "The engine of Workflows has not continued: the time of its step is over. The local engine does so after a kill.",
        fix: {
          text: `Restart ${verb(count, "it", "them")} from the step at which ${verb(count, "it stands", "each stands")}: the code of that step runs again.`,
          action: restartOf(ids, ["queued", "running", "waiting"]),
        },
      };
    },
  );

const stepRetried: Rule = ({ open }, now) =>
  byWorkflow(
    open.filter(({ state }) => state === "retried"),
    (runs) => {
      const { what } = named(runs);
      const [{ step = "", error = "" } = {}] = runs;
      return {
        code: "workflow-step-retried",
        severity: "warning",
        title: `${what} ${verb(runs.length, "retries", "retry")} a step since ${at(earliestOf(runs), now)}: ${JSON.stringify(line(step))} fails with ${line(error)}.`,
        lastError: error,
        cause: `The latest error is: ${line(error)}`,
        fix: {
          text: "Correct what the error names: the platform retries the step by itself. Terminate what is no longer needed.",
        },
      };
    },
  );

const workflowPaused: Rule = ({ open }, now) =>
  byWorkflow(
    open.filter(({ state, since }) => state === "paused" && now - since >= LONG_PAUSE_MS),
    (runs) => {
      const { what, ids } = named(runs);
      const count = runs.length;
      return {
        code: "workflow-paused",
        severity: "warning",
        title: `${what} ${verb(count, "is", "are")} paused since ${at(earliestOf(runs), now)}.`,
        cause:
          "An operator or the app has paused it, and it does not continue until it is resumed.",
        fix: {
          text: `Resume ${verb(count, "it", "them")}, or terminate what is no longer needed.`,
          action:
            count === 1
              ? { do: "resume-workflow", workflowId: ids[0] ?? "" }
              : { do: "resume-workflow", filter: { id: ids } },
        },
      };
    },
  );

const workflowTerminated: Rule = ({ ended }, now) =>
  byWorkflow(
    ended
      .filter((one) => one.error?.name === TERMINATED_OUTSIDE && now - endOf(one) < WINDOW_MS)
      .map((one) => ({ ...one, since: endOf(one) })),
    (runs) => {
      const { what, ids } = named(runs);
      const count = runs.length;
      return {
        code: "workflow-terminated",
        severity: "warning",
        title: `${what} ${verb(count, "was", "were")} terminated outside the agent, which saw it at ${at(earliestOf(runs), now)}.`,
        cause: "Somebody has ended it by the dashboard, Wrangler or the binding.",
        fix: {
          text: `Nothing after a termination on purpose. Otherwise restart ${verb(count, "it", "them")} from the step at which ${verb(count, "it", "each")} stopped.`,
          action: restartOf(ids, ["terminated"]),
        },
      };
    },
  );

export const WORKFLOW_RULES: readonly Rule[] = [
  workflowFailed,
  workflowMissing,
  workflowStalled,
  stepRetried,
  workflowPaused,
  workflowTerminated,
];
