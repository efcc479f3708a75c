/** An object has one alarm, which its Lifecycle handles: an `alarm()` of the class would end all wakes. */

import { runInDurableObject } from "cloudflare:test";
import { DurableObject, env } from "cloudflare:workers";
import { Lifecycle } from "agents/lifecycle";
import { expect, it } from "vitest";
import { durable } from "../../../src/hosts/object/index.ts";
import { Outbox } from "../../../src/outbox/index.ts";
import { Scheduler } from "../../../src/scheduler/index.ts";
import { ScriptedModel } from "../../../src/testing/index.ts";

class Plain extends DurableObject<Cloudflare.Env> {
  readonly lifecycle: Lifecycle = Lifecycle.install(this);
}

class OnDurable extends Plain {
  readonly durable = durable(this, { model: new ScriptedModel() });
}

class WithAlarm extends OnDurable {
  override alarm() {}
}

class WithLateField extends OnDurable {
  override readonly alarm = () => {};
}

class WithOutbox extends Plain {
  readonly outbox = new Outbox({ host: this, env: this.env });
  constructor(ctx: DurableObjectState, env: Cloudflare.Env) {
    super(ctx, env);
    this.lifecycle.use(this.outbox);
  }
  override alarm() {}
}

class WithScheduler extends Plain {
  readonly scheduler = new Scheduler({ tasks: () => ({}) });
  constructor(ctx: DurableObjectState, env: Cloudflare.Env) {
    super(ctx, env);
    this.lifecycle.use(this.scheduler);
  }
  override alarm() {}
}

/** Starts a new object of the class. */
function start(Class: new (ctx: DurableObjectState, env: Cloudflare.Env) => Plain) {
  const stub = env.OutboxObject.getByName(`own-alarm-${crypto.randomUUID()}`);
  return runInDurableObject(stub as unknown as DurableObjectStub, async (_, ctx) => {
    await new Class(ctx, env).lifecycle.start();
  });
}

it.each([WithAlarm, WithLateField, WithOutbox, WithScheduler])(
  "a class with an alarm() of its own is refused at the start: %o",
  async (Class) => {
    await expect(start(Class)).rejects.toThrow(
      `Invalid alarm() of ${Class.name}: it replaces that of the Lifecycle, and no wake of Perdure arrives. Rename it to onAlarm(), or use Scheduler of agents/schedules.`,
    );
  },
);

it("a class with onAlarm() starts", async () => {
  await start(
    class extends OnDurable {
      onAlarm() {}
    },
  );
});
