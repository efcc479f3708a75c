/** A Workflow that a handler starts is started once, however often the handler is tried (S1). */

/**
 * Creates a Workflow instance, or finds the one that an earlier attempt has
 * created under this id: `create()` alone fails on the second attempt.
 *
 * @param options.id of the instance: `idempotencyKey` of a scheduled task's context, or `instanceIdFor(key)` of any key
 * @throws what `create()` throws, where there is no such instance then
 *
 * @example handler: ({ idempotencyKey, scheduledFor }) =>
 *   createOnce(this.env.DIGEST_WORKFLOW, { id: idempotencyKey, params: { scheduledFor } })
 */
export async function createOnce<Params>(
  workflow: Workflow<Params>,
  options: WorkflowInstanceCreateOptions<Params> & { readonly id: string },
): Promise<WorkflowInstance> {
  try {
    return await workflow.create(options);
  } catch (error) {
    return found(workflow, options.id, error);
  }
}

/** Asked for, and not read off the message of the error: that is the platform's to change. */
async function found<Params>(
  workflow: Workflow<Params>,
  id: string,
  why: unknown,
): Promise<WorkflowInstance> {
  try {
    const instance = await workflow.get(id);
    await instance.status();
    return instance;
  } catch {
    throw why;
  }
}
