import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { ask } from "../../src/testing/index.ts";

const message = (text: string) => ({
  id: crypto.randomUUID(),
  role: "user" as const,
  parts: [{ type: "text" as const, text }],
});

it("smoke object", async () => {
  const agent = env.ObjectHost.getByName("one");
  const { submissionId } = await agent.submitMessages([message("Hello")]);
  const ended = await agent.waitForSubmission(submissionId);
  expect(ended).toMatchObject({ status: "completed", output: "You said: Hello" });
  expect(await agent.threadMessages("main")).toHaveLength(2);
  const id = await agent.runWorkflow("OBJECT_WORKFLOW", {
    prompt: ask({ answer: { title: "T" } }),
    title: true,
  });
  const instance = await env.OBJECT_WORKFLOW.get(id);
  await expect
    .poll(async () => instance.status(), { timeout: 10_000 })
    .toMatchObject({ output: { title: "T" } });
  expect((await agent.listWorkflowInstances()).items).toMatchObject([{ status: "complete" }]);
});
