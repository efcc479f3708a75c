/** What a turn costs on each host, as docs/cost.md says: `npm run cost` prints the table. An object's first turn costs more. */

import { env } from "cloudflare:workers";
import { afterAll, expect, it } from "vitest";
import type { Count } from "../../src/testing/index.ts";
import { engineSteps } from "../support/engine-steps.ts";
import { message } from "../support/given.ts";
import { Given, type Verbs } from "./host.ts";
import { PROMPT_COSTS } from "./prompt-costs.ts";

const WORK = {
  "an isolated submission": (agent: Given) => submitted(agent, "isolated"),
  "a submission to the conversation": (agent: Given) => submitted(agent, "main"),
  "an isolated step.prompt() of a durable workflow": (agent: Given) => prompted(agent, "isolated"),
} as const;

/** At most this, in the order of {@link WORK}; of prompts, see {@link PROMPT_COSTS}. */
const HOSTS = [
  { title: "perdure/think", binding: "ThinkHost", rows: [4, 29], statements: [12, 94, 37] },
  { title: "perdure/agent", binding: "AgentHost", rows: [4, 6], statements: [11, 19, 36] },
  { title: "perdure/chat", binding: "ChatHost", rows: [4, 30], statements: [11, 110, 36] },
  { title: "perdure/object", binding: "ObjectHost", rows: [4, 6], statements: [11, 19, 37] },
];

const counts = new Map<string, Count & { steps: number | undefined }>();

async function submitted(agent: Given, thread: string): Promise<undefined> {
  const verbs = await agent.verbs();
  const { submissionId } = await verbs.submitMessages([message("Hello")], { thread });
  expect(await agent.ended(submissionId)).toMatchObject({ output: "You said: Hello" });
}

/** Returns how many steps of the platform it took. */
async function prompted(agent: Given, thread: string): Promise<number | undefined> {
  const id = `wf-${crypto.randomUUID()}`;
  const asked = { step: "text", prompt: "Hello", thread };
  await (await agent.verbs()).runWorkflow(agent.host.workflow, asked, { id });
  expect(await agent.output(id)).toBe("You said: Hello");
  return engineSteps.get(id);
}

const namespaces = env as unknown as Record<string, DurableObjectNamespace<undefined>>;

for (const { title, binding, rows, statements } of HOSTS) {
  const isObject = title === "perdure/object";
  const namespace = namespaces[binding];
  if (!namespace) throw new Error(`No binding ${binding}`);
  const host = {
    objects: namespace,
    at: async (name: string) => namespace.getByName(name) as unknown as Verbs,
    workflow: isObject ? "OBJECT_WORKFLOW" : "CONTRACT_WORKFLOW",
    workflows: isObject ? env.OBJECT_WORKFLOW : env.CONTRACT_WORKFLOW,
  } as const;
  for (const [index, [name, work]] of Object.entries(WORK).entries()) {
    it(`${title}: ${name}`, async () => {
      const agent = new Given(host);
      await work(agent);
      let steps: number | undefined;
      const storage = await agent.counted(async () => {
        steps = await work(agent);
      });
      const count = { ...storage, steps };
      counts.set(`${title}: ${name}`, count);
      expect.soft(count.statements).toBeLessThanOrEqual(statements[index] ?? 0);
      const most = steps === undefined ? { rowsWritten: rows[index] } : PROMPT_COSTS[title];
      for (const [what, atMost] of Object.entries(most ?? {})) {
        expect.soft(count[what as keyof typeof count], what).toBeLessThanOrEqual(atMost ?? 0);
      }
    });
  }
}

afterAll(() => {
  for (const [what, { rowsWritten, rowsRead, statements, setAlarms, steps = 0 }] of counts)
    console.log(
      `${what}: ${rowsWritten} rows written, ${rowsRead} read, ${statements} statements, ${setAlarms} alarms, ${steps} steps`,
    );
});
