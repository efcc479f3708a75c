/** workflows.md: prompts, their answers, failures and timeouts; starting workflows, and telling them of events. */

import type { ThinkWorkflowStep } from "@cloudflare/think/workflows";
import type { UIMessage } from "ai";
import { z } from "zod";
import { ask, type Script } from "../../../src/testing/index.ts";
import { outputOf, reached } from "../../support/engine.ts";
import { until } from "../../support/given.ts";
import type { Plot } from "../app.ts";
import { type Peer, refused, type Scenario, says, scenario } from "../harness.ts";

const page = "workflows.md";
const draftSchema = z.object({
  title: z.string(),
  summary: z.string(),
  labels: z.array(z.string()),
});
const DRAFT = { title: "A bug", summary: "It fails.", labels: ["bug", "urgent"] };
const titleSchema = z.object({ title: z.string() });

/** How a prompt failed, as an app sees it. */
function failure(peer: Peer, error: unknown) {
  const {
    ThinkPromptAbortedError,
    ThinkPromptError,
    ThinkPromptSkippedError,
    ThinkPromptTimeoutError,
    ThinkPromptValidationError,
  } = peer.library;
  if (!(error instanceof ThinkPromptError)) return { name: "none", other: String(error) };
  const { name, message, submissionId, status, cause } = error;
  const classes = [
    [ThinkPromptAbortedError, "aborted"],
    [ThinkPromptSkippedError, "skipped"],
    [ThinkPromptTimeoutError, "timeout"],
    [ThinkPromptValidationError, "validation"],
  ] as const;
  const is = classes.filter(([Class]) => error instanceof Class).map(([, of]) => of);
  const causeName = cause instanceof Error ? cause.name : undefined;
  return { name, message, is, status, hasId: submissionId !== "", causeName };
}

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

type Failed = ReturnType<typeof failure>;

/** The failure of one prompt. */
function failing(peer: Peer, of: string, script: Script, options: object = {}): Promise<Failed> {
  return peer.run<Failed>(of, async (step) => {
    try {
      const asked = { prompt: ask(script), output: titleSchema, ...options };
      return { name: "none", other: JSON.stringify(await step.prompt("draft", asked)) };
    } catch (error) {
      return failure(peer, error);
    }
  });
}

const triage = scenario({
  page,
  play: async (peer) => {
    const steps: string[] = [];
    const plot: Plot = async (step, run) => {
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
    const id = await peer.start("triage", plot, { issueNumber: 42 });
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
      shows: "a prompt's turn is offered think_final_answer beside the tools of the agent",
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
      differs: { by: "Metadata of prompts", perdure: ["workflow"] },
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
      differs: {
        by: "Steps of the platform",
        perdure: ["perdure:run", "triage-issue:submit", "triage-issue:wait", "apply-labels"],
      },
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

const failures = scenario({
  page,
  play: async (peer) => {
    const broken = await failing(peer, "broken", { fail: "the model broke" });
    const silent = await failing(peer, "silent", { ignoreTools: true, text: "no" });
    const text = JSON.stringify({ title: "t" });
    const written = await failing(peer, "written", { ignoreTools: true, text });
    const invalid = await failing(peer, "invalid", { answer: { title: 7 } });
    const refusedDate = await peer.run<string>("date", async (step) => {
      const asked = { prompt: "when?", output: z.object({ when: z.date() }) };
      return step
        .prompt("when", asked)
        .then(String, (error: Error) => `threw ${error.name !== ""}`);
    });
    const submissions = await peer.agent.listSubmissions();
    return { broken, silent, written, invalid, refusedDate, submissions };
  },
  cases: [
    {
      says: "the submission reaches a terminal error state and `step.prompt()` throws.",
      shows: "a failure of the model is a ThinkPromptError with its text",
      see: ({ broken }) => broken,
      is: {
        name: "ThinkPromptError",
        message: "the model broke",
        is: [],
        status: "error",
        hasId: true,
      },
    },
    {
      says: "(`Model ended the turn without calling the think_final_answer tool`)",
      shows: "a turn that ends with a text is a ThinkPromptError",
      see: ({ silent }) => [silent.name, silent.status],
      is: ["ThinkPromptError", "error"],
      differs: {
        by: "A text in place of the answer",
        perdure: ["ThinkPromptValidationError", "error"],
      },
    },
    {
      says: "With those models the turn ends without a `think_final_answer` call and `step.prompt()` fails",
      shows: "a turn that ends with a text which is the answer",
      see: ({ written }) => (written.other ? JSON.parse(written.other) : written.name),
      is: "ThinkPromptError",
      differs: { by: "A text in place of the answer", perdure: { title: "t" } },
    },
    {
      says: "`step.prompt()` validates the structured output or throws a typed error.",
      shows: "an answer that the schema refuses is a ThinkPromptValidationError",
      see: ({ invalid }) => [invalid.name, invalid.is, invalid.status, invalid.hasId],
      is: ["ThinkPromptValidationError", ["validation"], "error", true],
    },
    {
      says: "Think does not silently repair invalid model output.",
      shows: "the cause of a ThinkPromptValidationError is the schema's error",
      see: ({ invalid }) => invalid.causeName,
      is: "ZodError",
    },
    {
      says: "Unsupported Zod features that cannot be represented as JSON Schema fail while creating the prompt step.",
      shows: "a schema without a JSON form fails, and submits nothing",
      see: ({ refusedDate, submissions }) => [refusedDate, submissions.length],
      is: ["threw true", 4],
    },
    {
      says: "the submission reaches a terminal error state",
      shows: "the submission of an answer that the schema refuses",
      see: ({ submissions }) => submissions[0]?.status,
      is: "completed",
      differs: { by: "Refused answers", perdure: "error" },
    },
  ],
});

const ended = scenario({
  page,
  play: async (peer) => {
    const open = async (of: Peer) => {
      const running = failing(of, "prompt", { delayMs: 60_000 });
      const submission = await until(async () => (await of.agent.listSubmissions())[0]);
      await of.asked();
      return { running, id: submission.submissionId };
    };
    const cancelled = await open(peer);
    await peer.agent.cancelSubmission(cancelled.id, "nobody needs it");
    const quietPeer = peer.another();
    const quiet = await open(quietPeer);
    await quietPeer.agent.cancelSubmission(quiet.id);
    const resetPeer = peer.another();
    await resetPeer.agent.submitMessages([says({ delayMs: 60_000 })]);
    await resetPeer.asked();
    const skipped = failing(resetPeer, "prompt", {});
    await until(async () => (await resetPeer.agent.listSubmissions()).length === 2);
    await resetPeer.agent.reset();
    return {
      cancelled: await cancelled.running,
      quiet: await quiet.running,
      skipped: await skipped,
    };
  },
  cases: [
    {
      says: "When the submission reaches `completed`, `error`, `aborted`, or `skipped`",
      shows: "a cancelled prompt is a ThinkPromptAbortedError with the reason",
      see: ({ cancelled }) => cancelled,
      is: {
        name: "ThinkPromptAbortedError",
        message: "nobody needs it",
        is: ["aborted"],
        status: "aborted",
        hasId: true,
      },
    },
    {
      says: "When the submission reaches `completed`, `error`, `aborted`, or `skipped`",
      shows: "a prompt that is cancelled without a reason has the error's own text",
      see: ({ quiet }) => [quiet.name, quiet.message],
      is: ["ThinkPromptAbortedError", "Think prompt was aborted"],
    },
    {
      says: "When the submission reaches `completed`, `error`, `aborted`, or `skipped`",
      shows: "a prompt that is skipped by a reset is a ThinkPromptSkippedError",
      see: ({ skipped }) => skipped,
      is: {
        name: "ThinkPromptSkippedError",
        message: "Submission was skipped by turn reset.",
        is: ["skipped"],
        status: "skipped",
        hasId: true,
      },
    },
  ],
});

const timeouts = scenario({
  page,
  play: async (peer) => {
    const kept = peer.another();
    const { held, release } = kept.hold();
    const late = { ...held, answer: { title: "late" } };
    const [over, keptOver] = await Promise.all([
      failing(peer, "over", { delayMs: 60_000 }, { timeout: "1 second" }),
      failing(kept, "kept", late, { timeout: "1 second", cancelOnTimeout: false }),
    ]);
    const [cancelled] = await peer.agent.listSubmissions();
    const [open] = await kept.agent.listSubmissions();
    const status = open?.status;
    release();
    const keptEnd = await kept.ended(open?.submissionId ?? "");
    return { over, keptOver, cancelled, status, keptEnd };
  },
  cases: [
    {
      says: "cancels the Think submission by default and throws `ThinkPromptTimeoutError`.",
      shows: "a prompt whose time is over is a ThinkPromptTimeoutError",
      see: ({ over }) => [over.name, over.message, over.is, over.status, over.hasId],
      is: [
        "ThinkPromptTimeoutError",
        "Timed out waiting for Think prompt",
        ["timeout"],
        "error",
        true,
      ],
    },
    {
      says: "If the wait times out, `step.prompt()` cancels the Think submission by default",
      shows: "the submission of a prompt whose time is over is aborted, and says why",
      see: ({ cancelled }) => [cancelled?.status, cancelled?.error],
      is: ["aborted", "Workflow prompt wait timed out"],
    },
    {
      says: "Set `cancelOnTimeout: false` when you intentionally want the Think submission to continue after the Workflow stops waiting.",
      shows: "with cancelOnTimeout: false the wait is over, and the submission runs on",
      see: ({ keptOver, status, keptEnd }) => [keptOver.name, status, keptEnd.status],
      is: ["ThinkPromptTimeoutError", "running", "completed"],
    },
  ],
});

const control = scenario({
  page,
  play: async (peer) => {
    const plot: Plot = async (step, { reportProgress }) => {
      await reportProgress({ step: "begun", percent: 0.1 });
      const { payload } = await step.waitForEvent<{ approved: boolean }>("approval", {
        type: "approval",
        timeout: "1 minute",
      });
      await step.sendEvent({ heard: payload });
      await step.reportComplete({ approved: payload.approved });
      return payload;
    };
    const id = await peer.start("control", plot);
    const twice = await refused(() => peer.agent.start(id));
    await reached(peer.workflow, id, "running", "waiting");
    const { promise: begun, resolve } = Promise.withResolvers<void>();
    void until(() => peer.hooks("onWorkflowProgress").length > 0).then(() => resolve());
    await begun;
    await peer.agent.tell(id, "approval", { approved: true });
    const output = await outputOf(peer.workflow, id);
    await until(() => peer.hooks("onWorkflowComplete").length > 0);
    const unbound = await refused(() =>
      peer.inside((own) => own.runWorkflow("NO_WORKFLOW" as never, {})),
    );
    const alone = await peer.workflow.create({ id: peer.id("alone"), params: {} });
    const aloneEnd = await until(async () => {
      const found = await (await peer.workflow.get(alone.id)).status();
      return found.status === "errored" && found;
    });
    const errors = await peer.start("fails", async () => {
      throw new Error("the plot failed");
    });
    await reached(peer.workflow, errors, "errored");
    const tracked = (await peer.inside((own) => own.getWorkflow(id)))?.status;
    return {
      ...{ output, twice, unbound, aloneEnd, tracked },
      told: peer
        .hooks("onWorkflowProgress", "onWorkflowEvent", "onWorkflowComplete")
        .map(({ hook, progress, event, result }) => [hook, progress ?? event ?? result]),
      terminateUnknown: await refused(() => peer.agent.terminateWorkflow("unknown")),
      terminateEnded: await refused(() => peer.agent.terminateWorkflow(id)),
    };
  },
  cases: [
    {
      says: "Use `sendWorkflowEvent()` from the Agent when a waiting Workflow needs an external signal, such as human approval:",
      shows: "sendWorkflowEvent() resumes the workflow with the payload",
      see: ({ output }) => output,
      is: { approved: true },
    },
    {
      says: "Start the Workflow from inside your Think Agent with `runWorkflow()`:",
      shows: "the agent is told of progress, events and completion, in this order",
      see: ({ told }) => told,
      is: [
        ["onWorkflowProgress", { step: "begun", percent: 0.1 }],
        ["onWorkflowEvent", { heard: { approved: true } }],
        ["onWorkflowComplete", { approved: true }],
      ],
    },
    {
      says: "Start the Workflow from inside your Think Agent with `runWorkflow()`:",
      shows: "the tracked status of a workflow that reported its completion is complete",
      see: ({ tracked }) => tracked,
      is: "complete",
    },
    {
      says: "`runWorkflow()` creates the Workflow instance",
      shows: "runWorkflow() with an id that is tracked is refused",
      see: ({ twice }) => twice.includes("already"),
      is: true,
    },
    {
      says: "`runWorkflow()` creates the Workflow instance",
      shows: "runWorkflow() of a binding that is not there is refused, and the text names it",
      see: ({ unbound }) => unbound.includes("NO_WORKFLOW"),
      is: true,
    },
    {
      says: "// Avoid this for Agent workflows. It does not include Agent context.",
      shows: "a workflow that was created without its agent fails",
      see: ({ aloneEnd }) => aloneEnd.status,
      is: "errored",
    },
    {
      says: "Use Workflows when the process has multiple deterministic steps, long waits, or human approval.",
      shows: "terminateWorkflow() of an unknown id throws the SDK's error",
      see: ({ terminateUnknown }) => terminateUnknown,
      is: "Workflow unknown not found in tracking table",
    },
    {
      says: "Use Workflows when the process has multiple deterministic steps, long waits, or human approval.",
      shows: "terminateWorkflow() of a workflow that has ended throws",
      see: ({ terminateEnded }) => terminateEnded !== "not refused",
      is: true,
    },
  ],
});

const terminated = scenario({
  page,
  play: async (peer) => {
    const { held, release } = peer.hold();
    const id = await peer.start("terminated", (step) =>
      step.prompt("draft", {
        prompt: ask({ ...held, answer: { title: "t" } }),
        output: titleSchema,
      }),
    );
    await until(() => peer.hooks("execute").length > 0);
    await peer.agent.terminateWorkflow(id);
    release();
    const { status } = await (await peer.workflow.get(id)).status();
    const [submission] = await peer.agent.listSubmissions();
    return { status, end: await peer.ended(submission?.submissionId ?? "") };
  },
  cases: [
    {
      says: "Use it when the Workflow owns the process:",
      shows: "terminateWorkflow() terminates a workflow that waits for a prompt",
      see: ({ status }) => status,
      is: "terminated",
    },
    {
      says: "Use it when the Workflow owns the process:",
      shows: "what becomes of the turn that a terminated workflow waits for",
      see: ({ end }) => end.status,
      is: "completed",
      differs: { by: "Turns of a terminated workflow", perdure: "aborted" },
    },
  ],
});

const restarted = scenario({
  page,
  play: async (peer) => {
    const id = await peer.start("restarted", async (step) => {
      try {
        return await step.prompt("draft", {
          prompt: ask({ answer: { title: "t" } }),
          output: titleSchema,
          timeout: "3 seconds",
        });
      } catch (error) {
        return failure(peer, error).name;
      }
    });
    const first = await outputOf(peer.workflow, id);
    await peer.inside((own) => own.restartWorkflow(id));
    const second = await outputOf(peer.workflow, id);
    return { first, second, calls: peer.model.calls.length };
  },
  cases: [
    {
      says: "creates or finds an idempotent Think submission.",
      shows: "a restarted workflow does not ask the model again",
      see: ({ first, calls }) => [first, calls],
      is: [{ title: "t" }, 1],
    },
    {
      says: "After delivery, the Workflow owns the durable result.",
      shows: "the answer of a prompt after restartWorkflow()",
      see: ({ second }) => second,
      is: "ThinkPromptTimeoutError",
      differs: { by: "Answers after a restart", perdure: { title: "t" } },
    },
  ],
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
    // Any call starts the next life; without one, the agent's alarm does.
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

export const workflows: readonly Scenario<unknown>[] = [
  triage,
  answers,
  tolerant,
  failures,
  ended,
  timeouts,
  control,
  terminated,
  restarted,
  interrupted,
  steps,
  sideBySide,
];
