/** A workflow of Code Mode on an agent of its own, and how a test waits for it. */

import { env } from "cloudflare:workers";
import { reached } from "../../../support/engine.ts";
import { until } from "../../../support/given.ts";
import {
  type CodemodeAgent,
  type CodemodeHooks,
  codemodeHooks,
  effects,
} from "./codemode-agent.ts";
import type { CodeOutcome, CodeParams } from "./codemode-workflow.ts";

type Code = CodeParams["codes"][number];

/** Looks, then charges, which needs an approval. */
export function charging(order: string): string {
  return `async () => {
    const { order } = await shop.look({ order: "${order}" });
    console.log("looked");
    return await shop.charge({ order });
  }`;
}

export function times(what: string, order: string): number {
  return effects.get(`${what}:${order}`) ?? 0;
}

/** Fresh: the agent, the workflow's id, and an order that no other test has. */
export function givenCode(hooks: CodemodeHooks = {}) {
  const order = crypto.randomUUID();
  const id = `code-${order}`;
  const name = `shop-${order}`;
  codemodeHooks.set(name, hooks);
  // A stub does not outlive a crash.
  const agent = () =>
    env.CodemodeAgent.getByName(name) as unknown as DurableObjectStub<CodemodeAgent>;
  const approval = () =>
    until(async () => {
      const [first] = await agent().openApprovals();
      return first;
    });
  return {
    id,
    order,
    agent,
    /** The agent has died and is called until it lives again; its start drives what is open. */
    revived: async () => {
      if ("hasDied" in hooks) await until(() => hooks.hasDied as boolean);
      await until(async () => {
        try {
          await agent().nudge();
          return true;
        } catch {
          return false;
        }
      });
    },
    start: (codes: Code[], rest: Omit<CodeParams, "codes"> = {}) =>
      agent().startCode(id, { codes, ...rest }),
    approval,
    approve: async () => agent().settle((await approval()).waitId, "completed"),
    reject: async (reason?: string) =>
      agent().settle((await approval()).waitId, "rejected", reason),
    complete: async () =>
      (await reached(env.CODEMODE_WORKFLOW, id, "complete")).output as CodeOutcome[],
    failed: () => reached(env.CODEMODE_WORKFLOW, id, "errored"),
  };
}

/** Dies once, at that point, and notes that. */
export function dyingAt(
  point: "before" | "after",
  what: string,
): CodemodeHooks & { hasDied: boolean } {
  const hooks = {
    hasDied: false,
    [point]: async (happened: string, agent: CodemodeAgent) => {
      if (happened !== what || hooks.hasDied) return;
      hooks.hasDied = true;
      await agent.die();
    },
  };
  return hooks;
}

/** A hook that keeps a step from waiting, and its timeout from running, until the agent is in this state. */
export function waitingFrom(isReached: (agent: CodemodeAgent) => Promise<boolean>) {
  return {
    after: async (happened: string, agent: CodemodeAgent) => {
      if (happened === "openWait") await until(() => isReached(agent));
    },
  };
}

/** The code has asked for an approval. */
export const isAsked = async (agent: CodemodeAgent) => (await agent.openApprovals()).length > 0;
