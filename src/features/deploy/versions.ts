/** `versions()`: one Workflow whose runs continue by the class that they began with. */

import { WorkflowEntrypoint, type WorkflowEvent, type WorkflowStep } from "cloudflare:workers";
import * as z from "zod";
import { failureOf } from "../../core/failures.ts";
import { preview } from "../../core/json.ts";
import { optionsOf, readOptions, text } from "../../core/options/option-schemas.ts";
import { invalidOption, isPlainObject } from "../../core/options/options.ts";
import { invalidStep, VERSIONS } from "../../core/steps.ts";
import { durably } from "../../workflow/step-call.ts";
import { CHANGES } from "../../workflow/version.ts";
import { UnknownVersionError } from "./errors.ts";
import { agentOf, repeated } from "./run-agent.ts";
import type { RunStart } from "./types.ts";

/** A class that extends `ThinkWorkflow` or `DurableWorkflow`. */
export type WorkflowClass = {
  new (ctx: ExecutionContext, env: never): { run(event: never, step: never): Promise<unknown> };
  /** As in `versions()`. */
  readonly version?: string;
  /** The changes within this version that `step.version()` asks for. A change is new for runs that begin after its deploy. */
  readonly changes?: readonly string[];
};

type ParamsOf<Class> = Class extends new (
  ...args: never[]
) => { run(event: Readonly<WorkflowEvent<infer Params>>, step: never): unknown }
  ? Params
  : never;

/** What `versions()` returns: the class that the Worker exports, and the Workflow's binding names. */
export type VersionedWorkflow<Params> = new (
  ctx: ExecutionContext,
  env: Cloudflare.Env,
) => WorkflowEntrypoint<Cloudflare.Env, Params> & {
  run(event: Readonly<WorkflowEvent<Params>>, step: WorkflowStep): Promise<unknown>;
};

const MOST_VERSIONS = 100;
const VERSION = text({ maxLength: 100 });
const OPTIONS = optionsOf<{ unversioned?: string }>()({ unversioned: VERSION.optional() });

/**
 * Makes the class that the Worker exports. New runs begin with the last version. A run continues by the class of the version that
 * it began with, also after deploys; `migrate-workflow` moves it to another one. One step of the platform for each run records
 * the version; the agent of the workflow installs `deployments()`.
 *
 * @param classes by their versions, the newest last. Versions that are whole numbers are in the order of the numbers
 * @param options.unversioned the version of runs that began before the class was exported by `versions()`. @default none: such
 *   runs end with an UnknownVersionError
 * @throws InvalidOptionError
 * @example
 * export class TicketWorkflow extends versions({ "7": TicketWorkflowV7, "8": TicketWorkflowV8 }) {}
 */
export function versions<const Classes extends Readonly<Record<string, WorkflowClass>>>(
  classes: Classes,
  options: { readonly unversioned?: Extract<keyof Classes, string> } = {},
): VersionedWorkflow<ParamsOf<Classes[keyof Classes]>> {
  const known = checkedClasses(classes);
  const names = [...known.keys()];
  const newest = names.at(-1) as string;
  const { unversioned = null } = readOptions(OPTIONS, options, "options of versions()");
  if (unversioned !== null && !known.has(unversioned))
    throw invalidOption("unversioned", unversioned, `one of ${names.join(", ")}`);
  const { changes = [] } = known.get(newest) as WorkflowClass;

  class Versioned extends WorkflowEntrypoint<Cloudflare.Env> {
    static readonly [VERSIONS] = [...known.values()];

    override async run(event: Readonly<WorkflowEvent<unknown>>, step: WorkflowStep) {
      const { ctx, env } = this;
      const { instanceId: workflowId } = event;
      const inAgent = agentOf(ctx, env, event);
      const begun = { workflowId, version: newest, changes };
      const begin = async () => ({
        ...(await inAgent((agent, workflowName) =>
          agent.callKernel("deployments.begin", { ...begun, workflowName }),
        )),
        deployedAs: event.workflowName,
      });
      const start = await durably(step, "perdure:version", begin);
      const kept = await repeated(() =>
        inAgent((agent, name) => agent.callKernel("deployments.continues", name, workflowId)),
      );
      const began = kept === undefined ? start.version : kept;
      const Chosen = known.get(began ?? unversioned ?? "");
      if (!Chosen) {
        const error = new UnknownVersionError(began, names);
        const ended = failureOf(error);
        await repeated(() =>
          inAgent((agent) => agent.callKernel("finishWorkflowRun", workflowId, ended)),
        );
        throw error;
      }
      Object.assign(step, { [CHANGES]: changesOf(Chosen, start) });
      return new Chosen(ctx, env as never).run(event as never, step as never);
    }
  }
  return Versioned as VersionedWorkflow<ParamsOf<Classes[keyof Classes]>>;
}

/** Answers `step.version()`. @throws InvalidVersionError */
function changesOf({ changes = [] }: WorkflowClass, start: RunStart) {
  return (change: string): boolean => {
    if (changes.includes(change)) return start.changes.includes(change);
    const expected = `expected one of static changes of the class: ${changes.join(", ") || "none"}`;
    throw invalidStep(
      "version",
      `step.version(): ${expected}; got ${preview(change)}. Add it there.`,
    );
  };
}

/** @throws InvalidOptionError */
function checkedClasses(classes: unknown): ReadonlyMap<string, WorkflowClass> {
  const entries = isPlainObject(classes) ? Object.entries(classes) : [];
  if (entries.length === 0 || entries.length > MOST_VERSIONS) {
    const expected = `an object with 1 to ${MOST_VERSIONS} versions and their classes, the newest last`;
    throw invalidOption("classes", classes, expected);
  }
  const numbers = entries.filter(([version]) => /^(0|[1-9]\d*)$/.test(version));
  if (numbers.length > 0 && numbers.length < entries.length) {
    const expected =
      "whole numbers only, or none: JavaScript puts numbers first, so the newest is not known";
    throw invalidOption("versions", Object.keys(classes as object), expected);
  }
  for (const [version, value] of entries) {
    readOptions(VERSION, version, "version");
    const {
      prototype,
      version: own,
      changes,
    } = Object(value) as Partial<WorkflowClass> & {
      prototype?: { run?: unknown };
    };
    if (typeof value !== "function" || typeof prototype?.run !== "function")
      throw invalidOption(version, value, "a class that extends ThinkWorkflow or DurableWorkflow");
    if (own !== undefined && own !== version)
      throw invalidOption(
        version,
        own,
        `the static version of its class to be ${preview(version)}`,
      );
    readOptions(z.array(VERSION).max(100).optional(), changes, `static changes of ${version}`);
  }
  return new Map(entries as [string, WorkflowClass][]);
}
