/** An object whose class changes its host with a deploy. */

import { DurableObject } from "cloudflare:workers";
import { tool } from "ai";
import { z } from "zod";
import { DurableAgent } from "../../../src/hosts/agent/index.ts";
import { DurableThink } from "../../../src/hosts/think/index.ts";
import { ScriptedModel } from "../../../src/testing/index.ts";

/** How often a tool was called, by the name in its input. The first call does not return. */
export const stood = new Map<string, number>();

async function standing({ name }: { name: string }) {
  const times = (stood.get(name) ?? 0) + 1;
  stood.set(name, times);
  if (times === 1) await new Promise(() => {});
  return "stood";
}

const tools = () => ({
  stand: tool({ inputSchema: z.object({ name: z.string() }), execute: standing }),
});

const HOSTS = {
  agent: class extends DurableAgent<Cloudflare.Env> {
    override getModel() {
      return new ScriptedModel();
    }
    override getTools() {
      return tools();
    }
  },
  think: class extends DurableThink<Cloudflare.Env> {
    override getModel() {
      return new ScriptedModel();
    }
    override getTools() {
      return tools();
    }
  },
};
export type SwapKind = keyof typeof HOSTS;

/** The host of an object, by the object's name. */
export const deployed = new Map<string, SwapKind>();

export class SwapHost extends DurableObject<Cloudflare.Env> {
  constructor(ctx: DurableObjectState, env: Cloudflare.Env) {
    super(ctx, env);
    const host = HOSTS[deployed.get(ctx.id.name ?? "") ?? "agent"];
    // biome-ignore lint/correctness/noConstructorReturn: the host is the object.
    return new host(ctx, env) as never;
  }

  // The runtime of the tests looks for the methods here, and calls those of the host.
  override alarm(): void {}
  submitMessages(): void {}
  inspectSubmission(): void {}
}
