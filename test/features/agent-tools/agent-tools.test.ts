/** The kind `agent-tool` before an agent and children that are slow, silent or gone. */

import { afterEach, expect, it } from "vitest";
import { AgentTools } from "../../../src/features/agent-tools/agent-tools.ts";
import type { Children } from "../../../src/features/agent-tools/children.ts";
import { until } from "../../support/given.ts";
import { waitsTime } from "../../support/objects/waits-object.ts";
import { ask, givenWaits, inside, open, rowsOf } from "../../support/waits.ts";

afterEach(() => {
  waitsTime.aheadMs = 0;
});

/** An object whose child agents answer as `given` says; `tools()` reports their ends. */
function givenChildren(given: Partial<Children>) {
  const known = new Set<string>();
  const children: Children = {
    isExported: () => true,
    start: async (_, { runId }) => {
      known.add(runId);
      return { status: "running" };
    },
    has: (_, runId) => known.has(runId),
    cancel: async () => {},
    abandon: async () => {},
    inspect: async (_, runId) => ({ runId, status: "running", startedAt: 0 }),
    tail: async () => new ReadableStream(),
    report: async () => {},
    ...given,
  };
  let tools: AgentTools | undefined;
  const stub = givenWaits({
    kinds: (_, waits) => {
      tools = new AgentTools(children, waits);
      return { "agent-tool": tools };
    },
  });
  return { stub, known, tools: () => tools as AgentTools };
}

const request = () => ask({ kind: "agent-tool", request: { className: "Child", input: null } });

it("W5: a child whose step has timed out is no longer followed", async () => {
  let isCancelled = false;
  const { stub } = givenChildren({
    tail: async () =>
      new ReadableStream({
        cancel() {
          isCancelled = true;
        },
      }),
  });
  const asked = request();
  await open(stub, asked);
  await until(
    async () =>
      (await inside(stub, ({ waits }) => waits.list({ kind: "agent-tool", limit: 1 }))).items[0]
        ?.state,
  );
  await inside(stub, ({ waits }) =>
    waits.cancelFor({ workflow: "W", instance: asked.workflow.id }, "terminated"),
  );
  await until(async () => (await rowsOf(stub))[0]?.done_at);
  expect(isCancelled).toBe(true);
});

it("O2: a child that ends while it is started is not abandoned", async () => {
  const abandoned: string[] = [];
  const { stub, known, tools } = givenChildren({
    start: async (_, { runId }) => {
      known.add(runId);
      await tools().finished(
        { runId, agentType: "Child" } as never,
        { runId, status: "error", error: "at once" } as never,
      );
      return { status: "running" };
    },
    abandon: async (_, runId) => void abandoned.push(runId),
  });
  await open(stub, request());
  await until(async () => (await rowsOf(stub))[0]?.status === "failed");
  await new Promise((resolve) => setTimeout(resolve, 50));
  expect(abandoned).toEqual([]);
});
