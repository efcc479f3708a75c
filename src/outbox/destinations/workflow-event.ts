/**
 * Tells a Workflow instance, by `sendEvent()` of its binding; the payload of
 * the event is the delivery. Failures that no retry can help:
 *
 * | failure | why for good |
 * |---|---|
 * | there is no such instance | instances are not made by waiting for them; its retention may be over |
 * | complete, errored, terminated | the platform takes events for an ended instance, and drops them |
 * | the payload is too large | the next attempt has the same |
 *
 * After the first two nobody waits for the event any more. An event for a step
 * of Perdure is discarded then: its result stays in the agent, and a restarted
 * instance asks the agent for it. Any other event becomes a dead letter, and
 * whoever restarts the instance, or makes it under the same id, redrives it.
 */

import { preview } from "../../core/json.ts";
import { NotNeededError, UndeliverableError } from "../errors.ts";
import type { Adapter, WorkflowDestination } from "../types.ts";
import { Bindings, bytesOf, problemOfTexts, says } from "./bindings.ts";

/** Of an event's payload. https://developers.cloudflare.com/workflows/reference/limits/ */
const LIMIT = 1_048_576;
/** Below the limit, as the platform stores more than the payload. */
const MAX_BYTES = LIMIT - 16_384;
/** https://developers.cloudflare.com/workflows/reference/limits/ */
const EVENT_TYPE = /^[A-Za-z0-9_-]{1,100}$/;
const ENDED: ReadonlySet<InstanceStatus["status"]> = new Set(["complete", "errored", "terminated"]);
/** The platform names it in the message, as in `(instance.not_found) Instance does not exist`. */
const NO_INSTANCE = /\binstance\.(not_found|invalid_id)\b/;
/** Of the platform alone, as no code of the workflow runs in an attempt. */
const TOO_LARGE = /too[ _]large|limited to \d+ ?MiB/i;

/**
 * Makes the adapter for Workflow destinations.
 *
 * @param env the object's bindings
 */
export function workflowAdapter(env: object): Adapter<WorkflowDestination> {
  const workflows = new Bindings<Workflow>(env, {
    what: "Workflow",
    section: "workflows",
    methods: ["get", "createBatch"],
  });
  return {
    maxBytes: MAX_BYTES,
    timeoutMs: 30_000,
    keyOf: ({ workflow, instance }) => `workflow ${JSON.stringify([workflow, instance])}`,
    problemOf({ workflow, instance, eventType, proof }) {
      const problem = problemOfTexts({ workflow, instance, ...(proof !== undefined && { proof }) });
      if (problem) return problem;
      if (typeof eventType !== "string" || !EVENT_TYPE.test(eventType)) {
        return `has ${preview(eventType)} as eventType; expected 1 to 100 of a-z, A-Z, 0-9, _ and -.`;
      }
      return workflows.problemOf("workflow", workflow);
    },
    async isGone({ workflow, instance }) {
      try {
        const { status } = await (await workflows.get(workflow).get(instance)).status();
        return status === "terminated";
      } catch (error) {
        if (says(error, NO_INSTANCE)) return true;
        throw error;
      }
    },
    async deliver(to, delivery, signal) {
      const binding = workflows.get(to.workflow);
      try {
        const instance = await binding.get(to.instance);
        const { status } = await instance.status();
        if (ENDED.has(status)) throw ended(to, `is ${status}, and takes no event`);
        // The next attempt may have begun.
        signal.throwIfAborted();
        const { eventType: type, proof } = to;
        await instance.sendEvent({
          type,
          payload: proof === undefined ? delivery : { ...delivery, proof },
        });
      } catch (error) {
        if (error instanceof UndeliverableError || error instanceof NotNeededError) throw error;
        if (says(error, NO_INSTANCE)) throw ended(to, "does not exist", error);
        if (!says(error, TOO_LARGE) && bytesOf(delivery) <= LIMIT) throw error;
        throw undeliverable(to, `takes no event as large as delivery ${delivery.id}`, error);
      }
    },
  };
}

/** Whether a step of Perdure waits for it. */
function isForStep({ eventType, proof }: WorkflowDestination): boolean {
  return proof !== undefined && eventType.startsWith("perdure-");
}

function ended(to: WorkflowDestination, problem: string, cause?: unknown): Error {
  if (!isForStep(to)) return undeliverable(to, problem, cause);
  return new NotNeededError(`${nameOf(to)} ${problem}`, { cause });
}

function undeliverable(to: WorkflowDestination, problem: string, cause?: unknown): Error {
  return new UndeliverableError(`${nameOf(to)} ${problem}`, { cause });
}

function nameOf({ workflow, instance }: WorkflowDestination): string {
  return `Instance ${preview(instance)} of Workflow ${workflow}`;
}
