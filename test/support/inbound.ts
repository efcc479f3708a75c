/** The arrival log on a plain object: offered, inspected and crashed. */

import { env } from "cloudflare:workers";
import type { Json } from "../../src/core/json.ts";
import type { AcceptRequest, RawArrival } from "../../src/features/inbound/protocol.ts";
import {
  type InboundObject,
  type InboundScript,
  inboundScripts,
} from "./objects/inbound-object.ts";
import { accessTo } from "./objects/objects.ts";

export type InboundStub = DurableObjectStub<InboundObject>;

/** A new object that does what the script says. */
export function givenInbound(script: InboundScript = {}): InboundStub {
  const name = `inbound-${crypto.randomUUID()}`;
  inboundScripts.set(name, script);
  return env.InboundObject.getByName(name);
}

export const { inside, crash } = accessTo(() => env.InboundObject);

/** A SHA-256 that stands for a body. */
export function hashOf(text: string): string {
  const code = [...text].reduce((sum, char) => (sum * 31 + char.charCodeAt(0)) >>> 0, 7);
  return code.toString(16).padStart(64, "0");
}

export function arrival(id: string, rest: Partial<RawArrival> = {}): RawArrival {
  const body: Json = rest.body === undefined ? { id } : rest.body;
  const text = JSON.stringify(body);
  return {
    source: "github",
    id,
    type: "push",
    body,
    bytes: text.length,
    hash: hashOf(text),
    receivedAt: Date.now(),
    ...rest,
  };
}

/** The request of a handler's call. */
export function call(
  arrival: RawArrival,
  verb: string,
  args: readonly unknown[] = [],
  ordinal = 0,
): AcceptRequest {
  return { arrival, call: { ordinal, verb, args } };
}

export function accept(stub: InboundStub, request: AcceptRequest) {
  return inside(stub, ({ inbound }) => inbound.accept(request));
}

export function notesOf(stub: InboundStub): Promise<string[]> {
  return inside(stub, (object) => object.notes());
}

export function inspect(stub: InboundStub, id: string, source = "github") {
  return inside(stub, ({ inbound }) => inbound.inspect(source, id));
}
