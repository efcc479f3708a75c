/**
 * Tells a method of the agent that the outbox belongs to, in the agent's own
 * context. What it never gets over:
 *
 * | failure | why for good |
 * |---|---|
 * | the method throws an UndeliverableError | it says so itself |
 *
 * Whatever else the method throws is tried again, and so is a method that is
 * not there: the next deploy, or a rollback, may bring it back.
 */

import { preview } from "../../core/json.ts";
import type { Adapter, MethodDestination } from "../types.ts";
import { asThrown, isMethodOfAnyObject, problemOfTexts } from "./bindings.ts";

export type MethodOptions = {
  /** Whose methods are called. */
  readonly host: object;
  /** Runs work as the host's own, as the lifecycle's `runInHostContext` does. */
  readonly inHostContext: <T>(work: () => Promise<T>) => Promise<T>;
};

/** Makes the adapter for methods of the agent itself. They get the event whole, however large. */
export function methodAdapter({ host, inHostContext }: MethodOptions): Adapter<MethodDestination> {
  return {
    maxBytes: Number.POSITIVE_INFINITY,
    timeoutMs: 30_000,
    keyOf: ({ method }) => `method ${JSON.stringify(method)}`,
    problemOf({ method }) {
      const problem = problemOfTexts({ method });
      if (problem || methodOf(host, method)) return problem;
      return `has ${preview(method)} as method; expected the name of a method of ${host.constructor.name}. Add the method, or name another.`;
    },
    async deliver({ method }, delivery) {
      const told = methodOf(host, method);
      if (!told) {
        throw new Error(
          `${host.constructor.name} has no method ${preview(method)}. Deploy a version that has it.`,
        );
      }
      try {
        await inHostContext(async () => told.call(host, delivery));
      } catch (error) {
        throw asThrown(error);
      }
    },
  };
}

function methodOf(host: object, method: string) {
  if (isMethodOfAnyObject(method)) return undefined;
  const value: unknown = Reflect.get(host, method);
  return typeof value === "function" ? value : undefined;
}
