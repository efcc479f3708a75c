/** What each host knows of its own tools and tasks, for checks of open work before a deploy. */

import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import type { Need } from "../../src/features/deploy/types.ts";
import { lacks } from "../../src/features/deploy/work/lacks.ts";
import { toolsOf } from "../../src/features/deploy/work/tools.ts";
import { CAPABILITIES } from "../../src/hosts/verbs.ts";
import type { Kernel } from "../../src/workflow/agent/kernel.ts";

type Host = { readonly [CAPABILITIES]?: Kernel; readonly durable?: { [CAPABILITIES]: Kernel } };

function inHost<Result>(
  namespace: unknown,
  work: (kernel: Kernel) => Promise<Result>,
): Promise<Result> {
  const stub = (namespace as DurableObjectNamespace).getByName(`open-work-${crypto.randomUUID()}`);
  return runInDurableObject(stub, (object: object) => {
    const { durable, [CAPABILITIES]: own = durable?.[CAPABILITIES] } = object as Host;
    return work(own as Kernel);
  });
}

const NEEDS: readonly Need[] = [
  { what: "tool", name: "charge" },
  { what: "tool", name: "ship" },
  { what: "tool", name: "renamed" },
];
const MISSING = [{ what: "tool", name: "renamed" }];

it.each([
  ["DurableAgent", env.AgentHost],
  ["DurableThink", env.ThinkHost],
])(
  "%s knows the tools of getTools() without a turn, and lacks the others",
  async (_, namespace) => {
    const tools = await inHost(namespace, toolsOf);
    expect([...(tools ?? [])]).toEqual(expect.arrayContaining(["charge", "ship"]));
    expect(await inHost(namespace, (kernel) => lacks(kernel, NEEDS))).toEqual(MISSING);
  },
);

it.each([
  ["DurableChatAgent", env.ChatHost],
  ["durable()", env.ObjectHost],
])("%s knows the tools of a turn alone, and lacks none", async (_, namespace) => {
  expect(await inHost(namespace, toolsOf)).toBeUndefined();
  expect(await inHost(namespace, (kernel) => lacks(kernel, NEEDS))).toEqual([]);
});

it.each([
  ["DurableAgent", env.AgentHost],
  ["DurableThink", env.ThinkHost],
  ["DurableChatAgent", env.ChatHost],
  ["durable()", env.ObjectHost],
])(
  "%s knows its own methods, and lacks a renamed one and an undeclared task",
  async (_, namespace) => {
    const missing: Need[] = [
      { what: "method", name: "heard" },
      { what: "task", name: "undeclared" },
    ];
    const needs: Need[] = [{ what: "method", name: "hear" }, ...missing];
    expect(await inHost(namespace, (kernel) => lacks(kernel, needs))).toEqual(missing);
  },
);
