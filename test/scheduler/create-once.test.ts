/** S1 a handler that is tried again finds the Workflow that it has started. */

import { introspectWorkflowInstance } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { createOnce } from "../../src/scheduler/index.ts";
import { refusal } from "../support/given.ts";

it("S1: createOnce() creates an instance, and returns it when called again", async () => {
  const id = `once-${crypto.randomUUID()}`;
  await using introspection = await introspectWorkflowInstance(env.WAITING_WORKFLOW, id);
  const first = await createOnce(env.WAITING_WORKFLOW, { id, params: {} });
  expect(introspection).toBeDefined();
  expect(await refusal(env.WAITING_WORKFLOW.create({ id }))).toBeInstanceOf(Error);
  const second = await createOnce(env.WAITING_WORKFLOW, { id, params: {} });
  expect([first.id, second.id]).toEqual([id, id]);
});

it("S1: createOnce() throws the error of create() if there is no instance", async () => {
  const wrong = "not an id: it has spaces";
  const error = await refusal(env.WAITING_WORKFLOW.create({ id: wrong }));
  const again = await refusal(createOnce(env.WAITING_WORKFLOW, { id: wrong }));
  expect(again.message).toBe(error.message);
});

it.each([
  [undefined, { id: "x" }, "Invalid workflow undefined: expected a Workflow's binding"],
  [null, { id: "x" }, "Invalid workflow null: expected a Workflow's binding"],
  [{}, { id: "x" }, "Invalid workflow {}: expected a Workflow's binding"],
  [env.WAITING_WORKFLOW, undefined, "Invalid id undefined: expected a string."],
  [env.WAITING_WORKFLOW, { id: 5 }, "Invalid id 5: expected a string."],
])("S1: createOnce() refuses wrong arguments (%#)", async (workflow, options, message) => {
  const error = await refusal(createOnce(workflow as Workflow, options as never));
  expect(error).toMatchObject({ name: "InvalidOptionError" });
  expect(error.message).toContain(message);
});
