/** A workflow is started exactly once and tracked, whatever crashes. */

import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import { capabilitiesOf } from "../../../src/hosts/public.ts";
import { workflow } from "../../../src/outbox/index.ts";
import { givenThink, refusal, until } from "../../support/given.ts";
import { creating, deadLetters, type ThinkAgent, thinkOptions } from "../../support/think-agent.ts";
import { workflowBodies } from "../../support/workflows/scripted-workflow.ts";

/** A workflow of a fresh agent, which counts its runs, and the params that it was given. */
function given() {
  const id = `start-${crypto.randomUUID()}`;
  const name = `agent-of-${id}`;
  const effects: unknown[] = [];
  workflowBodies.set(id, async (step) => {
    await step.do("effect", async () => void effects.push(id));
    await step.reportComplete("done");
    return "done";
  });
  const inside = <T>(work: (agent: ThinkAgent, ctx: DurableObjectState) => T | Promise<T>) =>
    runInDurableObject(
      givenThink(name) as unknown as DurableObjectStub<ThinkAgent>,
      work,
    ) as Promise<T>;
  const tracked = () => inside((agent) => agent.getWorkflow(id));
  return {
    id,
    name,
    effects,
    inside,
    tracked,
    /** Resolves when the agent knows that it has completed. */
    completed: () =>
      until(async () => {
        // The alarm would start the agent, too, within 30 seconds.
        await capabilitiesOf(givenThink(name)).outbox.stats();
        const found = await tracked();
        return found?.status === "complete" && found;
      }),
    inTransaction: (work: (agent: ThinkAgent) => unknown) =>
      inside((agent, ctx) => ctx.storage.transactionSync(() => work(agent))),
    rows: () =>
      inside(async (agent, { storage }) => {
        await agent.outbox.stats();
        return storage.sql.exec("SELECT id FROM perdure_outbox").toArray();
      }),
  };
}

const run = (agent: ThinkAgent, id: string, options: object = {}) =>
  agent.runWorkflow("SCRIPTED_WORKFLOW", { n: 1 }, { id, ...options });

afterEach(() => {
  creating.clear();
  vi.restoreAllMocks();
});

describe("runWorkflow() of agents", () => {
  it("W6: runWorkflow() resolves with the id of a tracked instance, with all options of the SDK", async () => {
    const { id, inside, effects, completed, rows } = given();
    const found = await inside(async (agent) => {
      const returned = await run(agent, id, {
        metadata: { user: "ann" },
        agentBinding: "ThinkAgent",
        retention: { successRetention: "1 day" },
      });
      return { returned, ...agent.getWorkflows({ metadata: { user: "ann" } }).workflows[0] };
    });
    expect(found).toMatchObject({
      returned: id,
      workflowId: id,
      workflowName: "SCRIPTED_WORKFLOW",
      metadata: { user: "ann" },
    });
    expect(await completed()).toMatchObject({ metadata: { user: "ann" }, error: null });
    expect(effects).toHaveLength(1);
    expect(await rows()).toEqual([]);
  });

  it("W6: runWorkflow() without an id generates one", async () => {
    const { inside } = given();
    const id = await inside((agent) => agent.runWorkflow("WAITING_WORKFLOW", {}));
    expect(id).toMatch(/^wf_[0-9a-f-]{36}$/);
    expect(await inside((agent) => agent.getWorkflow(id)?.workflowId)).toBe(id);
  });

  it("W6: an existing id throws, and with ifExists: return it returns the instance", async () => {
    const { id, inside, effects, completed, name } = given();
    await inside((agent) => run(agent, id));
    for (const ifExists of [undefined, "throw"]) {
      const error = await refusal(inside((agent) => run(agent, id, { ifExists })));
      expect(error).toMatchObject({
        name: "WorkflowExistsError",
        message: expect.stringContaining("instance.already_exists"),
      });
    }
    expect(await inside((agent) => run(agent, id, { ifExists: "return" }))).toBe(id);
    await completed();
    expect(effects).toHaveLength(1);
    // An agent that forgets what has completed, as the SDK's docs show.
    await inside((agent) => agent.deleteWorkflow(id));
    const error = await refusal(inside((agent) => run(agent, id)));
    expect(error.name).toBe("WorkflowExistsError");
    expect(await capabilitiesOf(givenThink(name)).outbox.stats()).toEqual({
      waiting: 0,
      deadLetters: 0,
    });
    expect(await inside((agent) => run(agent, id, { ifExists: "return" }))).toBe(id);
    expect(await inside((agent) => agent.getWorkflow(id)?.status)).toBe("complete");
    expect(effects).toHaveLength(1);
  });

  it("W6: an id of another workflow is refused, and nothing is created", async () => {
    const { id, inside } = given();
    await inside((agent) => run(agent, id));
    const start = (agent: ThinkAgent) =>
      agent.runWorkflow("APPROVAL_WORKFLOW", {}, { id, ifExists: "return" });
    expect((await refusal(inside(start))).name).toBe("WorkflowExistsError");
    await expect(env.APPROVAL_WORKFLOW.get(id)).rejects.toThrow("not_found");
  });

  it("W6: an agent whose binding cannot be detected gets an error, as from the SDK", async () => {
    const { id, inside, name } = given();
    const error = await refusal(
      inside((agent) => {
        Object.defineProperty(agent, "_workflowOrigin", { value: () => undefined });
        return run(agent, id);
      }),
    );
    expect(error.message).toContain("Could not detect Agent binding name");
    expect(await capabilitiesOf(givenThink(name)).outbox.countDeadLetters()).toBe(1);
  });

  it("W6: a workflow of a sub-agent is started durably, and tracked there", async () => {
    const { id, name, effects } = given();
    const child = `child-of-${name}`;
    expect(await givenThink(name).startScriptedOfChild(child, id)).toBe(id);
    await until(() => effects.length === 1);
    const again = await refusal(givenThink(name).startScriptedOfChild(child, id));
    expect(again.message).toContain("instance.already_exists");
  });
});

describe("in a transaction", () => {
  it("W6: a start commits with the agent's own rows", async () => {
    const { id, inTransaction, effects, completed } = given();
    await inTransaction((agent) => {
      agent.sql`CREATE TABLE orders (id TEXT)`;
      agent.sql`INSERT INTO orders VALUES (${id})`;
      void run(agent, id);
    });
    await completed();
    expect(effects).toHaveLength(1);
  });

  it("W6: a start in a rolled back transaction does not happen, and its promise rejects", async () => {
    const { id, inside, effects, rows } = given();
    const error = await refusal(
      inside((agent, { storage }) => {
        let started: Promise<string> | undefined;
        expect(() =>
          storage.transactionSync(() => {
            started = run(agent, id);
            throw new Error("no order");
          }),
        ).toThrow("no order");
        return started;
      }),
    );
    expect(error.message).toContain("the transaction was rolled back");
    expect(await rows()).toEqual([]);
    expect(effects).toEqual([]);
    expect(await inside((agent) => run(agent, id))).toBe(id);
  });

  it("W6: a crash right after the transaction loses no start", async () => {
    const { id, inside, effects, completed } = given();
    await inside(async (agent, ctx) => {
      ctx.storage.transactionSync(() => void run(agent, id).catch(() => {}));
      await ctx.storage.sync();
      ctx.abort("crash");
    }).catch(() => {});
    await completed();
    expect(effects).toHaveLength(1);
  });

  it.each([
    [
      "an unknown binding",
      "NOPE",
      {},
      {},
      /'NOPE' not found in environment. This Worker has .*"SCRIPTED_WORKFLOW".* Add it to "workflows"/,
    ],
    [
      "an id that the platform refuses",
      "SCRIPTED_WORKFLOW",
      {},
      { id: "a b" },
      /Invalid destination.instance "a b"/,
    ],
    [
      "half a surrogate pair",
      "SCRIPTED_WORKFLOW",
      {},
      { id: "👩".slice(0, 1) },
      /Invalid destination.instance/,
    ],
    ["a function", "SCRIPTED_WORKFLOW", { f: () => 1 }, {}, /params\.f is a function/],
    ["too much", "SCRIPTED_WORKFLOW", { t: "x".repeat(1_040_000) }, {}, /at most 1032192/],
    ["an unknown option", "SCRIPTED_WORKFLOW", {}, { retries: 3 }, /"retries"/],
    [
      "a wrong choice",
      "SCRIPTED_WORKFLOW",
      {},
      { ifExists: "keep" },
      /Invalid destination.ifExists "keep"/,
    ],
    [
      "a binding that there is not",
      "SCRIPTED_WORKFLOW",
      {},
      { agentBinding: "NOPE" },
      /"NOPE" as agentBinding/,
    ],
    [
      "a binding that is no agent's",
      "SCRIPTED_WORKFLOW",
      {},
      { agentBinding: "SCRIPTED_WORKFLOW" },
      /as agentBinding/,
    ],
    [
      "another agent's binding",
      "SCRIPTED_WORKFLOW",
      {},
      { agentBinding: "ToolAgent" },
      /expected a binding of /,
    ],
    [
      "a binding that is no text",
      "SCRIPTED_WORKFLOW",
      {},
      { agentBinding: 7 },
      /7 as agentBinding/,
    ],
  ])(
    "W6: %s is refused at the call, and rolls the transaction back",
    async (_, name, params, options, words) => {
      const { inside, rows } = given();
      await inside((agent, { storage }) => {
        agent.sql`CREATE TABLE orders (id TEXT)`;
        expect(() =>
          storage.transactionSync(() => {
            agent.sql`INSERT INTO orders VALUES ('one')`;
            void agent.runWorkflow(name, params, options as object);
          }),
        ).toThrow(words);
        expect(agent.sql`SELECT * FROM orders`).toEqual([]);
      });
      expect(await rows()).toEqual([]);
    },
  );
});

describe("an agent whose class was renamed", () => {
  /** As a deploy would leave it whose bindings still have the old name. */
  const rename = (agent: ThinkAgent) =>
    Object.defineProperty(agent, "selfPath", {
      value: [{ className: "Renamed", name: agent.name }],
      configurable: true,
    });

  it("W6: a start without agentBinding is refused at the call, and so is one of the outbox", async () => {
    const { id, inside, rows } = given();
    await inside((agent) => {
      rename(agent);
      const words = /no Durable Object binding is named like its agent's class Renamed/;
      expect(() => run(agent, id)).toThrow(words);
      expect(() => agent.outbox.put(workflow("SCRIPTED_WORKFLOW", { id }))).toThrow(words);
      expect(() => run(agent, id)).toThrow(
        /Add it to "durable_objects.bindings" in the Wrangler configuration, or pass agentBinding to runWorkflow\(\)\.$/,
      );
    });
    expect(await rows()).toEqual([]);
  });

  it("W6: a start stored before the rename becomes a dead letter that names the remedy, and starts after it", async () => {
    const { id, inside, name, effects, completed } = given();
    creating.set(name, () => Promise.reject(new Error("Workflows cannot be reached")));
    const key = await inside(async (agent) => {
      void run(agent, id).catch(() => {});
      const key = `start:${id}`;
      await until(async () => {
        const found = await agent.outbox.inspect(key);
        return found?.state === "waiting" && found.lastError;
      });
      rename(agent);
      await agent.outbox.redrive(key);
      return key;
    });
    const letter = await until(() => deadLetters.get(name));
    expect(letter.lastError).toMatch(/is named like its agent's class Renamed/);
    expect(letter.lastError).toContain(`start it with outbox.redrive("${key}")`);
    creating.delete(name);
    await inside((agent) => {
      Reflect.deleteProperty(agent, "selfPath");
      return agent.outbox.redrive(key);
    });
    await completed();
    expect(effects).toHaveLength(1);
  });
});

describe("two callers", () => {
  it("W6: two calls at once with ifExists return start one instance, and both resolve", async () => {
    const { id, inside, effects, completed } = given();
    const ids = await inside((agent) =>
      Promise.all([1, 2, 3].map(() => run(agent, id, { ifExists: "return" }))),
    );
    expect(ids).toEqual([id, id, id]);
    await completed();
    expect(effects).toHaveLength(1);
  });

  it("W6: of two calls at once, the one that accepts an instance resolves, and the other one rejects", async () => {
    const { id, inside, effects } = given();
    // An instance that the agent does not track.
    await inside((agent) => run(agent, id));
    await inside((agent) => agent.deleteWorkflow(id));
    const found = await inside((agent) =>
      Promise.allSettled([run(agent, id), run(agent, id, { ifExists: "return" })]),
    );
    expect(found).toMatchObject([
      { status: "rejected", reason: { name: "WorkflowExistsError" } },
      { status: "fulfilled", value: id },
    ]);
    expect(effects.length).toBeLessThanOrEqual(1);
    expect(await inside((agent) => agent.getWorkflow(id)?.workflowId)).toBe(id);
  });

  it("W6: two calls in a transaction that is rolled back start nothing, and both reject", async () => {
    const { id, inside, effects, rows } = given();
    const found = await inside((agent, { storage }) => {
      const calls: Promise<string>[] = [];
      expect(() =>
        storage.transactionSync(() => {
          for (let n = 0; n < 2; n++) calls.push(run(agent, id, { ifExists: "return" }));
          throw new Error("no order");
        }),
      ).toThrow("no order");
      return Promise.allSettled(calls);
    });
    const reason = { message: expect.stringContaining("the transaction was rolled back") };
    expect(found).toMatchObject([
      { status: "rejected", reason },
      { status: "rejected", reason },
    ]);
    expect(await rows()).toEqual([]);
    expect(effects).toEqual([]);
  });
});

describe("one id for two Workflows", () => {
  const other = (agent: ThinkAgent, id: string) =>
    agent.runWorkflow("APPROVAL_WORKFLOW", {}, { id, ifExists: "return" });
  const refused = (id: string) => ({
    name: "WorkflowExistsError",
    workflow: "APPROVAL_WORKFLOW",
    instance: id,
    message: expect.stringMatching(
      `"${id}" of Workflow APPROVAL_WORKFLOW: .*SCRIPTED_WORKFLOW has it.*Use another id`,
    ),
  });
  const expectNoOther = (id: string) =>
    expect(env.APPROVAL_WORKFLOW.get(id)).rejects.toThrow("not_found");

  it("W6: of two calls at once for two Workflows the second rejects, and creates nothing", async () => {
    const { id, inside, name, rows, completed } = given();
    const found = await inside((agent) =>
      Promise.allSettled([run(agent, id, { ifExists: "return" }), other(agent, id)]),
    );
    expect(found).toMatchObject([
      { status: "fulfilled", value: id },
      { status: "rejected", reason: refused(id) },
    ]);
    await completed();
    expect(await rows()).toEqual([]);
    expect(await capabilitiesOf(givenThink(name)).outbox.stats()).toEqual({
      waiting: 0,
      deadLetters: 0,
    });
    await expectNoOther(id);
    // Also when the first one is tracked.
    expect(await refusal(inside((agent) => other(agent, id)))).toMatchObject(refused(id));
    await expectNoOther(id);
  });

  it("W6: of two calls in one transaction for two Workflows the second rejects", async () => {
    const { id, inside, completed } = given();
    const found = await inside((agent, { storage }) =>
      Promise.allSettled(storage.transactionSync(() => [run(agent, id), other(agent, id)])),
    );
    expect(found).toMatchObject([{ value: id }, { reason: refused(id) }]);
    await completed();
    await expectNoOther(id);
  });

  it("W6: a call for another Workflow rejects while create() of the first one has not answered", async () => {
    const { id, inside, name, completed } = given();
    const { promise: released, resolve: release } = Promise.withResolvers<void>();
    let isCreating = false;
    creating.set(name, async (create) => {
      isCreating = true;
      await released;
      return create();
    });
    const found = await inside(async (agent) => {
      const first = run(agent, id);
      await until(() => isCreating);
      const error = await refusal(other(agent, id));
      release();
      return { error, first: await first };
    });
    expect(found).toMatchObject({ error: refused(id), first: id });
    await completed();
    await expectNoOther(id);
  });

  it.each(["before", "after"])(
    "W6: a call for another Workflow rejects after a crash %s the first one was created",
    async (moment) => {
      const { id, inside, name, effects, completed } = given();
      const die = await inside((_, ctx) => async () => {
        await ctx.storage.sync();
        ctx.abort("crash");
      });
      let isBack = false;
      const { promise: released, resolve: release } = Promise.withResolvers<void>();
      creating.set(name, async (create) => {
        if (isBack) {
          await released;
          return create();
        }
        isBack = true;
        if (moment === "after") await create();
        await die();
        throw new Error("crash");
      });
      await inside((agent) => run(agent, id)).catch(() => {});
      expect(await inside((agent) => agent.getWorkflow(id))).toBeUndefined();
      const error = await refusal(inside((agent) => other(agent, id)));
      release();
      expect(error).toMatchObject(refused(id));
      await completed();
      expect(effects).toHaveLength(1);
      await expectNoOther(id);
    },
  );

  it("W6: a call for another Workflow rejects while the first start is a dead letter, which can be redriven", async () => {
    const { id, inside, name, completed } = given();
    creating.set(name, async () => {
      throw new Error("(instance.invalid_id) Instance ID is invalid");
    });
    await refusal(inside((agent) => run(agent, id)));
    const letter = await until(() => deadLetters.get(name));
    expect(await refusal(inside((agent) => other(agent, id)))).toMatchObject(refused(id));
    creating.delete(name);
    await inside((agent) => agent.outbox.redrive(letter.id));
    await completed();
    await expectNoOther(id);
  });

  it("W6: after a start that was rolled back, another Workflow can have its id in the same tick", async () => {
    const { id, inside } = given();
    const [first, second] = await inside((agent, { storage }) => {
      const calls: Promise<string>[] = [];
      expect(() =>
        storage.transactionSync(() => {
          calls.push(run(agent, id));
          throw new Error("no order");
        }),
      ).toThrow("no order");
      calls.push(agent.runWorkflow("WAITING_WORKFLOW", {}, { id }));
      return Promise.allSettled(calls);
    });
    expect(first).toMatchObject({
      status: "rejected",
      reason: { message: expect.stringContaining("the transaction was rolled back") },
    });
    expect(second).toMatchObject({ status: "fulfilled", value: id });
    expect(await inside((agent) => agent.getWorkflow(id)?.workflowName)).toBe("WAITING_WORKFLOW");
    await expect(env.SCRIPTED_WORKFLOW.get(id)).rejects.toThrow("not_found");
  });

  it("W6: outbox.put(workflow()) throws while a start of another Workflow is stored, and is a dead letter later", async () => {
    const { id, inside, name, completed } = given();
    const put = (agent: ThinkAgent) => agent.outbox.put(workflow("APPROVAL_WORKFLOW", { id }));
    await inside(async (agent) => {
      const started = run(agent, id);
      expect(() => put(agent)).toThrow(expect.objectContaining(refused(id)));
      await started;
    });
    await inside(put);
    const letter = await until(() => deadLetters.get(name));
    expect(letter.lastError).toMatch(refused(id).message.sample);
    await completed();
    await expectNoOther(id);
  });
});

describe("a create() that never answers", () => {
  it.each(["before", "after"])(
    "W6: a create() that hangs %s the instance exists is called once, and the workflow runs once",
    async (moment) => {
      const { id, inside, name, effects, completed } = given();
      thinkOptions.set(name, { outbox: { policy: { timeout: 300, backoff: { cap: 50 } } } });
      let calls = 0;
      creating.set(name, async (create) => {
        calls++;
        if (moment === "after") await create();
        return new Promise(() => {});
      });
      await inside(async (agent) => {
        void run(agent, id).catch(() => {});
        // Other attempts fail, or find the instance that it has created.
        const key = `start:${id}`;
        await until(async () => {
          const found = await agent.outbox.inspect(key);
          return found === null || found.attempt > 2;
        });
      });
      expect(calls).toBe(1);
      creating.delete(name);
      // An instance that is not created yet waits for the next start of the object.
      if (moment === "before") {
        await inside(async (_, ctx) => {
          await ctx.storage.sync();
          ctx.abort("crash");
        }).catch(() => {});
      }
      await completed();
      expect(effects).toHaveLength(1);
    },
  );
});

it("W6: a start in an asynchronous transaction that is rolled back happens whole or not at all", async () => {
  const { id, inside, name, effects, completed } = given();
  await capabilitiesOf(givenThink(name)).outbox.stats();
  const call = await inside(async (agent, { storage }) => {
    let started: Promise<string> | undefined;
    const transaction = storage.transaction(async () => {
      started = run(agent, id);
      started.catch(() => {});
      throw new Error("no order");
    });
    await transaction.catch(() => {});
    const [call] = await Promise.allSettled([started]);
    return call;
  });
  // It may have left before the transaction was over, as the docs of put() say.
  if (call?.status === "fulfilled") {
    await completed();
    expect(effects).toHaveLength(1);
  } else {
    expect(call?.reason.message).toContain("the transaction was rolled back");
    expect(effects).toEqual([]);
  }
  expect(await capabilitiesOf(givenThink(name)).outbox.stats()).toEqual({
    waiting: 0,
    deadLetters: 0,
  });
});

describe("a crash", () => {
  it.each(["before", "after"])(
    "W6: a crash right %s the platform creates the instance starts it once, and tracks it",
    async (moment) => {
      const { id, inside, name, effects, completed, rows } = given();
      const die = await inside((_, ctx) => async () => {
        await ctx.storage.sync();
        ctx.abort("crash");
      });
      creating.set(name, async (create) => {
        creating.delete(name);
        if (moment === "after") {
          const instance = await create();
          // Its report of the end finds an agent that does not track it.
          await until(async () => (await instance.status()).status === "complete");
        }
        await die();
        throw new Error("crash");
      });
      await inside((agent) => run(agent, id, { metadata: { user: "ann" } })).catch(() => {});
      expect(await completed()).toMatchObject({ metadata: { user: "ann" } });
      expect(effects).toHaveLength(1);
      expect(await until(async () => (await rows()).length === 0)).toBe(true);
    },
  );
});

describe("a platform that fails", () => {
  it("W6: runWorkflow() resolves when the instance exists, after failed attempts", async () => {
    const { id, inside, name, effects, completed } = given();
    let fails = 2;
    creating.set(name, async (create) => {
      if (fails-- > 0) throw new Error("Workflows cannot be reached");
      return create();
    });
    expect(await inside((agent) => run(agent, id))).toBe(id);
    expect(fails).toBe(-1);
    await completed();
    expect(effects).toHaveLength(1);
  });

  it("W6: runWorkflow() resolves after ten seconds if the platform is down, and the start is retried", async () => {
    const { id, inside, name, effects, completed } = given();
    using log = vi.spyOn(console, "warn").mockImplementation(() => {});
    let isDown = true;
    creating.set(name, async (create) => {
      if (isDown) throw new Error("Workflows cannot be reached");
      return create();
    });
    // It counts ten seconds.
    const { setInterval } = globalThis;
    using _ = vi
      .spyOn(globalThis, "setInterval")
      .mockImplementation(((work: () => void, after = 0) =>
        setInterval(work, after === 1_000 ? 20 : after)) as typeof setInterval);
    expect(await inside((agent) => run(agent, id))).toBe(id);
    expect(log.mock.calls.flat().join()).toContain(`${id} has not started within 10 s`);
    expect(await inside((agent) => agent.getWorkflow(id))).toBeUndefined();
    // A second call knows of the first.
    expect((await refusal(inside((agent) => run(agent, id)))).name).toBe("WorkflowExistsError");
    isDown = false;
    await inside((agent) => agent.outbox.redrive(`start:${id}`));
    await completed();
    expect(effects).toHaveLength(1);
  });

  it("W6: a start that the platform refuses rejects, becomes a dead letter, and can be redriven", async () => {
    const { id, inside, name, effects, completed } = given();
    creating.set(name, async () => {
      throw new Error("(instance.invalid_id) Instance ID is invalid");
    });
    const error = await refusal(inside((agent) => run(agent, id)));
    expect(error.message).toContain("instance.invalid_id");
    await until(() => deadLetters.get(name));
    const key = `start:${id}`;
    expect(deadLetters.get(name)).toMatchObject({ id: key, event: { params: { n: 1 } } });
    creating.delete(name);
    const again = await refusal(inside((agent) => run(agent, id)));
    expect(again.message).toContain(`outbox.redrive("${key}")`);
    // A webhook that comes again, or an operator.
    expect(await inside((agent) => run(agent, id, { ifExists: "return" }))).toBe(id);
    await completed();
    expect(effects).toHaveLength(1);
  });
});

describe("outbox.put(workflow())", () => {
  it("W6: outbox.put(workflow()) of an agent starts and tracks the instance", async () => {
    const { id, inTransaction, effects, completed } = given();
    await inTransaction((agent) =>
      agent.outbox.put(workflow("SCRIPTED_WORKFLOW", { id, params: { n: 1 }, metadata: { a: 1 } })),
    );
    expect(await completed()).toMatchObject({ metadata: { a: 1 } });
    expect(effects).toHaveLength(1);
  });

  it("W6: outbox.put(workflow()) with an existing id becomes a dead letter, and onProblem() is called", async () => {
    const { id, inside, name, effects, completed } = given();
    await inside((agent) => run(agent, id));
    await completed();
    const key = await inside((agent) => agent.outbox.put(workflow("SCRIPTED_WORKFLOW", { id })));
    await until(() => deadLetters.get(name));
    expect(deadLetters.get(name)).toMatchObject({
      id: key,
      lastError: expect.stringContaining("already_exists"),
    });
    await inside((agent) => agent.outbox.deleteDeadLetter(key));
    await inside((agent) =>
      agent.outbox.put(workflow("SCRIPTED_WORKFLOW", { id, ifExists: "return" })),
    );
    await until(async () => (await capabilitiesOf(givenThink(name)).outbox.inspect(key)) === null);
    expect(effects).toHaveLength(1);
  });
});
