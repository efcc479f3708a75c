/** Starts a Workflow once, however often a handler is tried. */

import { invalidOption } from "../core/options/options.ts";

/**
 * Creates a Workflow instance, or returns the one that an earlier attempt has created: `create()` alone fails on the second
 * attempt.
 *
 * @param options.id the instance's id: `idempotencyKey` of a scheduled task's context, or `instanceIdFor(key)` of any key
 * @throws the error of `create()`, if there is no such instance; InvalidOptionError for what is no binding, or no id
 *
 * @example handler: ({ idempotencyKey, scheduledFor }) =>
 *   createOnce(this.env.DIGEST_WORKFLOW, { id: idempotencyKey, params: { scheduledFor } })
 */
export async function createOnce<Params>(
  workflow: Workflow<Params>,
  options: WorkflowInstanceCreateOptions<Params> & { readonly id: string },
): Promise<WorkflowInstance> {
  const expected = "a Workflow's binding of this Worker, e.g. env.DIGEST_WORKFLOW";
  if (typeof workflow?.create !== "function") throw invalidOption("workflow", workflow, expected);
  // Without an id, each attempt would create an instance.
  if (typeof options?.id !== "string") throw invalidOption("id", options?.id, "a string");
  try {
    return await workflow.create(options);
  } catch (error) {
    // Not decided by the error's message, which the platform may change.
    try {
      const instance = await workflow.get(options.id);
      await instance.status();
      return instance;
    } catch {
      throw error;
    }
  }
}
