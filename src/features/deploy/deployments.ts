/** The feature `deployments()`: which version an object runs with, and which one its workflows began with. */

import { LifecycleCapability } from "agents/lifecycle";
import * as z from "zod";
import { list, optionsOf, readOptions, text } from "../../core/options/option-schemas.ts";
import { invalidOption } from "../../core/options/options.ts";
import type { Page, PageOptions } from "../../engine/page.ts";
import { hasEnded } from "../../outbox/destinations/workflow-event.ts";
import type { Feature, Kernel } from "../../workflow/agent/kernel.ts";
import { isFresh } from "./fresh.ts";
import { historyOf } from "./history/history.ts";
import { type InstalledOperated, operatedDeployments } from "./operated/installed.ts";
import { DeployStore, type RunName } from "./store.ts";
import type {
  BegunRun,
  DeployedVersion,
  Need,
  OpenItem,
  RunStart,
  Version,
  WorkflowHistory,
} from "./types.ts";
import { lacks } from "./work/lacks.ts";
import { versionsOf } from "./work/versions.ts";
import { type ListWorkOptions, openWork } from "./work/work.ts";

export type DeploymentsOptions = {
  /**
   * The version of the app: up to 100 characters, or what makes one of `env`. A new one for each deploy that changes code.
   * @default the id of the Worker's version: a binding `CF_VERSION_METADATA`, in "version_metadata" of the Wrangler configuration
   */
  readonly version?: string | ((env: Cloudflare.Env) => string);
};

const VERSION = text({ maxLength: 100 });
const OPTIONS = optionsOf<DeploymentsOptions>()({
  version: z.union([VERSION, z.custom<(env: Cloudflare.Env) => string>(isFunction)]).optional(),
});
const BEGUN = z.object({
  workflowName: text(),
  workflowId: text(),
  version: VERSION,
  changes: list(VERSION, { max: 100 }),
});

/** Ended runs are kept for so long, because they can be restarted. */
const KEPT_MS = 30 * 86_400_000;

function isFunction(value: unknown): boolean {
  return typeof value === "function";
}

/**
 * Records which version of the app accepted what an agent has open, so that `npx perdure check`, `drain` and the report can say what
 * a deploy would strand. An object writes one row for each version that it starts with, and one for each run of a workflow
 * that `versions()` exports.
 *
 * @throws InvalidOptionError
 * @example
 * // In the Wrangler configuration: "version_metadata": { "binding": "CF_VERSION_METADATA" }
 * export class Support extends DurableThink<Env> {
 *   static override readonly features = [deployments(), operations()];
 * }
 */
export function deployments(options: DeploymentsOptions = {}): Feature<"deployments", Deployments> {
  const { version } = readOptions(OPTIONS, options, "options of deployments()");
  return {
    feature: "deployments",
    install(kernel) {
      const installed = new Deployments(kernel, versionIn(kernel.env, version));
      kernel.use(installed);
      return installed;
    },
  };
}

/** @throws InvalidOptionError */
function versionIn(env: object, version: DeploymentsOptions["version"]): string {
  const { CF_VERSION_METADATA: metadata } = env as { CF_VERSION_METADATA?: { id?: unknown } };
  const given: unknown =
    typeof version === "function" ? version(env as Cloudflare.Env) : (version ?? metadata?.id);
  if (given !== undefined) return readOptions(VERSION, given as string, "version of deployments()");
  const expected =
    'a version. Add "version_metadata": { "binding": "CF_VERSION_METADATA" } to the Wrangler configuration, or pass one';
  throw invalidOption("version", version, expected);
}

export class Deployments extends LifecycleCapability {
  readonly store: DeployStore;
  /** For `operations()`. @internal */
  readonly operated: InstalledOperated;

  constructor(
    private readonly kernel: Kernel,
    readonly version: string,
  ) {
    super("perdure.deployments");
    this.store = new DeployStore(kernel.storage);
    this.operated = operatedDeployments(kernel, this.store);
    for (const verb of ["begin", "continues", "list", "work", "lacks", "history"] as const)
      kernel.calls.set(`deployments.${verb}`, this[verb].bind(this));
  }

  override onStart(): void {
    this.store.migrate();
    this.store.started(this.version, this.kernel.clock.now());
  }

  /**
   * For the start of a run: what it begins with. One that has made steps already began before its class had a version.
   *
   * @throws InvalidOptionError, Error where the platform does not tell
   */
  async begin(begun: BegunRun): Promise<RunStart> {
    const read = readOptions(BEGUN, begun, "a run");
    await this.lifecycle.ready();
    const { workflowName: workflow, workflowId: instance, version, changes } = read;
    const run = { workflow, instance };
    const isNew = await isFresh(this.kernel.env, run);
    const start = isNew ? { version, changes } : { version: null, changes: [] };
    const now = this.kernel.clock.now();
    // An operator may have migrated an old run before it has started again.
    if (isNew || this.store.versionOfRun(run) === undefined)
      this.store.setRun(run, start.version, now);
    this.store.sweep((each, beganAt) => now - beganAt > KEPT_MS && this.#isOver(each, now));
    return start;
  }

  /** For each start of the engine: the version that continues a run. An operator may have migrated it. */
  async continues(workflow: string, instance: string): Promise<Version | undefined> {
    readOptions(VERSION, workflow, "workflow");
    readOptions(VERSION, instance, "workflowId");
    await this.lifecycle.ready();
    return this.store.versionOfRun({ workflow, instance });
  }

  /**
   * The versions that the object has started with, the latest first, each with its open work by kind.
   *
   * @param page.limit 1 to 1,000. @default 100
   * @throws InvalidFilterError
   */
  list(page: PageOptions = {}): Promise<Page<DeployedVersion>> {
    return versionsOf(this.kernel, this.store, page);
  }

  /**
   * What the agent has accepted and not ended, the oldest first, with what it needs of the code.
   *
   * @param options.limit 1 to 1,000. @default 100
   * @throws InvalidFilterError, what `getTools()` throws
   */
  work(options: ListWorkOptions = {}): Promise<Page<OpenItem>> {
    return openWork(this.kernel, this.store, options);
  }

  /**
   * Those needs of open work that this code does not have. Ask an object of the new code.
   *
   * @param needs at most 1,000
   * @throws InvalidOptionError, what `getTools()` and `getScheduledTasks()` throw
   */
  lacks(needs: readonly Need[]): Promise<Need[]> {
    return lacks(this.kernel, needs);
  }

  /**
   * What is known of a run that the agent tracks, or null: its steps as the platform has recorded them, and what they have asked
   * the agent. For `replayWorkflow()`. At most 1,000 steps of each and 4,000,000 characters; `isCut` says what is left out.
   *
   * @throws InvalidOptionError
   */
  async history(workflowId: string): Promise<WorkflowHistory | null> {
    return historyOf(this.kernel, readOptions(VERSION, workflowId, "workflowId"));
  }

  #isOver({ instance }: RunName, now: number): boolean {
    const tracked = this.kernel.agent.getWorkflow(instance);
    if (!tracked) return true;
    const { completedAt, updatedAt } = tracked;
    return hasEnded(tracked) && now - (completedAt ?? updatedAt).getTime() > KEPT_MS;
  }
}
