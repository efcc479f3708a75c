/** What Perdure does otherwise on purpose: repeated steps, bindings, ids of turns, overrides, lost events, wrong tasks. */

import type { ThinkScheduledTaskContext } from "@cloudflare/think";
import { z } from "zod";
import { ask } from "../../../src/testing/index.ts";
import { reached } from "../../support/engine.ts";
import { until } from "../../support/given.ts";
import { workflowBodies } from "../app.ts";
import { type Case, type Peer, refused, type Scenario, says, scenario } from "../harness.ts";
import { AT, armed, declare } from "./schedules.ts";
import { titleSchema } from "./workflows.ts";

const workflows = "workflows.md";
const index = "index.md";

const repeated = scenario({
  page: workflows,
  play: (peer) =>
    peer.run<unknown[]>("repeated", async (step) => {
      const prompt = ask({ answer: { title: "t" } });
      const first = await step.prompt("draft", { prompt, output: titleSchema });
      const second = await step
        .prompt("draft", { prompt, output: titleSchema, timeout: "1 second" })
        .catch(({ name, message }: Error) => `${name}: ${message}`);
      return [first, second];
    }),
  cases: [
    {
      says: "For loops, pass a string `key` to distinguish repeated uses of the same step name",
      shows: "a step name that is used twice in one run, without a key",
      see: (answers) => answers,
      is: [{ title: "t" }, "ThinkPromptTimeoutError: Timed out waiting for Think prompt"],
      differs: {
        by: "Repeated step names",
        perdure: [
          { title: "t" },
          'InvalidPromptError: step.prompt("draft") was used before in this run of the workflow. Step names must be unique within a run: in a loop, pass a different `key` each time.',
        ],
      },
    },
  ],
});

const wrongBinding = scenario({
  page: workflows,
  play: async (peer) => {
    const binding = peer.side === "builtIn" ? "PEER_BUILT_IN_WORKFLOW" : "PEER_PERDURE_WORKFLOW";
    const start = async (of: string, agentBinding: string) => {
      const id = peer.id(of);
      workflowBodies.set(id, async (_step, { agent }) => agent.applyLabels(["called"]));
      const refusal = await refused(() =>
        peer.inside((own) => own.runWorkflow(binding, {}, { id, agentBinding })),
      );
      const isStarted = refusal === "not refused";
      const ended = isStarted && (await reached(peer.workflow, id, "errored")).status;
      // The rest names the bindings of the tests.
      return [refusal.split(";")[0], ended || "not started"];
    };
    return { unknown: await start("unknown", "NO_AGENT"), other: await start("other", "Till") };
  },
  cases: [
    {
      says: "injects the Agent identity that `ThinkWorkflow` needs to reconnect to `this.agent` inside `run()`.",
      shows: "runWorkflow() with an agentBinding that does not exist",
      see: ({ unknown }) => unknown,
      is: ["not refused", "errored"],
      differs: {
        by: "Wrong agent bindings",
        perdure: ['The workflow has "NO_AGENT" as agentBinding', "not started"],
      },
    },
    {
      says: "injects the Agent identity that `ThinkWorkflow` needs to reconnect to `this.agent` inside `run()`.",
      shows: "runWorkflow() with the agentBinding of another class",
      see: ({ other }) => other,
      is: ["not refused", "errored"],
      differs: {
        by: "Wrong agent bindings",
        perdure: ['The workflow has "Till" as agentBinding', "not started"],
      },
    },
  ],
});

const submitted = scenario({
  page: "programmatic-submissions.md",
  play: async (peer) => {
    const { agent } = peer;
    const submit = (options: object) =>
      refused(() => peer.inside((own) => own.submitMessages([says("hi")], options)));
    const unknown = await submit({ submissionId: "unknown", idempotencykey: "k" });
    const long = await submit({ submissionId: "long", idempotencyKey: "k".repeat(3_000) });
    await agent.waitForSubmission("unknown");
    const deleted = await refused(() => peer.inside((own) => own.deleteSubmissions({ limit: 0 })));
    const busy = says({ id: peer.id("busy"), fail: "overloaded", status: 503, failTimes: 1 });
    await agent.submitMessages([busy], { submissionId: "busy" });
    const ended = await agent.waitForSubmission("busy", { timeoutMs: 60_000 });
    return { unknown: unknown.split(".")[0], long, deleted, busy: ended?.status };
  },
  cases: [
    {
      says: "Pass an `idempotencyKey` from your external system.",
      shows: "an option of submitMessages() that does not exist",
      see: ({ unknown }) => unknown,
      is: "not refused",
      differs: {
        by: "Unknown options",
        perdure: 'Unknown option "idempotencykey" in submitMessages()',
      },
    },
    {
      says: "Pass an `idempotencyKey` from your external system.",
      shows: "an idempotency key of 3,000 characters",
      see: ({ long }) => long,
      is: "not refused",
      differs: {
        by: "Long keys and messages",
        perdure:
          "Invalid idempotencyKey of 3000 bytes: expected at most 2048 bytes. Use a digest of it.",
      },
    },
    {
      says: "Completed submission records are retained until you delete them",
      shows: "deleteSubmissions() with a limit of 0",
      see: ({ deleted }) => deleted,
      is: "not refused",
      differs: {
        by: "Invalid limits",
        perdure: "Invalid limit 0: expected a whole number from 1 to 10000.",
      },
    },
    {
      says: "call `inspectSubmission(submissionId)` or `listSubmissions()` to inspect status.",
      shows: "a submission whose model answers 503 once",
      see: ({ busy }) => busy,
      is: "error",
      differs: { by: "Failures of the model that pass", perdure: "completed" },
    },
  ],
});

const turnIds = scenario({
  page: "lifecycle-hooks.md",
  play: async (peer) => {
    peer.settings.hasAction = true;
    const frames: { type: string; id?: string }[] = [];
    const headers = { Upgrade: "websocket", "x-partykit-room": peer.name };
    const { webSocket } = await peer.stub.fetch("http://agent.test/", { headers });
    webSocket?.accept();
    webSocket?.addEventListener("message", ({ data }) => frames.push(JSON.parse(String(data))));
    const idsOf = () =>
      frames.filter(({ type }) => type === "cf_agent_use_chat_response").map(({ id }) => id);
    const script = { tool: { name: "act", input: {} }, text: "acted" };
    await peer.agent.submitMessages([says(script)], { submissionId: "s" });
    await peer.ended("s");
    const ids = new Set(await until(() => idsOf().length > 0 && idsOf()));
    await peer.agent.submitMessages([says({ first: "begun", delayMs: 60_000 })], {
      submissionId: "t",
    });
    const shown = await until(() => idsOf().find((id) => !ids.has(id)));
    await peer.inside((own) => own.cancelChat(shown, "as the client does"));
    const cancelled = await peer.ended("t");
    webSocket?.close();
    const found = await peer.agent.inspectSubmission([...ids][0] ?? "");
    return { ids: [...ids], cancelled, found, acted: peer.hooks("act")[0] };
  },
  cases: [
    {
      says: "Every turn has a request id.",
      shows: "the id of a submitted turn in the frames of a client's stream",
      see: ({ ids }) => ids,
      is: ["s"],
      differs: { by: "Ids of turns in streams and actions", perdure: ["<random>"] },
    },
    {
      says: "all receive the same id for the same turn",
      shows: "the request id that an action of a submitted turn receives",
      see: ({ acted }) => acted?.requestId,
      is: "s",
      differs: { by: "Ids of turns in streams and actions", perdure: "<random>" },
    },
    {
      says: "It returns `{ requestId, trigger, continuation, channel? }` for the running turn",
      shows: "activeTurn in an action of a submitted turn has the submission's id",
      see: ({ acted }) => acted?.active,
      is: "s",
    },
    {
      says: "Every turn has a request id.",
      shows: "inspectSubmission() of the id in a client's stream finds the submission",
      see: ({ found }) => [found?.submissionId, found?.status],
      is: ["s", "completed"],
    },
    {
      says: "for example to call [`cancelChat(requestId)`](./index.md) and bail out of recovery.",
      shows: "cancelChat() of the id in a client's stream cancels the turn",
      see: ({ cancelled }) => [cancelled.status, cancelled.error ?? "none"],
      is: ["aborted", "none"],
    },
  ],
});

const overrides = scenario({
  page: workflows,
  play: async (peer) => {
    const prompt = ask({ answer: { title: "t" } });
    await peer.run("override", (step) => step.prompt("draft", { prompt, output: titleSchema }));
    return peer.hooks("submitMessages").length;
  },
  cases: [
    {
      says: "Think runs the submitted turn through the normal submission queue.",
      shows: "how often an override of submitMessages() is called for a prompt",
      see: (calls) => calls,
      is: 1,
      differs: { by: "Overrides of submitMessages()", perdure: 0 },
    },
  ],
});

const refined = scenario({
  page: workflows,
  play: async (peer) => {
    const output = z.object({ title: z.string().refine((title) => title !== "t") });
    const error = await peer.run<string>("refined", async (step) => {
      const prompt = ask({ answer: { title: "t" } });
      return step.prompt("draft", { prompt, output }).then(
        () => "answered",
        ({ name }: Error) => name,
      );
    });
    return { error, submissions: await peer.agent.listSubmissions() };
  },
  cases: [
    {
      says: "the payload is validated again with the original Zod schema before the typed value is returned.",
      shows: "an answer that only a refinement of the schema refuses",
      see: ({ error, submissions }) => [error, ...submissions.map(({ status }) => status)],
      is: ["ThinkPromptValidationError", "completed"],
    },
  ],
});

const prompt = "work";
const DAILY = { schedule: "every day at 09:00", timezone: "UTC" };
const FAILS = (error: string) => ({ isArmed: true, errors: [error], submitted: 0 });
const SUBMITS = { isArmed: true, errors: [], submitted: 1 };
const INVALID: [what: string, fields: object, is: object, message: string][] = [
  [
    "a prompt without text",
    { prompt: "" },
    SUBMITS,
    'Invalid prompt "": expected a non-empty string, or a function that returns one.',
  ],
  [
    "a prompt that is a number",
    { prompt: 7 },
    SUBMITS,
    "Invalid prompt 7: expected a non-empty string, or a function that returns one.",
  ],
  [
    "a handler that is a text",
    { handler: "digest" },
    FAILS("task.handler is not a function"),
    'Invalid handler "digest": expected a function.',
  ],
  [
    "a retry.maxAttempts of 0",
    { prompt, retry: { maxAttempts: 0 } },
    FAILS("retry.maxAttempts must be >= 1"),
    "Invalid retry.maxAttempts 0: expected a whole number from 1, or Infinity.",
  ],
  [
    "metadata that is a text",
    { prompt, metadata: "team" },
    SUBMITS,
    'Invalid metadata "team": expected an object that JSON can hold.',
  ],
];

const invalid = scenario({
  page: index,
  at: AT,
  play: async (peer) => {
    const seen: Record<string, object> = {};
    for (const [what, fields] of INVALID) {
      const own = peer.another();
      await declare(own, { task: { ...DAILY, ...fields } });
      const { task } = await armed(own);
      if (task) await own.clock?.set(Date.parse(task) + 5_000, own.stub);
      const { submitted, errors } = await until(async () => {
        const found = (await own.agent.listSubmissions()).length;
        const messages = own.hooks("onError").map(({ message }) => message);
        return found + messages.length > 0 && { submitted: found, errors: messages };
      });
      seen[what] = { isArmed: task !== undefined, errors, submitted };
    }
    return seen;
  },
  cases: INVALID.map(
    ([what, , is, message]): Case<Record<string, object>> => ({
      says: "Code-declared recurring prompts or handlers",
      shows: `a task with ${what}, and its first occurrence`,
      see: (seen) => seen[what],
      is,
      differs: {
        by: "Invalid fields of a task",
        perdure: {
          isArmed: false,
          errors: [`Invalid scheduled task "task": ${message}`],
          submitted: 0,
        },
      },
    }),
  ),
});

async function contextOf(peer: Peer, schedule: string, timezone?: string) {
  const own = peer.another();
  let context: ThinkScheduledTaskContext | undefined;
  await declare(own, {
    task: {
      schedule,
      ...(timezone && { timezone }),
      handler: (given: ThinkScheduledTaskContext) => {
        context = given;
      },
    },
  });
  const { task } = await armed(own);
  await own.clock?.set(task ?? AT, own.stub);
  const given = await until(() => context);
  return [given.schedule, given.timezone];
}

const spellings = scenario({
  page: index,
  at: AT,
  play: async (peer) => ({
    alias: await contextOf(peer, "every day at 10:00 in US/Pacific"),
    days: await contextOf(peer, "every week on mon, fri at 07:05", "UTC"),
  }),
  cases: [
    {
      says: "Handler tasks receive `{ taskId, scheduledFor, scheduledForDate, occurrenceKey, idempotencyKey, schedule, scheduleKind, timezone, metadata }`",
      shows: "the timezone of a handler's context, for a zone that is written as an alias",
      see: ({ alias }) => alias,
      is: ["every day at 10:00", "America/Los_Angeles"],
      differs: {
        by: "Spelling of zones and schedules",
        perdure: ["every day at 10:00", "US/Pacific"],
      },
    },
    {
      says: "Handler tasks receive `{ taskId, scheduledFor, scheduledForDate, occurrenceKey, idempotencyKey, schedule, scheduleKind, timezone, metadata }`",
      shows: "the schedule of a handler's context, for days that are written short",
      see: ({ days }) => days,
      is: ["every week on mon,fri at 07:05", "UTC"],
      differs: {
        by: "Spelling of zones and schedules",
        perdure: ["every week on monday,friday at 07:05", "UTC"],
      },
    },
  ],
});

const scheduledOverrides = scenario({
  page: index,
  at: AT,
  play: async (peer) => {
    await declare(peer, { report: { ...DAILY, prompt: "Compile the report." } });
    await peer.clock?.set("2031-03-29T09:00:05Z", peer.stub);
    await until(async () => (await peer.agent.listSubmissions()).length > 0);
    return peer.hooks("submitMessages").length;
  },
  cases: [
    {
      says: "Prompt tasks create a durable submission with `submitMessages()`.",
      shows: "how often an override of submitMessages() is called for a prompt task",
      see: (calls) => calls,
      is: 1,
      differs: { by: "Overrides of submitMessages()", perdure: 0 },
    },
  ],
});

export const intended: readonly Scenario<unknown>[] = [
  submitted,
  repeated,
  wrongBinding,
  turnIds,
  overrides,
  refined,
];
export const intendedTasks: readonly Scenario<unknown>[] = [invalid, spellings, scheduledOverrides];
