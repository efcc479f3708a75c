/** Which hooks an app has, of classes whose inherited methods are wrapped as `agents` wraps them. */

import { expect, it } from "vitest";
import { notOverridden } from "../../../src/hosts/agent/agent-kernel.ts";

class Host {
  readonly hasHook: (name: string) => boolean;

  constructor() {
    const isBuiltIn = notOverridden(new.target, Host);
    const { onStatus } = this;
    this.constructor.prototype.onStatus = (...args: []) => onStatus.apply(this, args);
    this.hasHook = (name) => !isBuiltIn(name, this);
  }

  onStatus(): void {}
}

class Plain extends Host {}
class Overriding extends Host {
  override onStatus() {}
}
class Below extends Overriding {}
class WithField extends Host {
  override onStatus = () => {};
}

it.each([
  [Plain, false],
  [Overriding, true],
  [Below, true],
  [WithField, true],
])("%o: has a hook of its own: %s, also in its second instance", (App, expected) => {
  for (const app of [new App(), new App()]) expect(app.hasHook("onStatus")).toBe(expected);
});
