/** A deploy changes the host of a class while a tool runs: the call is not repeated, and later turns run. */

import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, it } from "vitest";

import { ask } from "../../src/testing/index.ts";
import { message, until } from "../support/given.ts";
import type { Verbs } from "./host.ts";
import { deployed, type SwapKind, stood } from "./hosts/swap-host.ts";

type Options = Parameters<Verbs["submitMessages"]>[1];

async function givenSwap(from: SwapKind, toolName: "stand" | "steps", options: Options = {}) {
  const name = crypto.randomUUID();
  deployed.set(name, from);
  const stub = () => env.SwapHost.getByName(name) as unknown as Verbs;
  const text = ask({ tools: [{ name: toolName, input: { name } }], text: "end" });
  await stub().submitMessages([message(text, `m-${name}`)], { submissionId: "first", ...options });
  await until(() => stood.get(name));
  await stub().submitMessages([message(ask({ text: "second" }), `n-${name}`)], {
    submissionId: "second",
  });
  return {
    name,
    stub,
    async deploy(to: SwapKind) {
      deployed.set(name, to);
      const root = env.SwapHost.getByName(name) as unknown as DurableObjectStub;
      await runInDurableObject(root, (_, ctx) => ctx.abort("deploy")).catch(() => {});
    },
    ended: (submissionId: string) =>
      until(async () => {
        const found = await stub().inspectSubmission(submissionId);
        return found && !["pending", "running"].includes(found.status) && found;
      }),
  };
}

it.each([
  ["agent", "ai-sdk-harness", "stand"],
  ["agent", "think-harness", "stand"],
  ["agent", "ai-sdk-harness", "steps"],
  ["think", "ai-sdk-harness", "stand"],
  ["think", "think-harness", "stand"],
  ["ai-sdk-harness", "agent", "stand"],
  ["ai-sdk-harness", "think", "stand"],
  ["think-harness", "agent", "stand"],
  ["think-harness", "think", "stand"],
] as const)(
  "L6: from %s to %s, an interrupted call of %s ends its turn",
  async (from, to, tool) => {
    const swap = await givenSwap(from, tool);
    await swap.deploy(to);
    expect(await swap.ended("first")).toMatchObject({
      status: "error",
      errorName: "TurnInterruptedError",
    });
    expect(await swap.ended("second")).toMatchObject({ status: "completed", output: "second" });
    expect(stood.get(swap.name)).toBe(1);
  },
);

it.each([
  ["agent", "think", 1],
  ["think", "agent", 1],
] as const)(
  "L6: from %s to %s, the model gets the call as interrupted",
  async (from, to, times) => {
    const swap = await givenSwap(from, "stand");
    await swap.deploy(to);
    expect(await swap.ended("first")).toMatchObject({ status: "completed", output: "end" });
    expect(stood.get(swap.name)).toBe(times);
  },
);

it.each([
  ["agent", "ai-sdk-harness"],
  ["ai-sdk-harness", "agent"],
] as const)("L6: from %s to %s, afterSideEffects: repeat runs the turn again", async (from, to) => {
  const swap = await givenSwap(from, "stand", { retry: { afterSideEffects: "repeat" } });
  await swap.deploy(to);
  expect(await swap.ended("first")).toMatchObject({ status: "completed", output: "end" });
  expect(stood.get(swap.name)).toBe(2);
});

it("L6: a retry on a harness does not repeat a call that the agent had made", async () => {
  const swap = await givenSwap("agent", "stand");
  await swap.deploy("ai-sdk-harness");
  await swap.ended("first");
  const retried = await swap.stub().retrySubmission("first");
  expect(await swap.ended(retried?.submissionId ?? "")).toMatchObject({
    errorName: "TurnInterruptedError",
    error: "The turn was interrupted, and another host has run its tools, so it is not run again.",
  });
  expect(stood.get(swap.name)).toBe(1);
});
