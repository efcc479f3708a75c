/** Usage that a harness reports, in the real runtime: it is charged after the calls of the turn. */

import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { ask } from "../../src/testing/index.ts";
import { message, until } from "../support/given.ts";
import { stubOf as keeperOf } from "../support/limits/keeper.ts";
import { HARNESS, type LimitedHarness, reported } from "./limited-harness.ts";

type Verbs = Pick<
  LimitedHarness,
  "submitMessages" | "waitForSubmission" | "inspectSubmission" | "cancelSubmission"
>;

function givenAgent(...metadata: object[]) {
  const name = crypto.randomUUID();
  reported.set(name, metadata);
  const verbs = env.LimitedHarness.getByName(name) as unknown as Verbs;
  const submit = async () => (await verbs.submitMessages([message(ask({}))])).submissionId;
  const used = async () =>
    (await keeperOf({ name: HARNESS }).list({ key: name, limit: 1 })).keys[0]?.used;
  return { verbs, submit, used };
}

const usage = (inputTokens: unknown, outputTokens: unknown, cacheReadTokens = 0) => ({
  usage: { inputTokens, outputTokens, inputTokenDetails: { cacheReadTokens } },
});

it("a turn of a harness that reports its usage counts with its tokens and its cost, and the next one waits", async () => {
  const call = { model: "openai/gpt", ...usage(300, 100, 100) };
  const { verbs, submit, used } = givenAgent(call, { model: "other", ...usage(500, 200) });
  const ended = await verbs.waitForSubmission(await submit());
  // 200 for 0.001 dollars, 100 from the cache for 0.0001, 100 of output for 0.002
  expect(ended).toMatchObject({
    status: "completed",
    usage: { inputTokens: 800, outputTokens: 300, totalTokens: 1_100, cost: 0.41 },
  });
  await until(async () => ((await used())?.tokens ?? 0) >= 1_000);
  expect(await used()).toMatchObject({ requests: 1, tokens: 1_100, nanodollars: 410_000_000 });
  const next = await submit();
  await until(async () => (await verbs.inspectSubmission(next))?.waitingFor);
  expect(await verbs.inspectSubmission(next)).toMatchObject({
    waitingFor: { limit: HARNESS, why: "full" },
  });
  await verbs.cancelSubmission(next);
});

it.each([
  ["nothing", []],
  ["garbage", [{ usage: null }, { usage: 7 }, usage("9", -1), usage(Number.MAX_VALUE, null)]],
])("a turn of a harness that reports %s counts as one request", async (_, metadata) => {
  const { verbs, submit, used } = givenAgent(...metadata);
  const ended = await verbs.waitForSubmission(await submit());
  expect(ended).toMatchObject({ status: "completed" });
  expect(ended).not.toHaveProperty("usage");
  await until(async () => (await used())?.tokens === 0);
  expect(await used()).toMatchObject({ requests: 1, tokens: 0, nanodollars: 0 });
});
