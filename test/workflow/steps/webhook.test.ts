/** `step.webhook()` on DurableThink, in the real engine: W1 to W5. Lookback and crashes: test/waits. */

import { describe, expect, it } from "vitest";
import { z } from "zod";
import { until } from "../../support/given.ts";
import { givenScriptedWorkflow } from "../../support/workflows/scripted-workflow.ts";

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
async function delivered({ agent }: Given, delivery: ReturnType<typeof payment>): Promise<void> {
  await until(async () => (await agent.deliver(delivery)).length > 0);
}

const order = (id: string, more: Body = {}) => ({
  data: { object: { metadata: { orderId: id }, amount: 7, ...more } },
});
const match = { "data.object.metadata.orderId": "o1" };

describe("a delivery", () => {
  it("W3 W4: the delivery that matches ends the step, and its body is as the schema takes it", async () => {
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
