/** programmatic-submissions.md: acceptance, idempotency, and the order of turns. */

import type { SubmitMessagesResult, ThinkSubmissionInspection } from "@cloudflare/think";
import { until } from "../../support/given.ts";
import { logOf } from "../app.ts";
import { type Peer, refused, type Scenario, says, scenario } from "../harness.ts";

export const page = "programmatic-submissions.md";

/** One that answers only when it is aborted. */
export const ENDLESS = { delayMs: 60_000 };

/** Submits it, and waits until it runs. */
export async function running(peer: Peer, submissionId: string, script: object = ENDLESS) {
  await peer.agent.submitMessages([says(script)], { submissionId });
  await until(async () => (await peer.status(submissionId)) === "running");
  await peer.asked();
}

const oneTurn = scenario({
  page,
  play: async (peer) => {
    const { agent } = peer;
    const message = says({ text: "hello" }, "m1");
    let running: ThinkSubmissionInspection | null = null;
    peer.settings.onStatus = async ({ submissionId, status }, own) => {
      if (status === "running") running ??= await own.inspectSubmission(submissionId);
    };
    const [accepted, askedBefore] = await peer.inside(async (own) => [
      await own.submitMessages([message], {
        submissionId: "optional-stable-id",
        idempotencyKey: "external-job-id",
        metadata: { source: "webhook" },
      }),
      peer.model.calls.length,
    ]);
    const ended = await peer.ended(accepted.submissionId);
    const messages = await peer.inside((own) => own.getMessages());
    const second = await agent.submitMessages([says("later")]);
    await peer.ended(second.submissionId);
    const later = await agent.inspectSubmission(accepted.submissionId);
    const retry = await agent.submitMessages([says("hello again")], {
      idempotencyKey: "external-job-id",
      metadata: { source: "a retry" },
    });
    return {
      ...{ accepted, askedBefore, ended, later, second, retry, messages },
      running: running as ThinkSubmissionInspection | null,
      transcript: await peer.transcript(),
      log: peer.log,
    };
  },
  cases: [
    {
      says: "`submitMessages()` durably accepts the turn and returns a submission record before inference runs.",
      shows: "submitMessages() returns a pending submission before the model is called",
      see: ({ accepted, askedBefore }) => [accepted.status, accepted.accepted, askedBefore],
      is: ["pending", true, 0],
    },
    {
      says: "The caller can return `submission.submissionId` immediately.",
      shows: "the submission has the id that was asked for",
      see: ({ accepted }) => accepted.submissionId,
      is: "optional-stable-id",
    },
    {
      says: 'submissionId: "optional-stable-id",',
      shows: "without an id the submission gets a random one",
      see: ({ second }) => /[0-9a-f-]{36}$/.test(second.submissionId),
      is: true,
    },
    {
      says: 'metadata: { source: "webhook" }',
      shows: "metadata stays readable on the submission",
      see: ({ accepted, ended }) => [accepted.metadata, ended.metadata],
      is: [{ source: "webhook" }, { source: "webhook" }],
    },
    {
      says: 'idempotencyKey: "external-job-id",',
      shows: "the key stays readable on the submission",
      see: ({ accepted, ended }) => [accepted.idempotencyKey, ended.idempotencyKey],
      is: ["external-job-id", "external-job-id"],
    },
    {
      says: "Accepted and waiting for its turn",
      shows: "a pending submission has a time of acceptance, and none of start or end",
      see: ({ accepted }) => [accepted.createdAt, accepted.startedAt, accepted.completedAt],
      is: ["<time>", null, null],
    },
    {
      says: "Claimed by the agent and executing",
      shows: "a running submission has a time of start, and none of an end",
      see: ({ running }) => [running?.status, running?.startedAt, running?.completedAt],
      is: ["running", "<time>", null],
    },
    {
      says: "The Think turn completed successfully",
      shows: "a completed submission has a time of end, and no error",
      see: ({ ended }) => [ended.status, ended.completedAt, ended.error],
      is: ["completed", "<time>", null],
    },
    {
      says: "The Think turn completed successfully",
      shows: "a submission was accepted before it started, and started before it ended",
      see: ({ ended: { createdAt, startedAt = 0, completedAt = 0 } }) =>
        createdAt <= startedAt && startedAt <= completedAt,
      is: true,
    },
    {
      says: "returns a submission record before inference runs",
      shows: "the request id is the submission's id from acceptance on",
      see: ({ accepted }) => accepted.requestId,
      is: "optional-stable-id",
    },
    {
      says: "Later, call `inspectSubmission(submissionId)` or `listSubmissions()` to inspect status.",
      shows: "the request id of an ended submission is its id",
      see: ({ ended }) => ended.requestId,
      is: "optional-stable-id",
    },
    {
      says: "the inspection carries that message's id as `messageId`",
      shows: "messageId names the assistant message that the turn wrote",
      see: ({ ended, messages }) =>
        messages.findIndex(({ id, role }) => role === "assistant" && id === ended.messageId),
      is: 1,
    },
    {
      says: "even if later turns have added messages since.",
      shows: "messageId stays the same after later turns",
      see: ({ ended, later }) => ended.messageId === later?.messageId,
      is: true,
    },
    {
      says: "It appends the submitted messages to the conversation `Session` only when the submission starts executing.",
      shows: "the conversation has the submitted message under its id, and the reply",
      see: ({ messages }) => messages.map(({ role }, at) => (at === 0 ? messages[0]?.id : role)),
      is: ["m1", "assistant"],
    },
    {
      says: "Retrying with the same key returns the existing submission with `accepted: false`",
      shows: "a retry under the key returns the ended submission, not accepted",
      see: ({ retry }) => [retry.submissionId, retry.accepted, retry.status],
      is: ["optional-stable-id", false, "completed"],
    },
    {
      says: "instead of inserting duplicate messages",
      shows: "a retry adds no message and asks the model nothing",
      see: ({ transcript }) => transcript.length,
      is: 4,
    },
    {
      says: "Retrying with the same key returns the existing submission with `accepted: false`",
      shows: "a retry leaves the metadata of the first",
      see: ({ retry }) => retry.metadata,
      is: { source: "webhook" },
    },
    {
      says: "after `onSubmissionStatus` has run for it",
      shows: "onSubmissionStatus() is called for pending, running and completed, in this order",
      see: ({ log }) =>
        log
          .filter(
            ({ hook, submissionId }) =>
              hook === "onSubmissionStatus" && submissionId === "optional-stable-id",
          )
          .map(({ status }) => status),
      is: ["pending", "running", "completed"],
    },
  ],
});

const refusals = scenario({
  page,
  play: async (peer) => {
    const { agent } = peer;
    await running(peer, "runs");
    const submit = (submissionId?: string, idempotencyKey?: string) =>
      agent.submitMessages([says("once more")], {
        ...(submissionId && { submissionId }),
        ...(idempotencyKey && { idempotencyKey }),
      });
    await submit("one", "key of one");
    await submit("two", "key of two");
    const both = await submit("one", "key of one");
    const byId = await submit("one");
    return {
      both,
      byId,
      empty: await refused(() => peer.inside((own) => own.submitMessages([]))),
      closure: await refused(() => peer.inside((own) => own.submitMessages((() => []) as never))),
      apart: await refused(() => submit("one", "key of two")),
      otherId: await refused(() => submit("three", "key of one")),
      otherKey: await refused(() => submit("one", "key of three")),
      ids: (await agent.listSubmissions()).map(({ submissionId }) => submissionId).sort(),
    };
  },
  cases: [
    {
      says: "The array must contain at least one message.",
      shows: "an empty array is refused",
      see: ({ empty }) => empty.startsWith("submitMessages requires at least one message"),
      is: true,
    },
    {
      says: "It does not accept the function form supported by `saveMessages((messages) => ...)`",
      shows: "a function in place of messages is refused",
      see: ({ closure }) => closure !== "not refused",
      is: true,
    },
    {
      says: "If you pass both `submissionId` and `idempotencyKey`, they must identify the same submission.",
      shows: "an id and its key together find the submission",
      see: ({ both }) => [both.submissionId, both.accepted],
      is: ["one", false],
    },
    {
      says: "Pass an `idempotencyKey` from your external system.",
      shows: "a known id alone finds the submission",
      see: ({ byId }) => [byId.submissionId, byId.accepted],
      is: ["one", false],
    },
    {
      says: "If they point at different existing rows, `submitMessages()` throws instead of choosing one identity over the other.",
      shows: "the id of one submission with the key of another is refused",
      see: ({ apart }) => apart.slice(0, 62),
      is: "submissionId and idempotencyKey refer to different submissions",
    },
    {
      says: "they must identify the same submission",
      shows: "a new id with a known key is refused",
      see: ({ otherId }) => otherId.slice(0, 62),
      is: "submissionId and idempotencyKey refer to different submissions",
    },
    {
      says: "they must identify the same submission",
      shows: "a known id with a new key is refused",
      see: ({ otherKey }) => otherKey.slice(0, 62),
      is: "submissionId and idempotencyKey refer to different submissions",
    },
    {
      says: "`submitMessages()` throws instead of choosing one identity over the other.",
      shows: "what is refused stores nothing",
      see: ({ ids }) => ids,
      is: ["one", "runs", "two"],
    },
  ],
});

const concurrent = scenario({
  page,
  play: async (peer) => {
    const submit = (text: string) =>
      peer.agent.submitMessages([says(text)], { idempotencyKey: "webhook-event-123" });
    const results = await Promise.all([submit("one"), submit("two"), submit("three")]);
    await peer.ended(results[0]?.submissionId ?? "");
    return { results, transcript: await peer.transcript(), calls: peer.model.calls.length };
  },
  cases: [
    {
      says: "Retrying can duplicate a user message and start a second turn.",
      shows: "of simultaneous first submissions under a key one is accepted",
      see: ({ results }) => results.map(({ accepted }) => accepted).sort(),
      is: [false, false, true],
    },
    {
      says: "// retry.submissionId === first.submissionId",
      shows: "simultaneous submissions under a key return the same id",
      see: ({ results }) => new Set(results.map(({ submissionId }) => submissionId)).size,
      is: 1,
    },
    {
      says: "Retrying can duplicate a user message and start a second turn.",
      shows: "simultaneous submissions under a key make one turn",
      see: ({ transcript, calls }) => [transcript.length, calls],
      is: [2, 1],
    },
  ],
});

const order = scenario({
  page,
  play: async (peer) => {
    const { agent } = peer;
    const ids = ["first", "second", "third"];
    for (const submissionId of ids) {
      const messages = [says(`${submissionId} one`), says({ text: `reply to ${submissionId}` })];
      await agent.submitMessages(messages, { submissionId });
    }
    const accepted = await Promise.all(ids.map((id) => peer.status(id)));
    const atOnce = await peer.transcript();
    for (const id of ids) await peer.ended(id);
    const prompts = peer.model.prompts().map((asked) => asked.length);
    const transcript = (await peer.transcript()).map((text) => text.replace(/\{.*"(.*)".*/, "$1"));
    const listed = (await agent.listSubmissions()).map(({ submissionId }) => submissionId);
    return { accepted, atOnce, prompts, transcript, listed };
  },
  cases: [
    {
      says: "This preserves FIFO turn semantics",
      shows: "submissions run in the order of their acceptance",
      see: ({ transcript }) => transcript.filter((text) => text.startsWith("assistant")),
      is: ["assistant: reply to first", "assistant: reply to second", "assistant: reply to third"],
    },
    {
      says: "later accepted submissions are not visible to the model until their own turn starts.",
      shows: "the model sees its own turn and those before, and none that waits",
      see: ({ prompts }) => prompts,
      is: [2, 5, 8],
    },
    {
      says: "accepted submissions are serialized by Think and do not append their messages to the session until their own turn starts.",
      shows: "all messages of a submission are appended together, with the reply behind them",
      see: ({ transcript }) => transcript.slice(0, 3),
      is: ["user: first one", "user: reply to first", "assistant: reply to first"],
    },
    {
      says: "call `inspectSubmission(submissionId)` or `listSubmissions()` to inspect status.",
      shows: "listSubmissions() has the newest first",
      see: ({ listed }) => listed,
      is: ["third", "second", "first"],
    },
  ],
});

const layers = scenario({
  page,
  play: async (peer) => {
    const submitted: string[] = [];
    const fiber = (id: string) =>
      peer.inside((own) =>
        own.startFiber(
          "reply-to-webhook",
          async (ctx) => {
            ctx.stash({ webhookId: id });
            const { submissionId } = await own.submitMessages([says("from a fiber")], {
              idempotencyKey: `turn:${id}`,
              metadata: { threadId: "t" },
            });
            submitted.push(submissionId);
          },
          { idempotencyKey: `webhook:${id}`, waitForCompletion: true },
        ),
      );
    await fiber("1");
    await fiber("1");
    const ended = await peer.ended(submitted[0] ?? "");
    return { submitted: submitted.length, ended, transcript: await peer.transcript() };
  },
  cases: [
    {
      says: "Use the two APIs together when the external job is larger than the Think turn itself",
      shows: "a fiber submits a turn once, however often it is started under its key",
      see: ({ submitted, ended, transcript }) => [submitted, ended.status, transcript],
      is: [1, "completed", ["user: from a fiber", "assistant: You said: from a fiber"]],
    },
    {
      says: "metadata: { threadId }",
      shows: "a submission of a fiber has its key and metadata",
      see: ({ ended }) => [ended.idempotencyKey, ended.metadata],
      is: ["turn:1", { threadId: "t" }],
    },
  ],
});

/** What looks like a workflow's prompt, and is none. */
const lookalikes = scenario({
  page,
  play: async (peer) => {
    const workflow = { name: "W", id: "i", stepName: "s", eventType: "think-prompt-x" };
    await peer.agent.submitMessages([says({ text: "plain", answer: { title: "x" } })], {
      submissionId: "s",
      metadata: { workflow, workflowPrompt: { output: { schema: { type: "object" } } } },
    });
    return { ended: await peer.ended("s"), offered: peer.model.offered() };
  },
  cases: [
    {
      says: "`submitMessages()` accepts serializable `UIMessage[]` values.",
      shows: "metadata of the app does not make a submission a workflow's prompt",
      see: ({ ended, offered }) => [ended.status, offered.flat().includes("think_final_answer")],
      is: ["completed", false],
    },
  ],
});

const children = scenario({
  page,
  play: async (peer) => {
    const call = (method: string, ...args: unknown[]) =>
      peer.inside((own) => own.onChild(peer.id("child"), method, ...args)) as Promise<object>;
    const accepted = await call("submitMessages", [says("to a child")], { submissionId: "s" });
    const ended = await call("waitForSubmission", "s", { timeoutMs: 60_000 });
    const again = await call("submitMessages", [says("to a child")], { submissionId: "s" });
    const statuses = logOf(peer.id("child")).filter(({ hook }) => hook === "onSubmissionStatus");
    return {
      accepted: accepted as SubmitMessagesResult,
      ended: ended as ThinkSubmissionInspection,
      again: again as SubmitMessagesResult,
      statuses: statuses.map(({ status }) => status),
      own: (await peer.agent.listSubmissions()).length,
    };
  },
  cases: [
    {
      says: "Use `submitMessages()` when a caller needs to start a Think turn, return quickly, retry safely, and inspect the result later.",
      shows: "a submission of a sub-agent completes",
      see: ({ accepted, ended, statuses }) => [accepted.status, ended.status, statuses],
      is: ["pending", "completed", ["pending", "running", "completed"]],
    },
    {
      says: "Retrying with the same key returns the existing submission with `accepted: false`",
      shows: "a sub-agent accepts a submission once, and its parent has none of it",
      see: ({ again, own }) => [again.accepted, own],
      is: [false, 0],
    },
  ],
});

export const submissions: readonly Scenario<unknown>[] = [
  oneTurn,
  refusals,
  concurrent,
  order,
  layers,
  lookalikes,
  children,
];
