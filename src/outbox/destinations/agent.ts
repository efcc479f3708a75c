/**
 * Calls a method of another agent, or of any Durable Object, over RPC. Permanent failures: an UndeliverableError of the
 * method, and an event that is too large for RPC. Any other error is retried, and so is a missing method: the next deploy
 * of its Worker, or a rollback, may bring it back.
 */

import { type Agent, getAgentByName } from "agents";
import { preview } from "../../core/json.ts";
import { oneOf, optionsOf } from "../../core/options/option-schemas.ts";
import { POLICY } from "../delivery/policy.ts";
import { messageMatches, UndeliverableError } from "../errors.ts";
import type {
  Adapter,
  AdapterContext,
  Delivery,
  ReferencedDelivery,
  WithPolicy,
} from "./adapter.ts";
import {
  asThrown,
  bindingOf,
  bytesOf,
  isMethodOfAnyObject,
  NAME,
  NAMESPACE,
  problemOfBinding,
} from "./bindings.ts";

/** A method of another agent or Durable Object, over RPC. */
export type AgentDestination = WithPolicy & {
  readonly kind: "agent";
  /** The namespace's binding name in `env`. */
  readonly agent: string;
  /** The name of the object. */
  readonly name: string;
  readonly method: string;
};

/** A method of another agent or Durable Object, called over RPC with the {@link Delivery}. */
export function agent(to: Omit<AgentDestination, "kind">): AgentDestination {
  return { kind: "agent", ...to };
}

/**
 * RPC limits a call to 32 MiB of its own format, which is larger than JSON: a number has up to 9 bytes where JSON has 4,
 * a character 2 where UTF-8 has 1. https://developers.cloudflare.com/workers/runtime-apis/rpc/
 */
const MAX_BYTES = 14 * 1_048_576;
/** The error of RPC for a call or a result that is too large. */
const TOO_LARGE = /^Serialized RPC arguments or return values are limited/;
/** The error of a stub whose object has no such method. */
const NO_METHOD = /RPC receiver does not implement/;

/**
 * Names that a stub keeps for itself, or the runtime for its own calls.
 * https://developers.cloudflare.com/workers/runtime-apis/rpc/reserved-methods/
 */
const RESERVED: ReadonlySet<string> = new Set([
  "alarm",
  "connect",
  "dup",
  "fetch",
  "id",
  "name",
  "then",
  "webSocketClose",
  "webSocketError",
  "webSocketMessage",
]);

type Method = (delivery: unknown) => Promise<Partial<Disposable> | undefined>;

export const KINDS = {
  agent: {
    schema: optionsOf<AgentDestination>()({
      kind: oneOf(["agent"]),
      agent: NAME,
      name: NAME,
      method: NAME.refine((name) => !isMethodOfAnyObject(name) && !RESERVED.has(name), {
        error: "expected a method of the agent's own, which RPC can call",
      }),
      policy: POLICY.optional(),
    }),
    connect({ env }: Pick<AdapterContext, "env">): Adapter<AgentDestination> {
      /** Namespaces whose objects are no agents. */
      const plain = new WeakSet<DurableObjectNamespace>();
      /** Starts an agent before its method is called: a call alone does not start it. */
      async function stubOf(namespace: DurableObjectNamespace, name: string): Promise<object> {
        if (plain.has(namespace)) return namespace.getByName(name);
        try {
          return await getAgentByName(namespace as DurableObjectNamespace<Agent>, name);
        } catch (error) {
          if (!messageMatches(error, NO_METHOD)) throw error;
          plain.add(namespace);
          return namespace.getByName(name);
        }
      }
      return {
        maxBytes: MAX_BYTES,
        timeoutMs: 30_000,
        keyOf: ({ agent, name }) => `agent ${JSON.stringify([agent, name])}`,
        labelOf: ({ agent, name, method }) => `${agent} ${name} ${method}()`,
        problemOf: ({ agent }) => problemOfBinding(env, NAMESPACE, "agent", agent),
        async deliver(to, delivery) {
          const namespace = bindingOf(env, NAMESPACE, to.agent);
          try {
            // A new stub for each attempt: one whose object was reset stays broken.
            const stub = await stubOf(namespace, to.name);
            const result = await (Reflect.get(stub, to.method) as Method)(delivery);
            // Frees the other side's memory.
            result?.[Symbol.dispose]?.();
          } catch (error) {
            throw failureOf(error, to, delivery);
          }
        },
      };
    },
  },
};

function failureOf(
  cause: unknown,
  { agent, name, method }: AgentDestination,
  delivery: Delivery | ReferencedDelivery,
): unknown {
  const target = `${method}() of ${agent} ${preview(name)}`;
  if (messageMatches(cause, NO_METHOD) && String(cause).includes(JSON.stringify(method))) {
    return new Error(`There is no ${target}. Deploy a version that has it.`, { cause });
  }
  if (!messageMatches(cause, TOO_LARGE) || bytesOf(delivery) <= MAX_BYTES) return asThrown(cause);
  const message = `${target} takes no event as large as delivery ${delivery.id}`;
  return new UndeliverableError(message, { cause });
}
