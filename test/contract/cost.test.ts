/** What a turn costs on each host, as docs/cost.md says: `npm run cost` prints the table. An object's first turn costs more. */

import { env } from "cloudflare:workers";
import { afterAll, expect, it } from "vitest";
import type { Count } from "../../src/testing/index.ts";
import { message } from "../support/given.ts";
import { Given, type Verbs } from "./host.ts";

const WORK = {
  "an isolated submission": (agent: Given) => submitted(agent, "isolated"),
  "a submission to the conversation": (agent: Given) => submitted(agent, "main"),
  "an isolated step.prompt() of a durable workflow": (agent: Given) => prompted(agent, "isolated"),
} as const;

/** At most this, in the order of {@link WORK}. */
const HOSTS = [
  { title: "perdure/think", binding: "ThinkHost", rows: [4, 29, 16], statements: [12, 94, 35] },
  { title: "perdure/agent", binding: "AgentHost", rows: [4, 6, 16], statements: [11, 19, 34] },
  { title: "perdure/chat", binding: "ChatHost", rows: [4, 30, 16], statements: [11, 110, 34] },
  { title: "perdure/object", binding: "ObjectHost", rows: [4, 6, 15], statements: [11, 19, 35] },
  { title: "AiSdkHarness", binding: "HarnessHost", rows: [7, 7, 19], statements: [36, 34, 59] },
  {
    title: "ThinkHarness",
    binding: "ThinkHarnessHost",
    rows: [34, 28, 46],
    statements: [107, 99, 130],
  },
];

/** Counted apart: what a workflow costs when it ends, with the index of the row by which it is tracked. */
const END = { rowsWritten: 2, statements: 2 } as const;
const NO_END = { rowsWritten: 0, statements: 0 } as const;

const counts = new Map<string, Count>();

async function submitted(agent: Given, thread: string): Promise<void> {
  const verbs = await agent.verbs();
  const { submissionId } = await verbs.submitMessages([message("Hello")], { thread });
  expect(await agent.ended(submissionId)).toMatchObject({ output: "You said: Hello" });
}

async function prompted(agent: Given, thread: string): Promise<void> {
  const id = `wf-${crypto.randomUUID()}`;
  const asked = { step: "text", prompt: "Hello", thread };
  await (await agent.verbs()).runWorkflow(agent.host.workflow, asked, { id });
  expect(await agent.output(id)).toBe("You said: Hello");
}

const namespaces = env as unknown as Record<string, DurableObjectNamespace<undefined>>;

for (const { title, binding, rows, statements } of HOSTS) {
  const isObject = title === "perdure/object";
  const namespace = namespaces[binding];
  if (!namespace) throw new Error(`No binding ${binding}`);
  const host = {
    name: "perdure/agent",
    objects: namespace,
    at: async (name: string) => namespace.getByName(name) as unknown as Verbs,
    workflow: isObject ? "OBJECT_WORKFLOW" : "CONTRACT_WORKFLOW",
    workflows: isObject ? env.OBJECT_WORKFLOW : env.CONTRACT_WORKFLOW,
  } as const;
  for (const [index, [name, work]] of Object.entries(WORK).entries()) {
    it(`${title}: ${name}`, async () => {
      const agent = new Given(host);
      await work(agent);
      const count = await agent.counted(() => work(agent));
      counts.set(`${title}: ${name}`, count);
      const end = work === WORK["an isolated step.prompt() of a durable workflow"] ? END : NO_END;
      expect.soft(count.rowsWritten - end.rowsWritten).toBeLessThanOrEqual(rows[index] ?? 0);
      expect.soft(count.statements - end.statements).toBeLessThanOrEqual(statements[index] ?? 0);
    });
  }
}

afterAll(() => {
  for (const [what, { rowsWritten, statements, setAlarms }] of counts)
    console.log(
      `${what}: ${rowsWritten} rows written, ${statements} statements, ${setAlarms} alarms`,
    );
});
