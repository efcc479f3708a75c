/**
 * Calls a method of the agent that has the outbox, in the agent's own context. An UndeliverableError of the method is a
 * permanent failure. Any other error is retried, and so is a missing method: the next deploy, or a rollback, may bring
 * it back.
 */

import { preview } from "../../core/json.ts";
import { oneOf, optionsOf } from "../../core/options/option-schemas.ts";
import { POLICY } from "../delivery/policy.ts";
import type { Adapter, AdapterContext, WithPolicy } from "./adapter.ts";
import { asThrown, isMethodOfAnyObject, NAME } from "./bindings.ts";

/** A method of the agent that has the outbox. */
export type MethodDestination = WithPolicy & {
  readonly kind: "method";
  readonly method: string;
};

/** A method of the agent itself, called with the {@link Delivery}. */
export function method(name: string, options: WithPolicy = {}): MethodDestination {
  return { kind: "method", method: name, ...options };
}

export const KINDS = {
  method: {
    schema: optionsOf<MethodDestination>()({
      kind: oneOf(["method"]),
      method: NAME,
      policy: POLICY.optional(),
    }),
    connect({
      host,
      inHostContext,
    }: Pick<AdapterContext, "host" | "inHostContext">): Adapter<MethodDestination> {
      return {
        // The event stays in the object, however large it is.
        maxBytes: Number.POSITIVE_INFINITY,
        timeoutMs: 30_000,
        keyOf: ({ method }) => `method ${JSON.stringify(method)}`,
        labelOf: ({ method }) => `${method}()`,
        problemOf({ method }) {
          if (methodOf(host, method)) return undefined;
          const expected = `expected the name of a method of ${host.constructor.name}. Add the method, or name another`;
          return { field: "method", given: preview(method), expected };
        },
        async deliver({ method }, delivery) {
          const found = methodOf(host, method);
          if (!found) {
            throw new Error(
              `${host.constructor.name} has no method ${preview(method)}. Deploy a version that has it.`,
            );
          }
          try {
            await inHostContext(async () => found.call(host, delivery));
          } catch (error) {
            throw asThrown(error);
          }
        },
      };
    },
  },
};

function methodOf(host: object, method: string) {
  if (isMethodOfAnyObject(method)) return undefined;
  const value: unknown = Reflect.get(host, method);
  return typeof value === "function" ? value : undefined;
}
