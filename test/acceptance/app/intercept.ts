/** Events on their way to an instance of a workflow, which a test can lose or forge. */

import { vi } from "vitest";
import type { Host } from "./hosts.ts";

type InstanceEvent = { readonly type: string; readonly payload: unknown };
type Send = (event: InstanceEvent) => Promise<void>;
type Intercept = (event: InstanceEvent, send: Send) => Promise<void>;

const intercepts = new Map<string, Intercept>();

/** Passes the events for an instance to `intercept`, which decides what the instance gets. */
export function interceptEvents({ workflows }: Host, id: string, intercept: Intercept): void {
  intercepts.set(id, intercept);
  if (vi.isMockFunction(workflows.get)) return;
  const { get } = workflows;
  vi.spyOn(workflows, "get").mockImplementation(async (name) => {
    const instance = await get.call(workflows, name);
    const intercept = intercepts.get(name);
    if (!intercept) return instance;
    return new Proxy(instance, {
      get(target, property) {
        if (property === "sendEvent")
          return (event: InstanceEvent) => intercept(event, (sent) => target.sendEvent(sent));
        const value: unknown = Reflect.get(target, property, target);
        return typeof value === "function" ? value.bind(target) : value;
      },
    });
  });
}

/** Copies of a delivery that another sender could make, without its secrets: with `forged` in place of `text`. */
export function forgePayloads(payload: unknown, text: string, forged: string): unknown[] {
  const copy = JSON.parse(JSON.stringify(payload).replaceAll(text, forged)) as object;
  const guessed = Object.fromEntries(
    Object.entries(copy).map(([name, value]) => [
      name,
      typeof value === "string" ? "guess" : value,
    ]),
  );
  const bare = Object.fromEntries(
    Object.entries(copy).filter(([, value]) => typeof value !== "string"),
  );
  return [guessed, bare, null, forged];
}
