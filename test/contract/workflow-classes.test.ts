/** A workflow class can inherit `run()`, and can call `super.run()`: payload, steps and agent are the same. */

import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { ask, modelCalls } from "../../src/testing/index.ts";
import { until } from "../support/given.ts";
import { Given, type Host, type Verbs } from "./host.ts";
import { type Order, runs } from "./hosts/workflow-classes.ts";

type Side = Pick<Host, "objects" | "at">;

const SIDES: Record<"AGENT" | "OBJECT", Side> = {
  AGENT: {
    objects: env.AgentHost as unknown as DurableObjectNamespace<undefined>,
    at: async (name) => env.AgentHost.getByName(name) as unknown as Verbs,
  },
  OBJECT: {
    objects: env.ObjectHost as unknown as DurableObjectNamespace<undefined>,
    at: async (name) => env.ObjectHost.getByName(name) as unknown as Verbs,
  },
};

/** In this order: the base class becomes an instance after some of its subclasses, and before others. */
const CLASSES = [
  ["INHERITS", "inherits A7: yes (true)", "inherits"],
  ["CALLS_SUPER", "super order B8: yes (true)", "order"],
  ["ORDER", "order A7: yes (true)", "order"],
  ["THIRD", "third A7: yes (true)", "third"],
  ["INHERITS_SUPER", "super order B8: yes (true)", "order"],
  ["INHERITS", "inherits A7: yes (true)", "inherits"],
  ["CALLS_SUPER", "super order B8: yes (true)", "order"],
] as const;

describe.each(["AGENT", "OBJECT"] as const)("a workflow class of an %s", (side) => {
  it.each(CLASSES)(
    "W1 W6: %s gets its params, steps and agent, also in a replay",
    async (kind, output, title) => {
      const binding = `${side}_${kind}`;
      const workflows = Reflect.get(env, binding) as Workflow;
      const agent = new Given({ ...SIDES[side], workflow: binding, workflows });
      const id = crypto.randomUUID();
      const prompt = ask({ id, text: "yes" });
      const params: Order = { order: "A7", prompt };
      await (await agent.verbs()).runWorkflow(binding, params, { id });
      expect(await agent.output(id)).toBe(output);
      expect(runs.get(id)).toEqual([title]);
      const calls = modelCalls.get(prompt);

      await (await agent.verbs()).restartWorkflow(id);
      await until(() => runs.get(id)?.length === 2);
      expect(await agent.output(id)).toBe(output);
      expect(modelCalls.get(prompt)).toBe(calls);
      await until(
        async () =>
          (await (await SIDES[side].at(agent.name)).getWorkflow(id))?.status === "complete",
      );
    },
  );
});

it.each([
  ["AGENT", "OBJECT_ORDER", "ObjectOrder was started by an agent", "Extend ThinkWorkflow."],
  ["OBJECT", "AGENT_ORDER", "AgentOrder was not started by an agent", "Extend DurableWorkflow."],
] as const)(
  "W6: an %s that starts a class of the other base learns which to extend",
  async (side, binding, problem, remedy) => {
    const workflows = Reflect.get(env, binding) as Workflow;
    const agent = new Given({ ...SIDES[side], workflow: binding, workflows });
    const id = crypto.randomUUID();
    await (await agent.verbs()).runWorkflow(binding, { order: "A7", prompt: "" }, { id });
    const { error } = await until(async () => {
      const found = await (await workflows.get(id)).status();
      return found.status === "errored" && found;
    });
    expect(error?.message).toContain(problem);
    expect(error?.message).toContain(remedy);
  },
);
