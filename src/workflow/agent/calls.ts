/** How an agent takes calls of Perdure's other parts, and those of workflow steps. */

import * as z from "zod";
import { preview } from "../../core/json.ts";
import { count, list, readOptions, text } from "../../core/options/option-schemas.ts";
import type { Submissions } from "../../submissions/submissions.ts";
import { InvalidWaitError } from "../waits/errors.ts";
import type { StepCalls } from "../waits/protocol.ts";
import type { Waits } from "../waits/waits.ts";
import type { Features } from "./features.ts";
import type { HostAgent } from "./host-agent.ts";
import type { Workflows } from "./workflows.ts";

const REMEDY = "Deploy the agent, its workflows and its receivers with one version of Perdure.";

const TEXT = text({ empty: true });
const object = (shape: z.ZodRawShape = {}) => z.looseObject(shape, { error: "expected an object" });
const WAIT = object({ kind: TEXT, waitId: TEXT });
const REQUEST = object({
  ...{ kind: TEXT, idempotencyKey: TEXT, run: TEXT, request: object() },
  workflow: object({ name: TEXT, id: TEXT, stepName: TEXT }),
  timeoutMs: count({ min: 0 }),
  owner: object().optional(),
});

/** The arguments of each call of a step, which another version of a workflow may have sent. */
const ARGUMENTS: Readonly<Record<keyof StepCalls, Readonly<Record<string, z.ZodType>>>> = {
  openWait: { request: REQUEST },
  checkWait: { wait: WAIT },
  readWait: { wait: WAIT, part: count({ min: 0 }) },
  refuseWait: { kind: TEXT, waitIds: list(TEXT) },
  closeWait: { wait: WAIT, closing: object() },
  finishWorkflowRun: { workflowId: TEXT, failure: object().nullish() },
  ownerOfRun: { workflow: object({ name: TEXT, id: TEXT }) },
  agentPath: {},
};

/**
 * Makes a call of another part of Perdure.
 *
 * @param verb the verb of a capability that has this name
 * @throws FeatureNotInstalledError for a call of a feature that is not installed
 * @throws InvalidWaitError for arguments that no step sends, Error for an unknown call
 */
export async function callOf(
  {
    calls,
    features,
  }: {
    readonly calls: ReadonlyMap<string, (...args: never[]) => unknown>;
    readonly features: Features;
  },
  name: string,
  args: readonly unknown[],
  verb: ((...args: never[]) => unknown) | undefined,
): Promise<unknown> {
  const call = calls.get(name) ?? verb;
  if (!call) {
    const unknown = `The agent does not know the call ${preview(name)}. ${REMEDY}`;
    throw features.missing("calls", name) ?? new Error(unknown);
  }
  const schemas = Object.entries(ARGUMENTS[name as keyof StepCalls] ?? {});
  for (const [index, [argument, schema]] of schemas.entries()) {
    const invalid = (field: string, message: string) =>
      new InvalidWaitError(field, `${message} ${REMEDY}`);
    readOptions(schema, args[index], `${argument} of ${name}()`, invalid);
  }
  return call(...(args as never[]));
}

export function stepCalls({
  agent,
  waits,
  workflows,
  submissions,
}: {
  readonly agent: HostAgent;
  readonly waits: Waits;
  readonly workflows: Workflows;
  readonly submissions: Submissions;
}): StepCalls {
  return {
    openWait: (request) => waits.kind(request.kind).open(request),
    checkWait: (wait) => waits.kind(wait.kind).check(wait),
    readWait: (wait, part) => waits.kind(wait.kind).read(wait, part),
    refuseWait: (kind, waitIds) => waits.kind(kind).refuse(waitIds),
    closeWait: (wait, closing) => waits.kind(wait.kind).close(wait, closing),
    finishWorkflowRun: async (workflowId, failure) => {
      await submissions.ready();
      await workflows.ended(workflowId, failure);
    },
    ownerOfRun: (workflow) => workflows.ownerOf(workflow),
    agentPath: async () => [...agent.selfPath],
  };
}
