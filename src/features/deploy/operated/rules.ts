/** What deploys can do to work. One function for each cause. */

import type * as operated from "../../../engine/operated/part.ts";
import { at, line, plural, verb } from "../../../engine/operated/text.ts";
import type { InterruptedSubmission } from "../../../submissions/store/open-work.ts";
import type { Version } from "../types.ts";
import type { Action, FINDINGS } from "./catalog.ts";

/** Attempts of one submission that deploys have ended, from which on it is a finding. */
export const MOST_DEPLOYS = 3;

/** A run that ended because its version is not in the code. */
export type LostRun = {
  readonly workflow: string;
  readonly workflowId: string;
  /** What it began with, or was migrated to. Undefined: nothing is recorded. */
  readonly version: Version | undefined;
  readonly endedAt: number;
  readonly error: string;
};

type DeployFacts = {
  readonly lost: readonly LostRun[];
  /** Open submissions with several attempts. */
  readonly interrupted: readonly InterruptedSubmission[];
  /** When the agent has started with another version. */
  readonly deploys: readonly number[];
};

type Fix =
  | Action
  | { readonly do: "restart-workflow"; readonly workflowId: string }
  | {
      readonly do: "restart-workflow";
      readonly filter: { readonly status: readonly string[]; readonly id: readonly string[] };
      readonly step: "start";
    };
type Finding = operated.Finding<keyof typeof FINDINGS, Fix>;
type Rule = operated.Rule<DeployFacts, Finding>;

const versionGone: Rule = ({ lost }, now) => {
  const groups = Map.groupBy(lost, ({ workflow, version }) => JSON.stringify([workflow, version]));
  return [...groups.values()].flatMap((runs): Finding[] => {
    const [first] = runs;
    if (!first) return [];
    const { workflow, workflowId, version, error } = first;
    const count = runs.length;
    const id = runs.map((run) => run.workflowId);
    const since = Math.min(...runs.map(({ endedAt }) => endedAt));
    const name = version === undefined || version === null ? "" : ` ${line(version)}`;
    const [it, them] = [verb(count, "it begins", "they begin"), verb(count, "it", "each of them")];
    return [
      {
        code: "version-gone",
        about: `${workflow}${name}`,
        severity: "error",
        title: `${plural(count, "run")} of ${line(workflow)} ended since ${at(since, now)}, because the code does not have ${verb(count, "its", "their")} version${name}.`,
        evidence: {
          ...{ count, since, lastError: error.slice(0, 500) },
          ids: id.slice(0, 10),
        },
        cause: "A deploy has removed the version from versions(), or a rollback came before it.",
        fix: {
          text: `Restart ${them}: ${it} with the newest version. To continue instead, add the version to versions(), or migrate to one that is there, and restart from the last step.`,
          action:
            count === 1
              ? { do: "restart-workflow", workflowId }
              : { do: "restart-workflow", filter: { status: ["errored"], id }, step: "start" },
        },
        link: { view: "workflows", id: workflowId },
      },
    ];
  });
};

const deploysInterrupt: Rule = ({ interrupted, deploys }, now) => {
  const found = interrupted.flatMap(({ id, interrupted: attempts }) => {
    // An attempt cannot survive the start of another version.
    const ended = attempts.filter(([from, to]) =>
      deploys.some((time) => time > from && time <= to),
    );
    return ended.length >= MOST_DEPLOYS
      ? { id, times: ended.length, since: ended[0]?.[0] ?? now }
      : [];
  });
  if (found.length === 0) return [];
  const count = found.length;
  const since = Math.min(...found.map((one) => one.since));
  const times = Math.max(...found.map((one) => one.times));
  return [
    {
      code: "deploys-interrupt",
      severity: "warning",
      title: `Deploys have interrupted ${plural(count, "open submission")} up to ${times} times since ${at(since, now)}.`,
      evidence: { count, since, ids: found.slice(0, 10).map(({ id }) => id) },
      cause:
        "Each deploy restarts the object, and its turns take longer than the time between deploys.",
      fix: {
        text: "Make their tools durable, split long turns, or set code_update_strategy to deferred.",
      },
      link: { view: "submissions", filter: "status:pending" },
    },
  ];
};

export const DEPLOY_RULES: readonly Rule[] = [versionGone, deploysInterrupt];
