/** `workflow()` as a destination in a plain Durable Object: nothing tracks the instance there. */

import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { fromTypedJson } from "../../../src/core/typed-json.ts";
import { workflow } from "../../../src/outbox/index.ts";
import { until } from "../../support/given.ts";
import type { OutboxObject } from "../../support/objects/outbox-object.ts";
import { crashBox, givenOutbox, inside, wakeBox } from "../../support/outbox.ts";
import { counted } from "../recipients.ts";

function given() {
  const id = `start-${crypto.randomUUID()}`;
  const letters: string[] = [];
  const box = givenOutbox({
    deliver: () => {},
    onDeadLetter: ({ lastError }) => void letters.push(lastError),
  });
  return {
    id,
    box,
    letters,
    put: (options: object = {}) =>
      inside(box, async ({ outbox, lifecycle }: OutboxObject) => {
        await lifecycle.start();
        return outbox.put(workflow("WAITING_WORKFLOW", { id, params: "count", ...options }));
      }),
    statusOf: async () => (await (await env.WAITING_WORKFLOW.get(id)).status()).status,
    waiting: () => inside(box, async ({ outbox }) => (await outbox.stats()).waiting),
  };
}

describe("outbox.put(workflow())", () => {
  it("W6: a plain object starts a workflow with its params", async () => {
    const { id, put, statusOf, waiting } = given();
    expect(await put()).toBe(`start:WAITING_WORKFLOW:${id}`);
    await until(() => counted.get(id) === 1);
    await until(async () => (await statusOf()) === "complete" && (await waiting()) === 0);
  });

  it("W6: the id of the instance is generated before anything is stored", () => {
    const { destination } = workflow("WAITING_WORKFLOW");
    expect(destination.instance).toMatch(/^[0-9a-f-]{36}$/);
  });

  it("W6: a plain object can start two Workflows with one id", async () => {
    const { id, box, waiting } = given();
    const workflows = ["WAITING_WORKFLOW", "PROMPT_WORKFLOW"];
    await inside(box, async ({ outbox, lifecycle }: OutboxObject, { storage }) => {
      await lifecycle.start();
      const putBoth = () =>
        storage.transactionSync(() => {
          const ids = workflows.map((name) => outbox.put(workflow(name, { id })));
          throw new Error(ids.join());
        });
      expect(putBoth).toThrow(workflows.map((name) => `start:${name}:${id}`).join());
    });
    expect(await waiting()).toBe(0);
  });

  it("W6: a start with an existing id is a dead letter, and with ifExists return it succeeds", async () => {
    const { id, box, put, letters, waiting } = given();
    await put();
    await until(() => counted.get(id) === 1);
    const key = await put();
    await until(() => letters.length === 1);
    expect(letters[0]).toMatch(/was not started: \(instance\.already_exists\)/);
    await inside(box, ({ outbox }) => outbox.deleteDeadLetter(key));
    await put({ ifExists: "return" });
    await until(async () => (await waiting()) === 0);
    expect(letters).toHaveLength(1);
    expect(counted.get(id)).toBe(1);
  });

  it("W6: an instance that was created before a crash is not created again", async () => {
    const { id, box, put, letters, waiting } = given();
    await inside(box, (_, ctx) => ctx.storage.put("kept", true));
    await env.WAITING_WORKFLOW.create({ id, params: "count" as never });
    await until(() => counted.get(id) === 1);
    // As if the attempt had been made: its number is 2 then.
    await inside(box, async ({ outbox, lifecycle }, ctx) => {
      await lifecycle.start();
      ctx.storage.transactionSync(() => {
        outbox.put(workflow("WAITING_WORKFLOW", { id, params: "count" }));
      });
      await ctx.storage.sync();
      ctx.abort("crash");
    }).catch(() => {});
    await crashBox(box);
    await wakeBox(box);
    await until(async () => (await waiting()) === 0);
    expect([letters, counted.get(id)]).toEqual([[], 1]);
    await put({ ifExists: "return" });
  });

  it.each([
    [
      "an unknown binding",
      "NOPE",
      {},
      /destination.workflow "NOPE": expected the name of a Workflow/,
    ],
    ["an empty id", "WAITING_WORKFLOW", { id: "" }, /Invalid destination.instance ""/],
    [
      "an id that is too long",
      "WAITING_WORKFLOW",
      { id: "x".repeat(101) },
      /Invalid destination.instance .*: expected 1 to/,
    ],
    [
      "half a surrogate pair",
      "WAITING_WORKFLOW",
      { id: "a\ud83d" },
      /Invalid destination.instance/,
    ],
    ["a function", "WAITING_WORKFLOW", { params: [1, () => 1] }, /params\[1\] is a function/],
    [
      "an infinite number in metadata",
      "WAITING_WORKFLOW",
      { metadata: { a: -1 / 0 } },
      /metadata\.a is -Inf/,
    ],
    [
      "a map in metadata",
      "WAITING_WORKFLOW",
      { metadata: { a: new Map() } },
      /metadata\.a is a Map/,
    ],
    [
      "metadata that is too large",
      "WAITING_WORKFLOW",
      { metadata: { a: "é".repeat(600_000) } },
      /Invalid metadata of 12/,
    ],
    ["an unknown option", "WAITING_WORKFLOW", { instance: "a" }, /"instance"/],
    ["a policy that is wrong", "WAITING_WORKFLOW", { policy: { maxAttempts: 0 } }, /maxAttempts/],
  ])("W6: put() refuses %s, and stores nothing", async (_, name, options, words) => {
    const { box, waiting } = given();
    await inside(box, async ({ outbox, lifecycle }) => {
      await lifecycle.start();
      expect(() => outbox.put(workflow(name, options as object))).toThrow(words);
    });
    expect(await waiting()).toBe(0);
  });

  it("W6: params that contain themselves are stored with their cycle", () => {
    const params: { self?: unknown; due: Date } = { due: new Date(0) };
    params.self = params;
    const { event } = workflow("WAITING_WORKFLOW", { params });
    const copy = fromTypedJson(JSON.parse(JSON.stringify(event.params)), String) as typeof params;
    expect(copy.self).toBe(copy);
    expect(copy.due).toEqual(params.due);
  });
});
