/** An app on `perdure/harness`, with a harness of each kind. */

import { AiSdkHarness } from "agents/harness/ai-sdk";
import { ThinkHarness } from "agents/harness/think";
import { tool } from "ai";
import { z } from "zod";
import { DurableHarness } from "../../../src/hosts/harness/index.ts";
import type { Delivery } from "../../../src/kernel/outbox/index.ts";
import { Meter, metered } from "../../../src/testing/index.ts";
import { ALL } from "../../support/features.ts";
import { until } from "../../support/given.ts";
import { HeldModel } from "../../support/held-model.ts";
import { contractTasks, contractTools, hear } from "./app.ts";

/** Running calls of the tool that does not listen to its abort signal, by their names. It returns when its name is deleted. */
export const held = new Set<string>();

const tools = () => ({
  ...contractTools(),
  hold: tool({
    inputSchema: z.object({ name: z.string() }),
    execute: async ({ name }) => {
      held.add(name);
      await until(() => !held.has(name));
      return "held";
    },
  }),
});

class HarnessApp extends DurableHarness<Cloudflare.Env> {
  static override readonly features = ALL;
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

/** A scripted model whose call after a tool fails where the script says so. */
class HarnessModel extends HeldModel {
  override doStream(options: Parameters<HeldModel["doStream"]>[0]) {
    const { prompt } = options;
    if (prompt.at(-1)?.role === "tool" && JSON.stringify(prompt).includes("fail after the tool"))
      throw new Error("Network connection lost.");
    return super.doStream(options);
  }
}

export class HarnessHost extends HarnessApp {
  readonly harness = this.useHarness(new AiSdkHarness({ model: new HeldModel(), tools: tools() }));
}

export class ThinkHarnessHost extends HarnessApp {
  readonly harness = this.useHarness(
    new ThinkHarness({ model: new HarnessModel(), tools: tools() }),
  );
}
