/** workflows.md: prompts and their answers. */

import type { ThinkWorkflowStep } from "@cloudflare/think/workflows";
import type { UIMessage } from "ai";
import { z } from "zod";
import { ask } from "../../../src/testing/index.ts";
import { outputOf } from "../../support/engine.ts";
import { until } from "../../support/given.ts";
import type { WorkflowBody } from "../app.ts";
import { type Peer, type Scenario, says, scenario } from "../harness.ts";
import { page, titleSchema } from "./workflows.ts";

const draftSchema = z.object({
  title: z.string(),
  summary: z.string(),
  labels: z.array(z.string()),
});
const DRAFT = { title: "A bug", summary: "It fails.", labels: ["bug", "urgent"] };

/** Notes the names of the platform's steps. */
function noteSteps(step: ThinkWorkflowStep, names: string[]): void {
  for (const verb of ["do", "waitForEvent"] as const) {
    const real = step[verb] as (...args: unknown[]) => unknown;
    const noted = (...args: unknown[]) => {
      names.push(String(args[0]));
      return Reflect.apply(real, step, args) as unknown;
    };
    Object.assign(step, { [verb]: noted });
  }
}

const triage = scenario({
  page,
  play: async (peer) => {
    const steps: string[] = [];
    const body: WorkflowBody = async (step, run) => {
      noteSteps(step, steps);
      const draft = await step.prompt("triage-issue", {
        prompt: ask({ tool: { name: "work", input: { text: "look" } }, answer: DRAFT }),
        output: draftSchema,
        timeout: "3 days",
      });
      await step.do("apply-labels", async () => {
        await run.agent.applyLabels(draft.labels);
      });
      return { draft, payload: run.payload };
    };
    const id = await peer.start("triage", body, { issueNumber: 42 });
    const output = await outputOf<{ draft: unknown; payload: unknown }>(peer.workflow, id);
    const tracked = await until(async () => {
      const found = await peer.inside((own) => own.getWorkflow(id));
      return found && { ...found };
    });
    const [submission] = await peer.agent.listSubmissions();
    const messages: UIMessage[] = await peer.inside((own) => own.getMessages());
    const [beforeTurn] = peer.hooks("beforeTurn");
    const before = peer.model.calls.length;
    await peer.agent.submitMessages([says("what did we say?")], { submissionId: "later" });
    await peer.ended("later");
    const later = peer.model.calls[before];
    return {
      ...{ id, output, tracked, submission, messages, beforeTurn, steps, later },
      labels: peer.hooks("applyLabels").map(({ labels }) => labels),
      offered: peer.model.offered()[0],
      choices: peer.model.calls.slice(0, 2).map(({ toolChoice }) => toolChoice?.type),
      toolHooks: peer.hooks("beforeToolCall", "afterToolCall", "execute").map(({ hook }) => hook),
      response: peer.hooks("onChatResponse")[0],
    };
  },
  cases: [
    {
      says: "When the Workflow resumes, the payload is validated again with the original Zod schema before the typed value is returned.",
      shows: "step.prompt() returns the answer",
      see: ({ output }) => output.draft,
      is: DRAFT,
    },
    {
      says: "await this.agent.applyLabels(draft.labels);",
      shows: "a step after the prompt calls the agent",
      see: ({ labels }) => labels,
      is: [["bug", "urgent"]],
    },
    {
      says: "`runWorkflow()` creates the Workflow instance and injects the Agent identity that `ThinkWorkflow` needs to reconnect to `this.agent` inside `run()`.",
      shows: "run() receives the params, without what was injected",
      see: ({ output, id }) => [output.payload, id],
      is: [{ from: "<agent>-triage" }, "<agent>-triage"],
    },
    {
      says: "{ metadata: { issueNumber } }",
      shows: "a workflow is tracked with its metadata",
      see: ({ tracked }) => [tracked.workflowId, tracked.workflowName, tracked.metadata],
      is: ["<agent>-triage", "<workflow>", { issueNumber: 42 }],
    },
    {
      says: "Think then runs a full agentic turn: the Agent may use its tools across multiple steps",
      shows: "a prompt's turn uses a tool of the agent before it answers",
      see: ({ toolHooks }) => toolHooks,
      is: ["beforeToolCall", "execute", "afterToolCall"],
    },
    {
      says: "returns the structured result by calling an internal `final_answer` tool whose arguments match the schema.",
      shows: "a prompt's turn is offered think_final_answer and the tools of the agent",
      see: ({ offered }) => [offered?.includes("think_final_answer"), offered?.includes("work")],
      is: [true, true],
    },
    {
      says: "Think sets `toolChoice` for the turn.",
      shows: "a prompt's turn forces the use of a tool",
      see: ({ choices }) => choices,
      is: ["required", "required"],
    },
    {
      says: "its call and result are stripped from the persisted conversation",
      shows:
        "the conversation has the prompt and the calls of the agent's tools, and no final answer",
      see: ({ messages }) =>
        messages.map(({ role, parts }) => [
          role,
          ...parts.map(({ type }) => type).filter((type) => type !== "step-start"),
        ]),
      is: [
        ["user", "text"],
        ["assistant", "tool-work"],
      ],
    },
    {
      says: "so the transcript and later turns do not see Think's internal plumbing.",
      shows: "a later turn is not shown the final answer of a prompt, nor offered it",
      see: ({ later }) => [
        JSON.stringify(later?.prompt).includes("think_final_answer"),
        JSON.stringify(later?.tools).includes("think_final_answer"),
      ],
      is: [false, false],
    },
    {
      says: "think-workflow:<workflowName>:<workflowId>:<stepName>",
      shows: "the idempotency key of a prompt is made of the workflow and the step",
      see: ({ submission }) => submission?.idempotencyKey,
      is: "think-workflow:<workflow>:<agent>-triage:triage-issue",
    },
    {
      says: "Think stores workflow metadata and a prompt/config fingerprint for diagnostics.",
      shows: "the metadata of a prompt's submission",
      see: ({ submission }) => Object.keys(submission?.metadata ?? {}),
      is: ["__thinkWorkflowPrompt"],
      differs: { by: "Metadata of prompts", perdure: ["issueNumber", "workflow"] },
    },
    {
      says: '`step.do("<name>:submit", ...)` creates or finds an idempotent Think submission.',
      shows: "a prompt begins with the step <name>:submit",
      see: ({ steps }) => steps.includes("triage-issue:submit"),
      is: true,
    },
    {
      says: '`step.waitForEvent("<name>:wait", ...)` resumes the Workflow.',
      shows: "a prompt waits in the step <name>:wait",
      see: ({ steps }) => steps.includes("triage-issue:wait"),
      is: true,
    },
    {
      says: "Think runs the submitted turn through the normal submission queue.",
      shows: "the steps of the platform that a prompt takes",
      see: ({ steps }) => steps,
      is: ["triage-issue:submit", "triage-issue:wait", "apply-labels"],
    },
    {
      says: "creates or finds an idempotent Think submission.",
      shows: "a prompt is a completed submission whose message is the prompt",
      see: ({ submission, messages }) => [submission?.status, messages[0]?.role],
      is: ["completed", "user"],
    },
    {
      says: "Think runs the submitted turn through the normal submission queue.",
      shows: "ctx.trigger of a prompt's turn is submission",
      see: ({ beforeTurn }) => beforeTurn?.trigger,
      is: "submission",
    },
    {
      says: "Think runs the submitted turn through the normal submission queue.",
      shows: "ctx.requestId of a prompt's turn is the submission's id",
      see: ({ beforeTurn, submission }) => beforeTurn?.requestId === submission?.submissionId,
      is: true,
    },
    {
      says: "its call and result are stripped from the persisted conversation",
      shows: "onChatResponse() of a prompt's turn sees the calls of its tools",
      see: ({ response }) => [response?.status, response?.types],
      is: ["completed", ["tool-work", "tool-think_final_answer"]],
    },
  ],
});

const answers = scenario({
  page,
  play: async (peer) => {
    const result = await peer.run<Record<string, unknown>>("answers", async (step) => {
      const loop: unknown[] = [];
      for (const path of ["a.md", "b.md"]) {
        const prompt = ask({ answer: { title: path } });
        loop.push(await step.prompt("summarize-file", { key: path, prompt, output: titleSchema }));
      }
      const extra = await step.prompt("extra", {
        prompt: ask({ answer: { title: "t", more: true } }),
        output: titleSchema,
      });
      const nested = await step.prompt("nested", {
        prompt: ask({ answer: { list: [{ n: 1 }, { n: 2 }], at: { kind: "b", y: 2 } } }),
        output: z.object({
          list: z.array(z.object({ n: z.number() })),
          at: z.discriminatedUnion("kind", [
            z.object({ kind: z.literal("a"), x: z.number() }),
            z.object({ kind: z.literal("b"), y: z.number() }),
          ]),
        }),
      });
      const optional = await step.prompt("optional", {
        prompt: ask({ answer: { title: "t" } }),
        output: z.object({ title: z.string(), note: z.string().optional() }),
      });
      const defaulted = await step.prompt("defaulted", {
        prompt: ask({ answer: { title: "t", level: "low" } }),
        output: z.object({ title: z.string(), level: z.string().default("high") }),
      });
      return { loop, extra, nested, optional, defaulted };
    });
    const keys = (await peer.agent.listSubmissions()).map(({ idempotencyKey }) => idempotencyKey);
    return { result, keys, transcript: await peer.transcript() };
  },
  cases: [
    {
      says: "For loops, pass a string `key` to distinguish repeated uses of the same step name",
      shows: "prompts of one step name with different keys have an answer each",
      see: ({ result }) => result.loop,
      is: [{ title: "a.md" }, { title: "b.md" }],
    },
    {
      says: "For loops, pass a string `key` to distinguish repeated uses of the same step name",
      shows: "the key of a prompt makes its idempotency key another one",
      see: ({ keys }) => {
        const looped = keys.filter((key) => key?.includes(":summarize-file:"));
        return [looped.length, new Set(looped).size];
      },
      is: [2, 2],
    },
    {
      says: "the payload is validated again with the original Zod schema before the typed value is returned.",
      shows: "what the schema does not name is not in the answer",
      see: ({ result }) => result.extra,
      is: { title: "t" },
    },
    {
      says: "`step.prompt()` accepts a prompt string and a Zod object schema.",
      shows: "an answer has nested objects, lists and a discriminated union",
      see: ({ result }) => result.nested,
      is: { list: [{ n: 1 }, { n: 2 }], at: { kind: "b", y: 2 } },
    },
    {
      says: "The schema is converted to JSON Schema before the Workflow calls the Agent.",
      shows: "an optional field may be absent from an answer",
      see: ({ result }) => result.optional,
      is: { title: "t" },
    },
    {
      says: "The schema is converted to JSON Schema before the Workflow calls the Agent.",
      shows: "a field with a default has the given value",
      see: ({ result }) => result.defaulted,
      is: { title: "t", level: "low" },
    },
    {
      says: "Think runs the submitted turn through the normal submission queue.",
      shows:
        "each prompt leaves its message in the conversation, and no reply where the model only answered",
      see: ({ transcript }) => transcript.map((line) => line.split(":")[0]),
      is: ["user", "user", "user", "user", "user", "user"],
    },
  ],
});

/** Answers that the schema takes and that are not of its JSON form. */
const tolerant = scenario({
  page,
  play: (peer) => {
    const cases: [name: string, answer: unknown, schema: z.ZodObject][] = [
      ["coerced", { n: "42" }, z.object({ n: z.coerce.number() })],
      ["caught", { n: "none" }, z.object({ n: z.number().catch(0) })],
      [
        "preprocessed",
        { list: "a,b" },
        z.object({
          list: z.preprocess(
            (v) => (typeof v === "string" ? v.split(",") : v),
            z.array(z.string()),
          ),
        }),
      ],
      ["trimmed", { mail: " a@b.co " }, z.object({ mail: z.string().trim().email() })],
    ];
    return peer.run<Record<string, unknown>>("tolerant", async (step) => {
      const seen: Record<string, unknown> = {};
      for (const [name, answer, output] of cases) {
        try {
          seen[name] = await step.prompt(name, { prompt: ask({ answer }), output });
        } catch (error) {
          seen[name] = (error as Error).name;
        }
      }
      return seen;
    });
  },
  cases: [
    ["coerced", "a coerced field", { n: 42 }],
    ["caught", "a field with a catch", { n: 0 }],
    ["preprocessed", "a preprocessed field", { list: ["a", "b"] }],
    ["trimmed", "a field that is trimmed first", { mail: "a@b.co" }],
  ].map(([name, what, is]) => ({
    says: "the payload is validated again with the original Zod schema",
    shows: `an answer with ${what} is what the schema makes of it`,
    see: (seen: Record<string, unknown>) => seen[name as string],
    is,
  })),
});

const interrupted = scenario({
  page,
  play: async (peer) => {
    const script = { hangTimes: 1, answer: { title: "after" }, id: peer.name };
    const id = await peer.start("interrupted", (step) =>
      step.prompt("draft", { prompt: ask(script), output: titleSchema }),
    );
    await peer.asked();
    await new Promise((resolve) => setTimeout(resolve, 50));
    await peer.crash();
    // Any call starts the object again; without one, the agent's alarm does.
    await peer.agent.listSubmissions();
    return { answer: await outputOf(peer.workflow, id), transcript: await peer.transcript() };
  },
  cases: [
    {
      says: "The recovered turn produces the output, and `step.prompt()` resolves as it would have without the interruption.",
      shows: "a prompt whose turn was interrupted returns its answer",
      see: ({ answer }) => answer,
      is: { title: "after" },
    },
    {
      says: "chat recovery retries or continues it with the structured output tool still available.",
      shows: "an interrupted prompt is in the conversation once",
      see: ({ transcript }) => transcript.length,
      is: 1,
    },
  ],
});

const steps = scenario({
  page,
  play: async (peer) => {
    const WORK = { name: "work", input: { text: "first" } };
    const run = async (of: Peer, maxSteps: number) => {
      of.settings.beforeTurn = () => ({ maxSteps });
      return of.run<unknown>("steps", (step) =>
        step.prompt("draft", {
          prompt: ask({ tool: WORK, answer: { title: "t" } }),
          output: titleSchema,
        }),
      );
    };
    const one = peer.another();
    const two = await run(peer, 2);
    const forced = await run(one, 1);
    return { two, forced, executed: [peer, one].map((of) => of.hooks("execute").length) };
  },
  cases: [
    {
      says: "Allow at least `maxSteps: 2` if you expect the Agent to use a tool before answering",
      shows: "with two steps a prompt's turn uses a tool and answers",
      see: ({ two, executed }) => [two, executed[0]],
      is: [{ title: "t" }, 1],
    },
    {
      says: "with `maxSteps: 1` it is forced to answer on the first step and cannot call any other tool.",
      shows: "with one step a prompt's turn answers without a tool",
      see: ({ forced, executed }) => [forced, executed[1]],
      is: [{ title: "t" }, 0],
    },
  ],
});

const sideBySide = scenario({
  page,
  play: (peer) =>
    peer.run<unknown[]>("parallel", (step) =>
      Promise.all(
        ["one", "two", "three"].map((name) =>
          step.prompt(name, { prompt: ask({ answer: { title: name } }), output: titleSchema }),
        ),
      ),
    ),
  cases: [
    {
      says: "`step.prompt()` validates the structured output or throws a typed error.",
      shows: "prompts that are started together have their own answers",
      see: (titles) => titles,
      is: [{ title: "one" }, { title: "two" }, { title: "three" }],
    },
  ],
});

export const prompts: readonly Scenario<unknown>[] = [
  triage,
  answers,
  tolerant,
  interrupted,
  steps,
  sideBySide,
];
