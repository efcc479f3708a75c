/** The app of the contract on `perdure/harness`, with a harness of each kind. */

import { AiSdkHarness } from "agents/harness/ai-sdk";
import { ThinkHarness } from "agents/harness/think";
import { DurableHarness } from "../../../src/hosts/harness/index.ts";
import type { Delivery } from "../../../src/outbox/index.ts";
import { Meter, metered, ScriptedModel } from "../../../src/testing/index.ts";
import { contractTasks, contractTools, hear } from "./app.ts";

class HarnessApp extends DurableHarness<Cloudflare.Env> {
  readonly meter: Meter;
  constructor(ctx: DurableObjectState, env: Cloudflare.Env) {
    const meter = new Meter();
    super(metered(ctx, meter), env);
    this.meter = meter;
  }
  override getScheduledTasks() {
    return contractTasks(() => this.name);
  }
  hear(delivery: Delivery) {
    hear(delivery);
  }
}

export class HarnessHost extends HarnessApp {
  readonly harness = this.useHarness(
    new AiSdkHarness({ model: new ScriptedModel(), tools: contractTools() }),
  );
}

export class ThinkHarnessHost extends HarnessApp {
  readonly harness = this.useHarness(
    new ThinkHarness({ model: new ScriptedModel(), tools: contractTools() }),
  );
}
