/**
 * Sends an event to a Workflow instance, by `sendEvent()` of its binding; the event's payload is the delivery.
 *
 * Permanent failures: there is no such instance; it is complete, errored or terminated; the payload is too large. The platform
 * accepts events for an ended instance, and drops them. That is right for an event of a step of Perdure: the result stays in the
 * agent, and a restarted instance asks the agent for it. Its status is therefore not asked for, and where there is no instance the
 * event is discarded. Any other event becomes a dead letter, to be redriven once the instance was restarted or created again.
 */

import * as z from "zod";
import { preview } from "../../core/json.ts";
import { oneOf, optionsOf } from "../../core/options/option-schemas.ts";
import { POLICY } from "../delivery/policy.ts";
import { messageMatches, NotNeededError, UndeliverableError } from "../errors.ts";
import type { Adapter, AdapterContext, WithPolicy } from "./adapter.ts";
import { bindingOf, bytesOf, NAME, problemOfBinding, WORKFLOW } from "./bindings.ts";

/** An instance of a Workflow that waits for an event. */
export type WorkflowDestination = WithPolicy & {
  readonly kind: "workflow";
  /** The Workflow's binding name in `env`. */
  readonly workflow: string;
  /** The instance's id. */
  readonly instance: string;
  /** The event type that the instance waits for. */
  readonly eventType: string;
  /** A secret of the sender and the instance. It is sent with the event as `proof`, and is in no list. */
  readonly proof?: string;
};

/** One instance of a Workflow: the binding's name and the instance's id. Instances of two Workflows may have one id. */
export type InstanceOf = Pick<WorkflowDestination, "workflow" | "instance">;

/**
 * A Workflow instance that waits for an event. Its `event.payload` is the {@link Delivery}, or a
 * {@link ReferencedDelivery} above a bit less than 1 MiB.
 */
export function workflowEvent(to: Omit<WorkflowDestination, "kind">): WorkflowDestination {
  return { kind: "workflow", ...to };
}

/** Of an event's payload. https://developers.cloudflare.com/workflows/reference/limits/ */
const LIMIT = 1_048_576;
/** Below the limit, as the platform stores more than the payload. */
const MAX_BYTES = LIMIT - 16_384;
/** https://developers.cloudflare.com/workflows/reference/limits/ */
const EVENT_TYPE = /^[A-Za-z0-9_-]{1,100}$/;
const ENDED: ReadonlySet<string> = new Set(["complete", "errored", "terminated"]);
/** Part of the platform's message, as in `(instance.not_found) Instance does not exist`. */
export const NO_INSTANCE = /\binstance\.(not_found|invalid_id)\b/;
/** The platform's own error: no code of the workflow runs in an attempt. */
const TOO_LARGE = /too[ _]large|limited to \d+ ?MiB/i;

/** Whether a Workflow instance runs no more. A restart opens it again. */
export function hasEnded({ status }: { readonly status: string }): boolean {
  return ENDED.has(status);
}

export const KINDS = {
  workflow: {
    schema: optionsOf<WorkflowDestination>()({
      kind: oneOf(["workflow"]),
      workflow: NAME,
      instance: NAME,
      eventType: z.custom<string>((type) => typeof type === "string" && EVENT_TYPE.test(type), {
        error: "expected 1 to 100 of a-z, A-Z, 0-9, _ and -",
      }),
      proof: NAME.optional(),
      policy: POLICY.optional(),
    }),
    connect({ env }: Pick<AdapterContext, "env">): Adapter<WorkflowDestination> {
      return {
        maxBytes: MAX_BYTES,
        timeoutMs: 30_000,
        keyOf: ({ workflow, instance }) => `workflow ${JSON.stringify([workflow, instance])}`,
        labelOf: ({ workflow, instance }) => `${workflow} ${instance}`,
        problemOf: ({ workflow }) => problemOfBinding(env, WORKFLOW, "workflow", workflow),
        async endOf({ workflow, instance }) {
          try {
            const found = await bindingOf(env, WORKFLOW, workflow).get(instance);
            const { status } = await found.status();
            if (status === "terminated") return "gone";
            return hasEnded({ status }) ? "ended" : null;
          } catch (error) {
            if (messageMatches(error, NO_INSTANCE)) return "gone";
            throw error;
          }
        },
        async deliver(to, delivery, signal) {
          const binding = bindingOf(env, WORKFLOW, to.workflow);
          try {
            const instance = await binding.get(to.instance);
            if (!isForStep(to)) {
              const { status } = await instance.status();
              if (hasEnded({ status })) throw undeliverable(to, `is ${status}, and takes no event`);
            }
            // After the time limit the next attempt may have started.
            signal.throwIfAborted();
            const { eventType: type, proof } = to;
            const payload = proof === undefined ? delivery : { ...delivery, proof };
            await instance.sendEvent({ type, payload });
          } catch (error) {
            if (error instanceof UndeliverableError) throw error;
            if (messageMatches(error, NO_INSTANCE)) throw missing(to, error);
            if (!messageMatches(error, TOO_LARGE) && bytesOf(delivery) <= LIMIT) throw error;
            throw undeliverable(to, `takes no event as large as delivery ${delivery.id}`, error);
          }
        },
      };
    },
  },
};

/** Whether a step of Perdure waits for it. */
function isForStep({ eventType, proof }: WorkflowDestination): boolean {
  return proof !== undefined && eventType.startsWith("perdure-");
}

function missing(to: WorkflowDestination, cause: unknown): Error {
  const problem = "does not exist";
  if (!isForStep(to)) return undeliverable(to, problem, cause);
  return new NotNeededError(`${nameOf(to)} ${problem}`, { cause });
}

function undeliverable(to: WorkflowDestination, problem: string, cause?: unknown): Error {
  return new UndeliverableError(`${nameOf(to)} ${problem}`, { cause });
}

function nameOf({ workflow, instance }: WorkflowDestination): string {
  return `Instance ${preview(instance)} of Workflow ${workflow}`;
}
