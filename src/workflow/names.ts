/**
 * Step names, idempotency keys and event types. Within the platform's limits for any input, and different for any two
 * different steps.
 */

import { escapedKeyPart, headOf, type StepIdentity } from "../core/steps.ts";
import { digest } from "../core/text.ts";

/** Longer keys are made a digest; no shorter one looks like that, as it has more parts. */
const MAX_KEY = 512;

export type InstanceIdentity = StepIdentity & {
  readonly kind: string;
  readonly workflowName: string;
  readonly workflowId: string;
};

/** Names the platform's steps that a step consists of, by their parts, e.g. `submit`, `wait-2`. */
export type NameOf = (part: string) => string;

/** The idempotency key of a step: readable if it is short, and never that of another step. */
export function stepKey(identity: InstanceIdentity): string {
  const { kind, workflowName, workflowId, stepName, key } = identity;
  // The keys of prompts are Think's.
  const prefix = kind === "prompt" ? "think-workflow" : `perdure-${kind}`;
  const parts = [workflowName, workflowId, stepName].map(escapedKeyPart);
  if (key !== undefined) parts.push(digest(key));
  const readable = `${prefix}:${parts.join(":")}`;
  return readable.length <= MAX_KEY ? readable : `${prefix}:${digest(readable)}`;
}

/** The identity of a batch of prompts: its step, and the keys of all its items in their order. */
export type BatchIdentity = Omit<InstanceIdentity, "kind" | "key"> & {
  readonly keys: readonly string[];
};

/** The name of a batch on its agent, and among the names of its steps. */
export function batchId({ workflowName, workflowId, stepName, keys }: BatchIdentity) {
  return digest(JSON.stringify(["batch", workflowName, workflowId, stepName, keys]));
}

/** The idempotency keys of a batch's items, in their order; never that of another item or of a prompt. */
export function batchItemKeys(batch: BatchIdentity): string[] {
  const { workflowName, workflowId, stepName, keys } = batch;
  const readable = [workflowName, workflowId, stepName].map(escapedKeyPart).join(":");
  // Without a ":", a digest is never taken for three parts.
  const step = readable.length <= MAX_KEY ? readable : digest(readable);
  return keys.map((key) => `think-workflow-all:${step}:${digest(key)}`);
}

/** The batch of those items of a batch whose answers are repaired, the first time or a later one. */
export function repairBatchId(batch: string, round: number): string {
  return digest(JSON.stringify(["repair", batch, round]));
}

/** The event that ends the wait of one run of a workflow for a batch, and no other's. */
export function batchEventType(batch: string, run: string): string {
  return `perdure-prompts-${digest(JSON.stringify([batch, run]))}`;
}

/** The proof of that event: a digest of what only this run of the workflow and its agent know. */
export function batchProof(batch: string, run: string): string {
  return digest(JSON.stringify(["proof", batch, run]));
}

/** The name of one of the platform steps that a batch consists of: the start of the step's own, and the batch. */
export function batchStepName(stepName: string, batch: string, part: string): string {
  const suffix = `~${batch}:${part}`;
  return headOf(stepName, suffix) + suffix;
}
