/** `step.webhook()` on DurableThink, in the real engine: W1 to W5. Lookback and crashes: test/workflow/agent/waits. */

import { describe, expect, it } from "vitest";
import { z } from "zod";
import { capabilitiesOf } from "../../../src/hosts/public.ts";
import type { WebhookBodyError, WebhookTimeoutError } from "../../../src/workflow/index.ts";
import { until } from "../../support/given.ts";
import { cutOff } from "../../support/think-agent.ts";
import { givenScriptedWorkflow } from "../../support/workflows/scripted-workflow.ts";
import { holdWait } from "../../support/workflows/watched-steps.ts";

type Given = Awaited<ReturnType<typeof givenScriptedWorkflow>>;
type Body = Record<string, unknown>;

let made = 0;
const payment = (body: Body, rest: object = {}) => ({
  source: "stripe",
  id: `evt_${++made}`,
  type: "payment_intent.succeeded",
  body: body as never,
  receivedAt: Date.now(),
  ...rest,
});

/** Delivers it again and again until a wait takes it. */
async function delivered({ agent }: Given, arrival: ReturnType<typeof payment>): Promise<void> {
  await until(async () => (await agent.deliver(arrival)).length > 0);
}

const order = (id: string, more: Body = {}) => ({
  data: { object: { metadata: { orderId: id }, amount: 7, ...more } },
});
const match = { "data.object.metadata.orderId": "o1" };

describe("an arrival", () => {
  it("W3 W4: the arrival that matches ends the step, and its body is as the schema takes it", async () => {
    const schema = z.object({
      data: z.object({
        object: z.object({ amount: z.number().transform((cents) => cents / 100) }),
      }),
    });
    await using workflow = await givenScriptedWorkflow((step) =>
      step.webhook("paid", { from: "stripe", type: "payment_intent.succeeded", match, schema }),
    );
    await workflow.start();
    const right = payment(order("o1"));
    await delivered(workflow, right);
    expect(await workflow.output()).toEqual({
      source: "stripe",
      id: right.id,
      type: right.type,
      body: { data: { object: { amount: 0.07 } } },
      receivedAt: right.receivedAt,
    });
    expect(await workflow.agent.deliver(payment(order("o1")))).toEqual([]);
  });
});

describe("the log of arrivals", () => {
  const accepted = (arrival: ReturnType<typeof payment>) => ({
    arrival: { ...arrival, bytes: 2, hash: "0".repeat(64) },
  });

  it("W2: has an arrival that came before the step, which takes it, and its verdict changes", async () => {
    await using workflow = await givenScriptedWorkflow(async (step) => {
      const first = await step.webhook("paid", { match });
      const second = await step.webhook("paid", { match, key: "2" });
      return [first.id, second.id];
    });
    const { agent } = workflow;
    const [first, second] = [payment(order("o1")), payment(order("o1"))];
    expect(await agent.callKernel("acceptArrival", accepted(payment(order("o2"))))).toMatchObject({
      verdict: "filtered",
    });
    expect(await agent.callKernel("acceptArrival", accepted(first))).toMatchObject({
      verdict: "filtered",
    });
    await workflow.start();
    await until(async () => (await agent.webhookStatuses()).join() === "open,completed");
    expect(await agent.callKernel("acceptArrival", accepted(second))).toMatchObject({
      verdict: "accepted",
    });
    expect(await workflow.output()).toEqual([first.id, second.id]);
    for (const { id } of [first, second]) {
      expect(await capabilitiesOf(agent).inbound.inspect("stripe", id)).toMatchObject({
        verdict: "accepted",
      });
    }
    expect(await agent.callKernel("acceptArrival", accepted(second))).toMatchObject({
      verdict: "duplicate",
    });
  });
});

describe("W4: an arrival that only the schema itself refuses", () => {
  it("W4: is not the one: the step takes the next one, within the same timeout", async () => {
    const schema = z.object({ n: z.number().refine((n) => n !== 13, "13 brings bad luck") });
    await using workflow = await givenScriptedWorkflow(async (step) => {
      const { body } = await step.webhook("even", { from: "stripe", schema });
      return body.n;
    });
    await workflow.start();
    await delivered(workflow, payment({ n: 13 }));
    // Refused by its JSON Schema, so it ends no wait.
    expect(await workflow.agent.deliver(payment({ n: "7" }))).toEqual([]);
    await delivered(workflow, payment({ n: 13 }));
    await delivered(workflow, payment({ n: 7 }));
    expect(await workflow.output()).toBe(7);
  });

  it("W4: after ten refusals the step throws, and says what was wrong", async () => {
    const schema = z.object({ n: z.number() }).refine(() => false, "never right");
    await using workflow = await givenScriptedWorkflow((step) =>
      step.webhook("never", { from: "stripe", schema }).catch((error: WebhookBodyError) => ({
        name: error.name,
        issues: error.issues.length,
        message: error.message,
        arrivalId: error.arrivalId,
      })),
    );
    await workflow.start();
    let last = "";
    for (let n = 0; n <= 10; n++) {
      const arrival = payment({ n });
      await delivered(workflow, arrival);
      last = arrival.id;
    }
    expect(await workflow.output()).toEqual({
      name: "WebhookBodyError",
      issues: 1,
      arrivalId: last,
      message: expect.stringMatching(/"never".*never right.*restart the workflow/s),
    });
  });
});

describe("W2: no wait hangs", () => {
  it("W2: without an arrival the step throws when its time is over", async () => {
    await using workflow = await givenScriptedWorkflow((step) =>
      step.webhook("paid", { match, timeout: 300 }).catch((error: WebhookTimeoutError) => {
        const { name, stepName, timeoutMs, message } = error;
        return { name, stepName, timeoutMs, message };
      }),
    );
    await workflow.start();
    expect(await workflow.output()).toEqual({
      name: "WebhookTimeoutError",
      stepName: "paid",
      timeoutMs: 300,
      message: expect.stringContaining("or set a longer timeout"),
    });
    expect(await workflow.agent.deliver(payment(order("o1")))).toEqual([]);
  });

  it("W2: a step whose schema throws says so when its time is over", async () => {
    const schema = z.unknown().transform(() => {
      throw new Error("boom");
    });
    await using workflow = await givenScriptedWorkflow((step) =>
      step
        .webhook("paid", { match, schema, timeout: 2_000 })
        .catch((error: WebhookTimeoutError) => {
          return { name: error.name, message: error.message, cause: (error.cause as Error).name };
        }),
    );
    let isDelivered = false;
    holdWait(workflow.id, () => until(() => isDelivered));
    await workflow.start();
    await delivered(workflow, payment(order("o1")));
    isDelivered = true;
    expect(await workflow.output()).toEqual({
      name: "WebhookTimeoutError",
      message: expect.stringMatching(/^No arrival that the schema accepts came .*refused.*boom/s),
      cause: "WebhookBodyError",
    });
  });

  it("W2: an arrival whose event is lost wins over the timeout", async () => {
    await using workflow = await givenScriptedWorkflow(async (step) => {
      const { id } = await step.webhook("paid", { match, timeout: 500 });
      return id;
    });
    let isDelivered = false;
    holdWait(workflow.id, () => until(() => isDelivered));
    await workflow.start();
    const arrival = payment(order("o1"));
    cutOff.add(workflow.agent.name ?? "");
    await delivered(workflow, arrival);
    isDelivered = true;
    expect(await workflow.output()).toBe(arrival.id);
  });
});

it("W1: a restarted workflow is answered by the arrival that has come", async () => {
  let runs = 0;
  await using workflow = await givenScriptedWorkflow(async (step) => {
    runs++;
    return (await step.webhook("paid", { match })).id;
  });
  await workflow.start();
  const arrival = payment(order("o1"));
  await delivered(workflow, arrival);
  expect(await workflow.output()).toBe(arrival.id);
  await workflow.agent.restart(workflow.id);
  await until(
    async () => runs >= 2 && (await (await workflow.handle()).status()).status === "complete",
  );
  expect(await workflow.output()).toBe(arrival.id);
});

it("W1: in a loop with keys each use gets another arrival", async () => {
  await using workflow = await givenScriptedWorkflow(async (step) => {
    const seen: unknown[] = [];
    for (const key of ["a", "b", "c"]) {
      seen.push((await step.webhook("next", { from: "stripe", key })).body);
    }
    return seen;
  });
  await workflow.start();
  for (const n of [1, 2, 3]) await delivered(workflow, payment({ n }));
  expect(await workflow.output()).toEqual([{ n: 1 }, { n: 2 }, { n: 3 }]);
});

it("W5: terminating the workflow cancels its wait", async () => {
  await using workflow = await givenScriptedWorkflow((step) => step.webhook("paid", { match }));
  await workflow.start();
  await until(async () => (await workflow.agent.webhookStatuses()).length);
  await workflow.agent.terminate(workflow.id);
  expect(await workflow.agent.webhookStatuses()).toEqual(["cancelled"]);
  expect(await workflow.agent.deliver(payment(order("o1")))).toEqual([]);
});

it("O4: a body that no event holds comes whole", async () => {
  await using workflow = await givenScriptedWorkflow(async (step) => {
    const { body } = await step.webhook("big", { from: "stripe" });
    return (body as { text: string }).text.length;
  });
  await workflow.start();
  await delivered(workflow, payment({ text: "é".repeat(600_000) }));
  expect(await workflow.output()).toBe(600_000);
});

describe("an invalid option is refused at the call, and nothing is stored", () => {
  const long = "x".repeat(501);
  it.each<[string, object, RegExp]>([
    ["nothing to match by", {}, /at least one of from, type and match, or url: true/],
    ["an unknown option", { from: "a", form: 1 }, /Unknown option "form"/],
    ["an empty source", { from: "" }, /Invalid from ""/],
    ["no types", { type: [] }, /type/],
    ["too many types", { type: Array.from({ length: 21 }, (_, n) => `t${n}`) }, /at most 20/],
    ["no paths", { match: {} }, /1 to 10 paths/],
    [
      "too many paths",
      { match: Object.fromEntries(Array.from({ length: 11 }, (_, n) => [`p${n}`, 1])) },
      /1 to 10 paths/,
    ],
    ["a long path", { match: { [long]: 1 } }, /match/],
    ["a deep path", { match: { [Array(21).fill("a").join(".")]: 1 } }, /at most 20 names/],
    ["a long value", { match: { a: long } }, /at most 500 characters/],
    ["a value that is no scalar", { match: { a: { b: 1 } } }, /match/],
    ["a value that JSON does not have", { match: { a: Number.NaN } }, /finite number/],
    ["a list for match", { match: ["a"] }, /1 to 10 paths/],
    ["the prototype as a path", { match: JSON.parse('{"__proto__":1}') }, /1 to 10 paths/],
    ["a lookback of two days", { from: "a", lookback: "2 days" }, /at most "1 day"/],
    ["a schema without a JSON form", { from: "a", schema: z.date() }, /no JSON Schema form/],
    ["a URL and a source", { url: true, from: "a" }, /Unknown option "from"/],
    ["a long timeout", { from: "a", timeout: "400 days" }, /at most "365 days"/],
  ])("%s", async (_, options, message) => {
    await using workflow = await givenScriptedWorkflow((step) =>
      step
        .webhook("w", options as { from: string })
        .catch((error: Error) => ({ name: error.name, message: error.message })),
    );
    await workflow.start();
    expect(await workflow.output()).toEqual({
      name: "InvalidWebhookError",
      message: expect.stringMatching(message),
    });
    expect(await workflow.agent.webhookStatuses()).toEqual([]);
  });
});
