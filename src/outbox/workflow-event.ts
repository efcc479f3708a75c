/** Delivers to a waiting Workflow instance, by the Workflow binding's own `sendEvent()`. */

import { type Courier, UndeliverableError, type WorkflowDestination } from "./types.ts";

/**
 * Makes the courier for Workflow destinations.
 *
 * @param env the object's bindings
 */
export function workflowCourier(env: object): Courier {
  return async ({ destination, payload }) => {
    const binding = workflowBinding(env, destination);
    try {
      const instance = await binding.get(destination.instance);
      await instance.sendEvent({ type: destination.eventType, payload });
    } catch (error) {
      throw isGone(error)
        ? new UndeliverableError(
            `Workflow ${destination.workflow} has no instance "${destination.instance}" that could take the event`,
            { cause: error },
          )
        : error;
    }
  };
}

function workflowBinding(env: object, { workflow }: WorkflowDestination): Workflow {
  const binding = (env as Record<string, unknown>)[workflow];
  if (binding && typeof binding === "object" && "get" in binding) return binding as Workflow;
  throw new Error(
    `No Workflow binding "${workflow}" in this Worker. Add it to "workflows" in the Wrangler configuration; the event is kept and tried again.`,
  );
}

/** The platform names these failures in the message: `(instance.not_found) Instance does not exist`. */
function isGone(error: unknown): boolean {
  return error instanceof Error && error.message.includes("instance.not_found");
}
