/** Two agents use one id for an instance of a Workflow: the second one gets an error, and the first one keeps its instance. */

import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import { capabilitiesOf } from "../../../src/hosts/public.ts";
import { workflow } from "../../../src/outbox/index.ts";
import { givenThink, refusal, until } from "../../support/given.ts";
import { arrival, call } from "../../support/inbound.ts";
import { creating, deadLetters, type ThinkAgent } from "../../support/think-agent.ts";
import { workflowBodies } from "../../support/workflows/scripted-workflow.ts";

const RETURN = { ifExists: "return" } as const;

function agent(name: string) {
  const stub = () => givenThink(name);
  const inside = <T>(work: (agent: ThinkAgent, ctx: DurableObjectState) => T | Promise<T>) =>
    runInDurableObject(stub() as unknown as DurableObjectStub<ThinkAgent>, work) as Promise<T>;
  return {
    name,
    inside,
    run: (id: string, options: object = {}) =>
      inside((agent) => agent.runWorkflow("SCRIPTED_WORKFLOW", { by: name }, { id, ...options })),
    tracked: (id: string) => inside((agent) => agent.getWorkflow(id)?.workflowName ?? null),
    stats: () => capabilitiesOf(stub()).outbox.stats(),
    /** Puts a start in a transaction that nothing waits for. */
    put: (id: string, options: object = {}) =>
      inside((agent, { storage }) =>
        storage.transactionSync(() =>
          agent.outbox.put(workflow("SCRIPTED_WORKFLOW", { id, ...options })),
        ),
      ),
    letter: () => until(() => deadLetters.get(name)),
    crash: () =>
      inside(async (_, ctx) => {
        await ctx.storage.sync();
        ctx.abort("crash");
      }).catch(() => {}),
  };
}

/** Two agents, and an id that the first one has started: its workflow waits for the test. */
async function given() {
  const id = `shared-${crypto.randomUUID()}`;
  const ends = Promise.withResolvers<void>();
  workflowBodies.set(id, async (step) => {
    await step.do("wait", () => ends.promise);
  });
  const [acme, globex] = [agent(`acme-${id}`), agent(`globex-${id}`)];
  await acme.run(id);
  const instance = await env.SCRIPTED_WORKFLOW.get(id);
  const status = async () => (await instance.status()).status;
  await until(async () => (await status()) === "running");
  return { id, acme, globex, status, end: ends.resolve };
}

const REFUSAL = {
  name: "WorkflowExistsError",
  message: expect.stringMatching(
    /instance\.already_exists.* this agent has not started.*contains the name of the agent/,
  ),
};
const NOTHING = { waiting: 0, deadLetters: 0 };

afterEach(() => creating.clear());

describe("an id that another agent has", () => {
  it.each(["return", "throw"])(
    "W6: with ifExists %s, a call rejects, and the agent tracks nothing and cannot terminate the instance",
    async (ifExists) => {
      const { id, acme, globex, status, end } = await given();
      expect(await refusal(globex.run(id, { ifExists }))).toMatchObject(REFUSAL);
      expect(await globex.tracked(id)).toBeNull();
      expect(await globex.stats()).toEqual(NOTHING);
      const refused = await refusal(globex.inside((agent) => agent.terminateWorkflow(id)));
      expect(refused.message).toContain("not found in tracking table");
      expect(await status()).toBe("running");
      expect(await acme.run(id, RETURN)).toBe(id);
      end();
      await until(async () => (await status()) === "complete");
      // Also after its end.
      expect(await refusal(globex.run(id, RETURN))).toMatchObject(REFUSAL);
    },
  );

  it("W6: a start that nothing waits for is a dead letter, also when it is sent again after a restart", async () => {
    const { id, globex, end } = await given();
    const key = await globex.put(id, RETURN);
    expect(await globex.letter()).toMatchObject({ id: key, lastError: REFUSAL.message });
    deadLetters.delete(globex.name);
    await globex.crash();
    await globex.inside((agent) => agent.outbox.redrive(key));
    expect(await globex.letter()).toMatchObject({ id: key, lastError: REFUSAL.message });
    expect(await globex.tracked(id)).toBeNull();
    // A later call, whose caller gets the error.
    expect(await refusal(globex.run(id, RETURN))).toMatchObject(REFUSAL);
    end();
  });

  it("W6: the start of an accepted arrival is a dead letter", async () => {
    const { id, globex, end } = await given();
    const args = ["SCRIPTED_WORKFLOW", {}, { id, ...RETURN }];
    const accepted = await givenThink(globex.name).callKernel(
      "acceptArrival",
      call(arrival(id), "runWorkflow", args),
    );
    expect(accepted).toEqual({ verdict: "accepted", result: id });
    expect(await globex.letter()).toMatchObject({
      id: `start:${id}`,
      lastError: REFUSAL.message,
    });
    expect(await globex.tracked(id)).toBeNull();
    end();
  });

  it("W6: a sub-agent has ids of its own: that of its parent is refused", async () => {
    const { id, acme, end } = await given();
    const child = `child-of-${acme.name}`;
    const error = await refusal(
      acme.inside(async (agent) => {
        const stub = await agent.subAgent(agent.constructor as typeof ThinkAgent, child);
        return stub.startScripted(id, RETURN);
      }),
    );
    expect(error.message).toMatch(REFUSAL.message.sample);
    end();
  });

  it("W6: an instance that was started by create() of the binding is refused", async () => {
    const { globex, id, end } = await given();
    const other = `${id}-2`;
    await env.SCRIPTED_WORKFLOW.create({ id: other, params: { by: globex.name } });
    expect(await refusal(globex.run(other, RETURN))).toMatchObject(REFUSAL);
    expect(await globex.tracked(other)).toBeNull();
    end();
  });
});

describe("an attempt whose answer was lost", () => {
  /** The first create() of this agent is lost before or after the instance exists. */
  const loseAnswer = (name: string, isAfter: boolean, die: () => Promise<unknown>) =>
    creating.set(name, async (create) => {
      creating.delete(name);
      if (isAfter) await create();
      await die();
      throw new Error("Workflows cannot be reached");
    });

  it.each(["fails", "crashes"])(
    "W6: an agent that %s during create() does not take the instance of another agent",
    async (how) => {
      const { id, globex, status, end } = await given();
      const die = await globex.inside((_, ctx) => async () => {
        if (how === "fails") return;
        await ctx.storage.sync();
        ctx.abort("crash");
      });
      loseAnswer(globex.name, false, die);
      await globex.put(id, RETURN).catch(() => {});
      const letter = await until(async () => {
        await globex.stats();
        return deadLetters.get(globex.name);
      });
      expect(letter.lastError).toMatch(REFUSAL.message.sample);
      expect(await globex.tracked(id)).toBeNull();
      expect(await status()).toBe("running");
      end();
    },
  );

  it("W6: an instance that has not started is tracked when it says whose it is", async () => {
    const id = `queued-${crypto.randomUUID()}`;
    workflowBodies.set(id, async () => {});
    const acme = agent(`acme-${id}`);
    const { get } = env.SCRIPTED_WORKFLOW;
    let asked = 0;
    using _queued = vi.spyOn(env.SCRIPTED_WORKFLOW, "get").mockImplementation(async (name) => {
      const instance = await get.call(env.SCRIPTED_WORKFLOW, name);
      const never = { next: () => new Promise<never>(() => {}), [Symbol.dispose]: () => {} };
      const subscribe = async (options?: WorkflowInstanceSubscribeOptions) =>
        asked++ ? instance.subscribe(options) : never;
      return { id: name, status: () => instance.status(), subscribe } as WorkflowInstance;
    });
    loseAnswer(acme.name, true, async () => {});
    const key = await acme.put(id, RETURN);
    const state = await until(() =>
      acme.inside(async ({ outbox }) => {
        const found = await outbox.inspect(key);
        return found?.state === "waiting" && found.attempt === 3 && found;
      }),
    );
    expect(state.lastError).toContain("does not say whose it is before it has started");
    await acme.inside(({ outbox }) => outbox.redrive(key));
    await until(async () => (await acme.tracked(id)) !== null);
    expect(asked).toBe(2);
    expect(await acme.stats()).toEqual(NOTHING);
  });

  it.each([RETURN, {}])(
    "W6: the agent's own instance is tracked when create() has failed after it: %j",
    async (options) => {
      const id = `own-${crypto.randomUUID()}`;
      workflowBodies.set(id, async () => {});
      const acme = agent(`acme-${id}`);
      loseAnswer(acme.name, true, async () => {});
      expect(await acme.run(id, options)).toBe(id);
      expect(await acme.tracked(id)).toBe("SCRIPTED_WORKFLOW");
      expect(await acme.stats()).toEqual(NOTHING);
    },
  );
});
