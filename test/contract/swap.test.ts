/** A deploy changes the host of a class while a tool runs: the call is not repeated, and later turns run. */

import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, it } from "vitest";

import { ask } from "../../src/testing/index.ts";
import { message, until } from "../support/given.ts";
import type { Verbs } from "./host.ts";
import { deployed, type SwapKind, stood } from "./hosts/swap-host.ts";

async function givenSwap(from: SwapKind) {
  const name = crypto.randomUUID();
  deployed.set(name, from);
  const stub = () => env.SwapHost.getByName(name) as unknown as Verbs;
  const text = ask({ tools: [{ name: "stand", input: { name } }], text: "end" });
  await stub().submitMessages([message(text, `m-${name}`)], { submissionId: "first" });
  await until(() => stood.get(name));
  await stub().submitMessages([message(ask({ text: "second" }), `n-${name}`)], {
    submissionId: "second",
  });
  return {
    name,
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
  ["agent", "think"],
  ["think", "agent"],
] as const)("L6: from %s to %s, the model gets the call as interrupted", async (from, to) => {
  const swap = await givenSwap(from);
  await swap.deploy(to);
  expect(await swap.ended("first")).toMatchObject({ status: "completed", output: "end" });
  expect(await swap.ended("second")).toMatchObject({ status: "completed", output: "second" });
  expect(stood.get(swap.name)).toBe(1);
});
