/** A root agent keeps the wakes of its sub-agents, whatever it installs itself. One that cannot is said at the call. */

import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { getSubAgentByName } from "agents";
import { expect, it } from "vitest";
import { capabilitiesOf } from "../../../src/hosts/public.ts";
import { CAPABILITIES } from "../../../src/hosts/verbs.ts";
import { virtualClock } from "../../../src/testing/index.ts";
import { message, refusal, until } from "../../support/given.ts";
import { HANG_MS } from "../../support/sizes.ts";
import { type BareRoot, childOf, PlainRoot, TickingChild } from "./roots-agents.ts";

it("S1: the tasks of a sub-agent run under a root without schedules(), also after a restart", async () => {
  using clock = virtualClock({ patience: HANG_MS });
  const name = crypto.randomUUID();
  const { schedules } = capabilitiesOf(await childOf(env.BareRoot.getByName(name)));
  expect(await schedules.list()).toMatchObject({ items: [{ taskId: "tick", state: "active" }] });
  for (const ticks of [1, 2]) {
    await clock.advance("61 seconds");
    // Only the root has an alarm.
    expect(await runDurableObjectAlarm(env.BareRoot.getByName(name))).toBe(true);
    const child = await childOf(env.BareRoot.getByName(name));
    await until(async () => (await child.ticks()) === ticks);
    const crash = (_: unknown, ctx: DurableObjectState) => ctx.abort("crash");
    await runInDurableObject(env.BareRoot.getByName(name), crash).catch(() => {});
  }
  const again = capabilitiesOf(await childOf(env.BareRoot.getByName(name)));
  await again.schedules.pause("tick");
  const run = await again.schedules.trigger("tick", { key: "once" });
  expect(run).toMatchObject({ taskId: "tick" });
});

it("S1: a root reads no jobs of features that it does not install, when it deletes a sub-agent", async () => {
  using clock = virtualClock({ patience: HANG_MS });
  const root = env.BareRoot.getByName(crypto.randomUUID());
  await capabilitiesOf(await childOf(root)).schedules.list();
  const reads = await runInDurableObject(root, async (agent: BareRoot) => {
    agent.meter.reset();
    await agent.deleteSubAgent(TickingChild, "child");
    return agent.meter.statementsOf((query) =>
      /SELECT .* FROM cf_agents_jobs WHERE cap/.test(query),
    );
  });
  // Of submissions, the outbox and waits before the deletion and after it, and 3 of agents.
  expect(reads).toBe(2 * 3 + 3);
  // Its task's wake finds no agent.
  await clock.advance("61 seconds");
  await runDurableObjectAlarm(root);
  const jobs = await runInDurableObject(root, (_, { storage }) =>
    storage.sql.exec("SELECT id FROM cf_agents_jobs WHERE id LIKE 'perdure.%'").toArray(),
  );
  expect(jobs).toEqual([]);
});

/** What each call of a sub-agent that stores work is refused with. */
async function refusalsOf(child: Awaited<ReturnType<typeof childOf>>) {
  const refused: string[] = [];
  for (const work of [
    () => child.put("one"),
    () => child.start(),
    () => child.submitMessages([message("hello")]),
    () => capabilitiesOf(child).schedules.trigger("tick"),
  ]) {
    const error = await refusal(work() as Promise<unknown>);
    expect(error.name).toBe("RootAgentError");
    refused.push(error.message);
  }
  expect(await child.listSubmissions()).toEqual([]);
  expect((await capabilitiesOf(child).schedules.runs("tick")).items).toEqual([]);
  expect((await capabilitiesOf(child).outbox.stats()).waiting).toBe(0);
  return refused;
}

/** Handles what sub-agents send to the modules of their root. */
const onRoutes = (
  root: DurableObjectStub<BareRoot>,
  handle: (verb: string, route: () => Promise<number | null>) => Promise<number | null>,
) =>
  runInDurableObject(root, (agent: BareRoot) => {
    const { outbox } = agent[CAPABILITIES];
    const onRoute = outbox.onRoute.bind(outbox);
    outbox.onRoute = (context) =>
      handle((context.payload as { verb: string }).verb, () => onRoute(context));
  });

it("L1: a sub-agent of a root without Perdure refuses work, and stores nothing", async () => {
  const child = await childOf(env.PlainRoot.getByName(crypto.randomUUID()));
  for (const refused of await refusalsOf(child)) {
    expect(refused).toMatch(/has no Perdure.* Let the root's class extend DurableAgent/);
  }
});

it("L1: a sub-agent refuses work while its root cannot be reached, stores nothing, and accepts it afterwards", async () => {
  const root = env.BareRoot.getByName(crypto.randomUUID());
  let isLost = true;
  await onRoutes(root, (_, route) =>
    isLost ? Promise.reject(new Error("Network connection lost.")) : route(),
  );
  const child = await childOf(root);
  for (const refused of await refusalsOf(child)) {
    expect(refused).toMatch(
      /could not be reached.* Call again\. The reason: Network connection lost\.$/,
    );
  }
  isLost = false;
  expect(await child.submitMessages([message("hello")])).toMatchObject({ accepted: true });
  expect(await child.put("one")).toBe("one");
});

it("L1: a call that cannot wait for the root refuses work until the root has answered", async () => {
  const root = env.BareRoot.getByName(crypto.randomUUID());
  let isLost = true;
  await onRoutes(root, (_, route) => (isLost ? Promise.reject(new Error("lost")) : route()));
  const child = await childOf(root);
  await child.ticks();
  isLost = false;
  await refusal(child.put("one") as unknown as Promise<unknown>);
  await until(async () => (await child.put("one")) === "one");
});

it("L1: a sub-agent that accepts work asks its root once", async () => {
  const root = env.BareRoot.getByName(crypto.randomUUID());
  const verbs: string[] = [];
  await onRoutes(root, (verb, route) => {
    verbs.push(verb);
    return route();
  });
  const child = await childOf(root);
  await child.put("one");
  await child.submitMessages([message("hello")]);
  await capabilitiesOf(child).schedules.trigger("tick");
  expect(verbs.filter((verb) => verb === "ping")).toHaveLength(1);
});

it("an agent without Perdure is told from one whose own code throws an error that quotes it", async () => {
  const plain = env.PlainRoot.getByName(crypto.randomUUID());
  for (const stub of [plain, await getSubAgentByName(plain as never, PlainRoot, "child")]) {
    const error = await refusal(capabilitiesOf(stub as never).outbox.stats() as Promise<unknown>);
    expect(error.name).toBe("NotDurableError");
  }
  const root = env.BareRoot.getByName(crypto.randomUUID());
  const text =
    'The stock has no "callKernel": The RPC receiver does not implement the method "callKernel".';
  await runInDurableObject(root, (agent) => {
    const list = () => Promise.reject(new TypeError(text));
    Object.defineProperty(agent, "approvals", { value: { list } });
  });
  const error = await refusal(capabilitiesOf(root).approvals.list() as Promise<unknown>);
  expect(error).toMatchObject({ name: "TypeError", message: text });
});
