/** M1 and M4 for tenants: limits with keys, for turns that nobody submits by `submitMessages()`. */

import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, it, vi } from "vitest";
import { type GivenAgent, givenAgent, refusal, until } from "../app/given.ts";
import { Hold } from "../app/hold.ts";
import type { Host, Verbs } from "../app/hosts.ts";
import { type ChatClient, message } from "../app/messages.ts";
import { deployedTasks, makeTasks, SCHEDULED } from "../app/tasks.ts";
import type { Owner } from "../app/workflows.ts";
import { send } from "./arrivals.ts";

/** Submits one turn for an owner by an agent of its own. */
type Way = (agent: GivenAgent, owner: Owner) => Promise<unknown>;

type RunOptions = NonNullable<Parameters<Verbs["runWorkflow"]>[2]>;

const prompt = "mine";

const WAYS: Readonly<Record<string, Way>> = {
  "step.prompt()": (agent, options) => agent.start({ step: "text", prompt, options }),
  "step.promptAll()": (agent, options) => agent.start({ step: "all", items: [prompt], options }),
  "step.prompt() of a run": (agent, owner) =>
    agent.start({ step: "text", prompt }, undefined, owner),
  "step.promptAll() of a run": (agent, owner) =>
    agent.start({ step: "all", items: [prompt] }, undefined, owner),
  "a scheduled prompt": async (agent, owner) => {
    deployedTasks.set(agent.name, makeTasks(agent.name, owner));
    await (await agent.capabilities()).schedules.trigger("ask", { key: "k" });
  },
};

/** An arrival whose handler calls a verb with the metadata of the arrival. */
const arrive =
  (call: "submit" | "ask"): Way =>
  (agent, { metadata }) =>
    send(agent, {
      id: crypto.randomUUID(),
      calls: [call],
      metadata: metadata as Record<string, string>,
    });

const ARRIVALS: typeof WAYS = {
  "submitMessages() of an arrival": arrive("submit"),
  "runWorkflow() of an arrival": arrive("ask"),
};

export function tenantsContract(host: Host): void {
  const given = () => givenAgent(host, `${SCHEDULED}${crypto.randomUUID()}`);

  const list = async (agent: GivenAgent) => (await agent.verbs()).listSubmissions();

  /** An agent for each way, with the one submission that it makes, when `isReached`. */
  const go = (ways: typeof WAYS, owner: Owner) =>
    Object.entries(ways).map(async ([way, submit]) => {
      const agent = given();
      await submit(agent, owner);
      const find = async (
        isReached: (found: Awaited<ReturnType<typeof list>>[number]) => unknown,
      ) =>
        until(
          async () => (await list(agent)).find(isReached),
          () => `the turn of ${way}`,
        );
      return { way, agent, find };
    });

  /** Uses the whole of a key until the test releases it. */
  const occupy = async (owner: Owner) => {
    const agent = given();
    const hold = new Hold();
    const submissionId = await agent.submit({ id: hold.id }, owner);
    await until(() => hold.arrived > 0);
    const release = () => {
      hold.release();
      return agent.untilEnded(submissionId);
    };
    return { release };
  };

  it("M4: the dollars of a tenant bind its prompts, its workflows, its schedules and what arrives for it", async () => {
    const metadata = { money: crypto.randomUUID() };
    const { release } = await occupy({ metadata });
    for (const { way, find } of await Promise.all(go({ ...WAYS, ...ARRIVALS }, { metadata }))) {
      const { errorName, metadata: own } = await find(({ completedAt }) => completedAt);
      expect({ way, errorName, own }).toMatchObject({
        way,
        errorName: "LimitReachedError",
        own: metadata,
      });
    }
    await release();
  });

  it("M4: a workflow spends no more of a tenant's dollars than there are, and its key is listed", async () => {
    const agent = given();
    const metadata = { money: crypto.randomUUID() };
    // Each costs 0.05 dollars of 1.50, and reserves 1 dollar before it.
    const items = Array.from({ length: 16 }, (_, index) => `${index}`);
    const plan = { step: "all", items, onError: "return", thread: "main" } as const;
    const output = await agent.untilOutput(await agent.start(plan, undefined, { metadata }));
    const ends = output as { status: string; reason?: { message: string } }[];
    const done = ends.filter(({ status }) => status === "fulfilled").length;
    expect(done).toBeGreaterThan(1);
    expect(done).toBeLessThanOrEqual(11);
    expect(ends.at(-1)).toMatchObject({ reason: { message: expect.stringContaining("money") } });
    const { limits } = await agent.capabilities();
    const [state] = (await limits.list({ name: "money", key: metadata.money })).items;
    expect(state?.usd?.used).toBeLessThanOrEqual(1.5);
    expect(state?.usd?.used).toBeGreaterThanOrEqual(done * 0.05);
  });

  it("M1: a prompt's own key of concurrency or rate holds across agents", async () => {
    const concurrency = { key: crypto.randomUUID(), limit: 1 };
    const { release } = await occupy({ concurrency });
    const waiting = await Promise.all(go(WAYS, { concurrency }));
    for (const { way, find } of waiting) {
      const { waitingFor } = await find((found) => found.status === "pending" && found.waitingFor);
      expect({ way, waitingFor }).toMatchObject({
        way,
        waitingFor: { limit: "concurrency", key: concurrency.key },
      });
    }
    const rate = { key: crypto.randomUUID(), limit: "1 per day" } as const;
    await given().submit("used", { rate });
    for (const { way, find } of await Promise.all(go(WAYS, { rate }))) {
      const { waitingFor } = await find((found) => found.status === "pending" && found.waitingFor);
      expect({ way, waitingFor }).toMatchObject({
        way,
        waitingFor: { limit: "rate", key: rate.key },
      });
    }
    await release();
    const [next] = await until(async () => {
      const all = await Promise.all(waiting.map(({ agent }) => list(agent)));
      const ended = all.flat().filter(({ completedAt }) => completedAt);
      return ended.length > 0 && ended;
    });
    expect(next).toMatchObject({ status: "completed" });
  });

  it("L4: a prompt with a higher priority goes first in its thread", async () => {
    const agent = given();
    const hold = new Hold();
    const first = await agent.submit({ id: hold.id, text: "held" });
    await until(() => hold.arrived > 0);
    const pending = (count: number) =>
      until(
        async () => (await list(agent)).filter((one) => one.status === "pending").length === count,
      );
    const options = { priority: 5 };
    const ids = [await agent.start({ step: "text", prompt: "plain" })];
    await pending(1);
    ids.push(await agent.start({ step: "text", prompt: "own", options }));
    await pending(2);
    ids.push(await agent.start({ step: "text", prompt: "of the run" }, undefined, { priority: 6 }));
    await pending(3);
    hold.release();
    for (const id of ids) await agent.untilOutput(id);
    await agent.untilEnded(first);
    const asked = (await agent.texts()).filter((text) => text.startsWith("user: ")).slice(1);
    expect(asked).toEqual(["user: of the run", "user: own", "user: plain"]);
  });

  it("W1 M4: a restarted run, and one whose agent has crashed, belong to the same tenant", async () => {
    const agent = given();
    const metadata = { money: crypto.randomUUID() };
    const { release } = await occupy({ metadata });
    const id = await agent.start({ step: "text", prompt }, undefined, { metadata, priority: 3 });
    await agent.untilWorkflow(id, "errored");
    await agent.crash();
    await (await agent.verbs()).restartWorkflow(id);
    const both = await until(async () => {
      const found = await list(agent);
      return found.length === 2 && found.every(({ completedAt }) => completedAt) && found;
    });
    for (const one of both) expect(one).toMatchObject({ errorName: "LimitReachedError", metadata });
    await agent.untilWorkflow(id, "errored");
    await release();
    await (await agent.verbs()).restartWorkflow(id);
    expect(await agent.untilOutput(id)).toBe(`You said: ${prompt}`);
  });

  it("M4: the report of an agent names a limit whose key no turn has had, until one has", async () => {
    const agent = given();
    const read = async () => {
      const { operations } = await agent.capabilities();
      const { findings } = await operations.healthReport();
      return findings.filter(({ code }) => code === "limit-not-applied");
    };
    expect(await read()).toEqual([]);
    const ids: string[] = [];
    for (const text of ["one", "two", "three"]) ids.unshift(await agent.submit(text));
    for (const id of ids) await agent.untilEnded(id);
    await agent.restart();
    const found = await read();
    expect(found.find(({ about }) => about === "money")).toMatchObject({
      title: expect.stringContaining("3 turns"),
      evidence: { count: 3, ids },
    });
    const metadata = { money: crypto.randomUUID() };
    await agent.untilOutput(await agent.start({ step: "text", prompt }, undefined, { metadata }));
    expect((await read()).map(({ about }) => about)).not.toContain("money");
  });

  it.runIf(["perdure/think", "perdure/chat"].includes(host.entry) && host.depth === 0)(
    "M4: the report of an agent names a limit whose key no turn of its chat clients has had",
    async () => {
      const agent = given();
      for (const text of ["one", "two", "three"])
        await runInDurableObject(agent.root, (object) =>
          (object as unknown as ChatClient).saveMessages([message(text)]),
        );
      const { operations } = await agent.capabilities();
      const { findings } = await operations.healthReport();
      expect(findings).toContainEqual(
        expect.objectContaining({
          code: "limit-not-applied",
          about: "money",
          title: expect.stringContaining("chat clients"),
        }),
      );
    },
  );

  it("W6 L1: options that no submission could have are refused at the call, and nothing is stored", async () => {
    const agent = given();
    const verbs = await agent.verbs();
    const refused: [RunOptions, string][] = [
      [{ priority: 101 }, "priority 101: expected a whole number from -100 to 100"],
      [{ rate: { key: "k", limit: "often" as "1 per day" } }, "rate.limit"],
      [{ concurrency: { key: "k", limit: 0 } }, "concurrency.limit 0"],
      [{ metadata: { perdure: 1 } }, 'key "perdure" in metadata'],
    ];
    for (const [options, problem] of refused) {
      const starting = verbs.runWorkflow(host.workflow, { step: "none" }, options);
      expect((await refusal(starting)).message).toContain(problem);
    }
    const steps: [Owner, string][] = [
      [{ metadata: { workflow: "mine" } }, "metadata"],
      [{ metadata: [] as never }, "Invalid metadata []: expected an object"],
      [{ priority: 1.5 }, "priority 1.5"],
      [{ concurrency: { key: "", limit: 1 } }, "concurrency.key"],
    ];
    for (const [options, problem] of steps)
      for (const plan of [
        { step: "text", prompt, options } as const,
        { step: "all", items: [prompt], options } as const,
      ]) {
        const { error } = await agent.untilWorkflow(await agent.start(plan), "errored", "complete");
        expect(error?.message).toContain(problem);
      }
    expect(await list(agent)).toEqual([]);
    deployedTasks.set(agent.name, makeTasks(agent.name, { priority: 101 }));
    await agent.restart();
    const { schedules } = await agent.capabilities();
    const { items } = await until(async () => {
      const listed = await schedules.list();
      return listed.items.some(({ state }) => state === "invalid") && listed;
    });
    expect(items.find(({ taskId }) => taskId === "ask")?.error?.message).toContain("priority 101");
  });

  it("W6 M4: a run that asks before its start has returned belongs to its tenant", async () => {
    const agent = given();
    const metadata = { money: crypto.randomUUID() };
    const { create } = host.workflows;
    using _late = vi.spyOn(host.workflows, "create").mockImplementation(async (options) => {
      const instance = await create.call(host.workflows, options);
      await until(async () => (await list(agent)).length > 0);
      return instance;
    });
    const id = await agent.start({ step: "text", prompt }, undefined, { metadata });
    expect(await agent.untilOutput(id)).toBe(`You said: ${prompt}`);
    expect(await list(agent)).toMatchObject([{ metadata }]);
  });

  it.runIf(host.depth === 0)(
    "M4: a run that asks another agent asks for its own tenant",
    async () => {
      const [agent, other] = [given(), given()];
      const [binding = ""] =
        Object.entries(env).find(([, namespace]) => (namespace as unknown) === host.objects) ?? [];
      const metadata = { money: crypto.randomUUID() };
      const { release } = await occupy({ metadata });
      const options = { agent: { binding, name: other.name } };
      await agent.start({ step: "text", prompt, options }, undefined, { metadata });
      const [asked] = await until(async () => {
        const found = await list(other);
        return found[0]?.completedAt && found;
      });
      expect(asked).toMatchObject({ errorName: "LimitReachedError", metadata });
      await release();
    },
  );
}
