/** workflows.md: failures and timeouts of prompts; starting workflows, and telling them of events. */

import { z } from "zod";
import { ask, type Script } from "../../../src/testing/index.ts";
import { outputOf, reached } from "../../support/engine.ts";
import { until } from "../../support/given.ts";
import type { WorkflowBody } from "../app.ts";
import { type Peer, refused, type Scenario, says, scenario } from "../harness.ts";

export const page = "workflows.md";
export const titleSchema = z.object({ title: z.string() });

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
      differs: {
        by: "Messages of prompt errors",
        perdure: {
          name: "ThinkPromptError",
          message: 'step.prompt("draft"): the model broke',
          is: [],
          status: "error",
          hasId: true,
        },
      },
    },
    {
      says: "(`Model ended the turn without calling the think_final_answer tool`)",
      shows: "a turn that ends with a text is a ThinkPromptError",
      see: ({ silent }) => [silent.name, silent.status],
      is: ["ThinkPromptError", "error"],
      differs: {
        by: "Text in place of the answer",
        perdure: ["ThinkPromptValidationError", "error"],
      },
    },
    {
      says: "With those models the turn ends without a `think_final_answer` call and `step.prompt()` fails",
      shows: "a turn that ends with a text which is the answer",
      see: ({ written }) => (written.other ? JSON.parse(written.other) : written.name),
      is: "ThinkPromptError",
      differs: { by: "Text in place of the answer", perdure: { title: "t" } },
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
      const running = failing(of, "prompt", { delayMs: 600_000 });
      const submission = await until(async () => (await of.agent.listSubmissions())[0]);
      await of.asked();
      return { running, id: submission.submissionId };
    };
    const cancelled = await open(peer);
    await peer.agent.cancelSubmission(cancelled.id, "no longer needed");
    const quietPeer = peer.another();
    const quiet = await open(quietPeer);
    await quietPeer.agent.cancelSubmission(quiet.id);
    const resetPeer = peer.another();
    await resetPeer.agent.submitMessages([says({ delayMs: 600_000 })]);
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
        message: "no longer needed",
        is: ["aborted"],
        status: "aborted",
        hasId: true,
      },
      differs: {
        by: "Messages of prompt errors",
        perdure: {
          name: "ThinkPromptAbortedError",
          message: 'step.prompt("draft"): no longer needed',
          is: ["aborted"],
          status: "aborted",
          hasId: true,
        },
      },
    },
    {
      says: "When the submission reaches `completed`, `error`, `aborted`, or `skipped`",
      shows: "a prompt that is cancelled without a reason has the error's own text",
      see: ({ quiet }) => [quiet.name, quiet.message],
      is: ["ThinkPromptAbortedError", "Think prompt was aborted"],
      differs: {
        by: "Messages of prompt errors",
        perdure: [
          "ThinkPromptAbortedError",
          'step.prompt("draft"): Think prompt was aborted. Restart the workflow to ask again.',
        ],
      },
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
      differs: {
        by: "Messages of prompt errors",
        perdure: {
          name: "ThinkPromptSkippedError",
          message: 'step.prompt("draft"): Submission was skipped by turn reset.',
          is: ["skipped"],
          status: "skipped",
          hasId: true,
        },
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
      failing(peer, "over", { delayMs: 600_000 }, { timeout: "1 second" }),
      failing(kept, "kept", late, { timeout: "1 second", cancelOnTimeout: false }),
    ]);
    const [cancelled] = await peer.agent.listSubmissions();
    const [open] = await kept.agent.listSubmissions();
    const status = await until(async () => {
      const found = await kept.status(open?.submissionId ?? "");
      return found !== "pending" && found;
    });
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
      differs: {
        by: "Messages of prompt errors",
        perdure: [
          "ThinkPromptTimeoutError",
          'step.prompt("draft"): Timed out waiting for Think prompt after 1 second. Set a longer timeout.',
          ["timeout"],
          "error",
          true,
        ],
      },
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
    const body: WorkflowBody = async (step, { reportProgress }) => {
      await reportProgress({ step: "begun", percent: 0.1 });
      const { payload } = await step.waitForEvent<{ approved: boolean }>("approval", {
        type: "approval",
        timeout: "1 minute",
      });
      await step.sendEvent({ received: payload });
      await step.reportComplete({ approved: payload.approved });
      return payload;
    };
    const id = await peer.start("control", body);
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
      throw new Error("the body failed");
    });
    await reached(peer.workflow, errors, "errored");
    const tracked = (await peer.inside((own) => own.getWorkflow(id)))?.status;
    return {
      ...{ output, twice, unbound, aloneEnd, tracked },
      reports: peer
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
      shows: "the agent's hooks get progress, events and completion, in this order",
      see: ({ reports }) => reports,
      is: [
        ["onWorkflowProgress", { step: "begun", percent: 0.1 }],
        ["onWorkflowEvent", { received: { approved: true } }],
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
          timeout: "8 seconds",
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

export const workflows: readonly Scenario<unknown>[] = [
  failures,
  ended,
  timeouts,
  control,
  terminated,
  restarted,
];
