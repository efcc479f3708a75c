/** An agent with a Code Mode runtime whose one connector counts its effects, and dies where a test says so. */

import { CodemodeConnector, type CodemodeRuntimeHandle } from "@cloudflare/codemode";
import { createExecuteTool } from "@cloudflare/think/tools/execute";
import { codemode } from "../../../../src/features/codemode/index.ts";
import { DurableThink } from "../../../../src/hosts/think/index.ts";
import { CAPABILITIES } from "../../../../src/hosts/verbs.ts";
import { Meter, metered, ScriptedModel } from "../../../../src/testing/index.ts";

/** How often something was done, over all starts of all agents: `charge:<order>`, `uncharge:<order>` ... */
export const effects = new Map<string, number>();

export type CodemodeHooks = {
  /**
   * Around the calls of the connector and of the runtime: `charge`, `execute`, `approve` ...; after `openWait`, the step has
   * not begun to wait.
   */
  before?: (what: string, agent: CodemodeAgent) => void | Promise<void>;
  /** Of the tool `look`, which code can read without a call of it. */
  description?: string;
  after?: (what: string, agent: CodemodeAgent) => void | Promise<void>;
  /** No runtime is made. */
  hasNone?: boolean;
};
export const codemodeHooks = new Map<string, CodemodeHooks>();

type Order = { order: string };

class Shop extends CodemodeConnector<Cloudflare.Env> {
  constructor(
    ctx: DurableObjectState,
    env: Cloudflare.Env,
    private readonly agent: CodemodeAgent,
  ) {
    super(ctx, env);
  }

  name() {
    return "shop";
  }

  protected tools() {
    const effect = (what: string) => async (args: unknown) => {
      const { order } = args as Order;
      await this.agent.around(what, () => {
        effects.set(`${what}:${order}`, (effects.get(`${what}:${order}`) ?? 0) + 1);
      });
      return { done: what, order };
    };
    const undo = (what: string) => async (args: unknown) => {
      await effect(`un${what}`)(args);
    };
    return {
      look: {
        description: codemodeHooks.get(this.agent.name)?.description ?? "",
        execute: effect("look"),
      },
      reserve: { execute: effect("reserve"), revert: undo("reserve") },
      charge: { requiresApproval: true, execute: effect("charge"), revert: undo("charge") },
      stick: {
        execute: effect("stick"),
        revert: () => Promise.reject(new Error("it sticks")),
      },
    };
  }
}

export class CodemodeAgent extends DurableThink<Cloudflare.Env> {
  static override readonly features = [codemode()];

  readonly meter: Meter;

  constructor(ctx: DurableObjectState, env: Cloudflare.Env) {
    const meter = new Meter();
    super(metered(ctx, meter), env);
    this.meter = meter;
  }

  override getModel() {
    return new ScriptedModel();
  }

  override getTools() {
    if (codemodeHooks.get(this.name)?.hasNone) return {};
    const execute = createExecuteTool(this, {
      connectors: [new Shop(this.ctx, this.env, this)],
      timeout: 60_000,
    });
    const { codemode } = this;
    if (codemode) this.codemode = this.#probed(codemode);
    return { execute };
  }

  override async callKernel(name: string, ...args: unknown[]) {
    const result = await super.callKernel(name, ...args);
    if (name === "openWait") await codemodeHooks.get(this.name)?.after?.(name, this);
    return result;
  }

  /** Runs the hooks of the test around something. */
  async around<T>(what: string, work: () => T | Promise<T>): Promise<T> {
    await codemodeHooks.get(this.name)?.before?.(what, this);
    await this.ctx.storage.sync();
    const result = await work();
    await codemodeHooks.get(this.name)?.after?.(what, this);
    return result;
  }

  /** The object dies where it stands, and nothing after that is done. */
  die(): Promise<void> {
    this.ctx.abort("crash");
    return new Promise(() => {});
  }

  async startCode(id: string, params: unknown): Promise<string> {
    return this.runWorkflow("CODEMODE_WORKFLOW", params as Record<string, unknown>, { id });
  }

  async startInChild(id: string, params: unknown): Promise<string> {
    return (await this.subAgent(CodemodeAgent, "child")).startCode(id, params);
  }

  async restart(id: string): Promise<void> {
    await this.restartWorkflow(id);
  }

  async terminate(id: string, options?: { rollback?: boolean }): Promise<void> {
    await this.terminateWorkflow(id, options);
  }

  /** Open approvals: their ids, and what they are about. */
  async openApprovals(): Promise<{ waitId: string; title: string }[]> {
    const { items: open } = await this[CAPABILITIES].waits.list({
      kind: "approval",
      isOpen: true,
      limit: 100,
    });
    return open.map(({ waitId, request }) => ({
      waitId,
      title: (request as { title: string }).title,
    }));
  }

  async approvalsOfChild() {
    return (await this.subAgent(CodemodeAgent, "child")).openApprovals();
  }

  async settle(waitId: string, status: "completed" | "rejected", reason?: string): Promise<void> {
    const result = {
      by: "ann",
      payload: null,
      decidedAt: 0,
      ...(reason !== undefined && { reason }),
    };
    await this[CAPABILITIES].waits.settle(waitId, { status, result });
  }

  async settleInChild(waitId: string): Promise<void> {
    await (await this.subAgent(CodemodeAgent, "child")).settle(waitId, "completed");
  }

  async waitsOfCode(): Promise<{ waitId: string; status: string }[]> {
    const { items: waits } = await this[CAPABILITIES].waits.list({ kind: "codemode", limit: 100 });
    return waits.map(({ waitId, status }) => ({ waitId, status }));
  }

  /** Drives what is open, as the wake would. */
  async nudge(): Promise<void> {
    for (const { waitId } of await this.waitsOfCode()) await this[CAPABILITIES].waits.nudge(waitId);
  }

  /** Newest first: id and status. */
  async executions(): Promise<{ id: string; status: string }[]> {
    if (!this.codemode) this.getTools();
    const found = (await this.codemode?.executions()) ?? [];
    return found.map(({ id, status }) => ({ id, status }));
  }

  /** As Think's own clients approve. */
  async approveDirectly(executionId: string): Promise<void> {
    await this.codemode?.approve({ executionId });
  }

  async forgetExecutions(): Promise<void> {
    await this.codemode?.pruneExecutions(0);
  }

  async noteUndone(what: string): Promise<void> {
    await this.around("undo", () => {
      effects.set(`undone:${what}`, (effects.get(`undone:${what}`) ?? 0) + 1);
    });
  }

  #probed(handle: CodemodeRuntimeHandle): CodemodeRuntimeHandle {
    return new Proxy(handle, {
      get: (target, name) => {
        const method: unknown = Reflect.get(target, name, target);
        if (typeof method !== "function") return method;
        return (...args: unknown[]) =>
          this.around(String(name), () => method.apply(target, args) as Promise<unknown>);
      },
    });
  }
}
