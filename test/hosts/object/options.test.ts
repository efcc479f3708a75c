/** The options of `durable()` are checked at the call. */

import { expect, it } from "vitest";
import { durable } from "../../../src/hosts/object/index.ts";
import { readDurableOptions } from "../../../src/hosts/object/options.ts";
import { appSource } from "../../../src/hosts/sdk/turn-source.ts";
import { ScriptedModel } from "../../../src/testing/index.ts";

const model = () => new ScriptedModel();

it.each([
  [
    { model, modle: 1 },
    /^Unknown option "modle" in options of durable\(\)\. Valid options: features, model, /,
  ],
  [{ model, modle: 1 }, /tools.*outbox.*maxPending/],
  [null, /^Invalid options of durable\(\) null: expected an object with features, model/],
  [{ model, tools: { pay: null } }, /^Invalid tools .*: expected an object with tools/],
  [{ model: 7 }, /^Invalid model 7/],
])("refuses %o", (options, message) => {
  expect(() => readDurableOptions(options as never)).toThrow(message);
});

it("L9: the error about an object without a Lifecycle does not show its env", () => {
  class Shop {
    readonly ctx = {};
    readonly env = { KEY: "secret" };
  }
  expect(() => durable(new Shop() as never, { model })).toThrow(
    "Invalid object an instance of Shop: expected a Durable Object with a Lifecycle. Add before it:",
  );
});

const setupOf = (tools: unknown) => {
  const source = appSource({
    model,
    instructions: () => "Help.",
    tools: () => tools as never,
    maxSteps: () => 1,
    beforeTurn: () => undefined,
    agentName: "Shop",
    agentId: () => "main",
  });
  return source({ messagesFor: async () => [] } as never);
};

it("names an invalid tool when the app returns it for a turn", async () => {
  await expect(setupOf({ pay: null })).rejects.toThrow(
    "Invalid tools.pay null: expected a tool of the AI SDK",
  );
});

it("an app that returns nothing for a turn has no tools", async () => {
  expect(await setupOf(undefined)).toMatchObject({ tools: {} });
});
