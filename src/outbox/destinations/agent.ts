/**
 * Tells a method of another agent, or of any Durable Object, over RPC. What it
 * never gets over:
 *
 * | failure | why for good |
 * |---|---|
 * | the method throws an UndeliverableError | it says so itself; known by its name, as RPC loses the class |
 * | the event is too large for RPC | the next attempt has the same |
 *
 * Whatever else the method throws is tried again, and so are an object that
 * was reset, overloaded or out of reach, and a method that is not there: its
 * Worker's next deploy, or a rollback, may bring it back.
 */

import { type Agent, getAgentByName } from "agents";
import { preview } from "../../core/json.ts";
import { UndeliverableError } from "../errors.ts";
import type { Adapter, AgentDestination, Delivery, ReferencedDelivery } from "../types.ts";
import {
  asThrown,
  Bindings,
  bytesOf,
  isMethodOfAnyObject,
  problemOfTexts,
  says,
} from "./bindings.ts";

/**
 * A call takes 32 MiB, and not of JSON: a number has up to 9 bytes where JSON
 * has 4, a character 2 where UTF-8 has 1.
 * https://developers.cloudflare.com/workers/runtime-apis/rpc/
 */
const MAX_BYTES = 14 * 1_048_576;
/** What RPC says of a call that is too large, and of a result that is. */
const TOO_LARGE = /^Serialized RPC arguments or return values are limited/;

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

/** How a stub says that its object has no such method. */
const NO_METHOD = /RPC receiver does not implement/;

type Method = (delivery: unknown) => Promise<Partial<Disposable> | undefined>;

/**
 * Makes the adapter for other agents and Durable Objects.
 *
 * @param env the object's bindings
 */
export function agentAdapter(env: object): Adapter<AgentDestination> {
  const namespaces = new Bindings<DurableObjectNamespace>(env, {
    what: "Durable Object",
    section: "durable_objects.bindings",
    methods: ["idFromName", "getByName"],
  });
  /** Namespaces whose objects have turned out to be no agents. */
  const plain = new WeakSet<DurableObjectNamespace>();
  /** An agent's methods are not to be called before it has started, and a call by itself does not start it. */
  async function stubOf(namespace: DurableObjectNamespace, name: string): Promise<object> {
    if (plain.has(namespace)) return namespace.getByName(name);
    try {
      return await getAgentByName(namespace as DurableObjectNamespace<Agent>, name);
    } catch (error) {
      if (!says(error, NO_METHOD)) throw error;
      plain.add(namespace);
      return namespace.getByName(name);
    }
  }
  return {
    maxBytes: MAX_BYTES,
    timeoutMs: 30_000,
    keyOf: ({ agent, name }) => `agent ${JSON.stringify([agent, name])}`,
    problemOf({ agent, name, method }) {
      const problem = problemOfTexts({ agent, name, method });
      if (problem) return problem;
      if (isMethodOfAnyObject(method) || RESERVED.has(method)) {
        return `has ${preview(method)} as method, which RPC does not call; expected a method of the agent's own.`;
      }
      return namespaces.problemOf("agent", agent);
    },
    async deliver(to, delivery) {
      const namespace = namespaces.get(to.agent);
      try {
        // A new stub each time, as one whose object was reset stays broken.
        const stub = await stubOf(namespace, to.name);
        const told = Reflect.get(stub, to.method) as Method;
        const result = await told(delivery);
        // Whatever came back keeps the other side's memory until it is let go.
        result?.[Symbol.dispose]?.();
      } catch (error) {
        throw failureOf(error, to, delivery);
      }
    },
  };
}

function failureOf(
  cause: unknown,
  { agent, name, method }: AgentDestination,
  delivery: Delivery | ReferencedDelivery,
): unknown {
  const whom = `${method}() of ${agent} ${preview(name)}`;
  if (says(cause, NO_METHOD) && String(cause).includes(JSON.stringify(method))) {
    return new Error(`There is no ${whom}. Deploy a version that has it.`, { cause });
  }
  const isTooLarge = says(cause, TOO_LARGE) && bytesOf(delivery) > MAX_BYTES;
  return isTooLarge
    ? new UndeliverableError(`${whom} takes no event as large as delivery ${delivery.id}`, {
        cause,
      })
    : asThrown(cause);
}
