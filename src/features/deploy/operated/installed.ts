/** What operators see and do of deployments: part of the feature, so that only apps with deployments() have it. */

import type { WorkflowInfo } from "agents/workflows";
import { readOptions, text } from "../../../core/options/option-schemas.ts";
import type { OnOne } from "../../../engine/operated/catalog.ts";
import {
  done,
  type Effect,
  failed,
  NOT_FOUND,
  UNCHANGED,
} from "../../../engine/operated/effect.ts";
import { type Health, healthOf } from "../../../engine/operated/part.ts";
import { interruptedSubmissions } from "../../../submissions/store/open-work.ts";
import type { Kernel } from "../../../workflow/agent/kernel.ts";
import type { DeployStore } from "../store.ts";
import type { ACTIONS } from "./catalog.ts";
import { DEPLOY_RULES, type LostRun, MOST_DEPLOYS } from "./rules.ts";

/** Open submissions with several attempts that one report reads. */
const MOST_READ = 1_000;
/** Failed workflows that one report reads, which is the most that the SDK returns at once. */
const MOST_FAILED = 100;
/** Operators have seen older ones, and have not restarted them. */
const WINDOW_MS = 24 * 3_600_000;

const VERSION = text({ maxLength: 100 });
const NO_VERSION =
  "The run has no version: versions() does not export its class, or it has not begun. Export the class by versions().";

const IS_UNKNOWN_VERSION = /\bUnknownVersionError\b/;

type Recorded = Pick<DeployStore, "deployments" | "versionOfRun" | "setRun">;
type Migrate = OnOne<typeof ACTIONS>;

/** What the feature installs for operators. */
export type InstalledOperated = {
  health(now: number): Promise<Health<ReturnType<(typeof DEPLOY_RULES)[number]>[number]>>;
  /** What the migration of a run would do now. */
  look(action: Migrate): Promise<Effect>;
  act(action: Migrate): Promise<boolean>;
};

export function operatedDeployments(
  {
    agent,
    storage,
    submissions,
    clock,
  }: Pick<Kernel, "agent" | "storage" | "submissions" | "clock">,
  store: Recorded,
): InstalledOperated {
  return {
    async health(now) {
      await submissions.ready();
      const { workflows } = agent.getWorkflows({ status: "errored", limit: MOST_FAILED });
      const facts = {
        lost: workflows.flatMap((run) => lostRun(run, store, now)),
        interrupted: interruptedSubmissions(storage.sql, MOST_DEPLOYS, MOST_READ),
        deploys: store.deployments().map(({ since }) => since),
      };
      return healthOf(facts, DEPLOY_RULES, { counts: {}, judges: [] }, now);
    },
    async look({ workflowId, version }) {
      await submissions.ready();
      const run = agent.getWorkflow(workflowId);
      if (!run) return NOT_FOUND;
      const of = { workflow: run.workflowName, instance: workflowId };
      const recorded = store.versionOfRun(of);
      readOptions(VERSION, version, "version");
      if (recorded === undefined) return failed(workflowId, new Error(NO_VERSION));
      return recorded === version ? UNCHANGED : done();
    },
    async act({ workflowId, version }) {
      const run = agent.getWorkflow(workflowId);
      if (!run) return false;
      store.setRun({ workflow: run.workflowName, instance: workflowId }, version, clock.now());
      return true;
    },
  };
}

function lostRun(
  { workflowName: workflow, workflowId, error, completedAt, updatedAt }: WorkflowInfo,
  store: Recorded,
  now: number,
): LostRun[] {
  const endedAt = (completedAt ?? updatedAt).getTime();
  const text = `${error?.name ?? ""}: ${error?.message ?? ""}`;
  if (!IS_UNKNOWN_VERSION.test(text) || now - endedAt >= WINDOW_MS) return [];
  const version = store.versionOfRun({ workflow, instance: workflowId });
  return [{ workflow, workflowId, version, endedAt, error: error?.message ?? "" }];
}
