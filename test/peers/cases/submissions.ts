/** programmatic-submissions.md: acceptance, idempotency, statuses, and the order of turns. */

import type { SubmitMessagesResult, ThinkSubmissionInspection } from "@cloudflare/think";
import { until } from "../../support/given.ts";
import { logOf } from "../app.ts";
import { type Peer, refused, type Scenario, says, scenario } from "../harness.ts";

const page = "programmatic-submissions.md";

/** One that answers only when it is aborted. */
const ENDLESS = { delayMs: 60_000 };

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

const lists = scenario({
  page,
  play: async (peer) => {
    const { agent } = peer;
    await agent.submitMessages([says("done")], { submissionId: "completed" });
    await peer.ended("completed");
    await agent.submitMessages([says({ fail: "no" })], { submissionId: "failed" });
    await peer.ended("failed");
    await agent.submitMessages([says(ENDLESS)], { submissionId: "running" });
    await until(async () => (await peer.status("running")) === "running");
    // Of those of one millisecond the built-in has the greater id first.
    for (const submissionId of ["waits", "withdrawn"]) {
      await agent.submitMessages([says("wait")], { submissionId });
    }
    await agent.cancelSubmission("withdrawn");
    const ids = async (options?: object) =>
      (await agent.listSubmissions(options)).map(({ submissionId }) => submissionId);
    const seen = {
      unknown: await agent.inspectSubmission("unknown"),
      active: await ids({ status: ["pending", "running"] }),
      one: await ids({ status: "completed" }),
      two: await ids({ status: ["completed", "error", "aborted"], limit: 2 }),
      none: await ids({ status: "skipped" }),
      limited: await ids({ limit: 3 }),
      noLimit: await ids({ limit: 0 }).catch((error: Error) => error.message),
      deletedActive: await agent.deleteSubmissions({ status: ["pending", "running"] }),
      deleteActive: await agent.deleteSubmission("waits"),
      deleteUnknown: await agent.deleteSubmission("unknown"),
      deletedEarlier: await agent.deleteSubmissions({ completedBefore: new Date(1_000) }),
      deleteOne: await agent.deleteSubmission("failed"),
    };
    const afterOne = await agent.inspectSubmission("failed");
    const deletedLimited = await agent.deleteSubmissions({
      status: ["completed", "error", "aborted"],
      completedBefore: new Date(Date.now() + 1_000),
      limit: 1,
    });
    const afterLimited = await ids();
    const deletedAll = await agent.deleteSubmissions();
    return { ...seen, afterOne, deletedLimited, afterLimited, deletedAll, left: await ids() };
  },
  cases: [
    {
      says: "const current = await this.inspectSubmission(submission.submissionId);",
      shows: "inspectSubmission() of an unknown id is null",
      see: ({ unknown }) => unknown,
      is: null,
    },
    {
      says: 'status: ["pending", "running"]',
      shows: "listSubmissions() takes a list of statuses",
      see: ({ active }) => active,
      is: ["waits", "running"],
    },
    {
      says: 'status: ["pending", "running"]',
      shows: "listSubmissions() takes one status",
      see: ({ one }) => one,
      is: ["completed"],
    },
    {
      says: 'status: ["pending", "running"]',
      shows: "listSubmissions() applies the limit to all statuses together, newest first",
      see: ({ two }) => two,
      is: ["withdrawn", "failed"],
    },
    {
      says: 'status: ["pending", "running"]',
      shows: "listSubmissions() of a status that nothing has is empty",
      see: ({ none }) => none,
      is: [],
    },
    {
      says: "call `inspectSubmission(submissionId)` or `listSubmissions()` to inspect status.",
      shows: "listSubmissions() has as many as the limit",
      see: ({ limited }) => limited,
      is: ["withdrawn", "waits", "running"],
    },
    {
      says: "call `inspectSubmission(submissionId)` or `listSubmissions()` to inspect status.",
      shows: "listSubmissions() with a limit of 0",
      see: ({ noLimit }) => noLimit,
      is: ["withdrawn"],
      differs: {
        by: "Limits out of range",
        perdure: "limit is 0; expected a whole number from 1 to 1000. Call again for the rest.",
      },
    },
    {
      says: "Completed submission records are retained until you delete them",
      shows: "deleteSubmissions() leaves active submissions, also if asked for them",
      see: ({ deletedActive }) => deletedActive,
      is: 0,
    },
    {
      says: "Completed submission records are retained until you delete them",
      shows: "deleteSubmission() returns false for an active submission and for an unknown one",
      see: ({ deleteActive, deleteUnknown }) => [deleteActive, deleteUnknown],
      is: [false, false],
    },
    {
      says: "completedBefore: new Date(Date.now() - 7 * 24 * 60 * 60 * 1000)",
      shows: "deleteSubmissions() deletes only what ended before that time",
      see: ({ deletedEarlier }) => deletedEarlier,
      is: 0,
    },
    {
      says: "Completed submission records are retained until you delete them",
      shows: "deleteSubmission() deletes an ended submission",
      see: ({ deleteOne, afterOne }) => [deleteOne, afterOne],
      is: [true, null],
    },
    {
      says: 'status: ["completed", "error", "aborted"],',
      shows:
        "deleteSubmissions() deletes the oldest first, as many as the limit, and returns how many",
      see: ({ deletedLimited, afterLimited }) => [deletedLimited, afterLimited],
      is: [1, ["withdrawn", "waits", "running"]],
    },
    {
      says: "Completed submission records are retained until you delete them",
      shows: "deleteSubmissions() without options deletes all that have ended",
      see: ({ deletedAll, left }) => [deletedAll, left],
      is: [1, ["waits", "running"]],
    },
  ],
});

/** Many that wait, so that limits are reached. */
const manyListed = scenario({
  page,
  play: async (peer) => {
    await running(peer, "runs");
    await peer.inside(async (own) => {
      for (let made = 0; made < 105; made++) await own.submitMessages([says("wait")]);
    });
    return {
      byDefault: (await peer.agent.listSubmissions()).length,
      most: (await peer.agent.listSubmissions({ limit: 104 })).length,
    };
  },
  cases: [
    {
      says: "call `inspectSubmission(submissionId)` or `listSubmissions()` to inspect status.",
      shows: "listSubmissions() without a limit",
      see: ({ byDefault }) => byDefault,
      is: 50,
      differs: { by: "Length of lists", perdure: 100 },
    },
    {
      says: "call `inspectSubmission(submissionId)` or `listSubmissions()` to inspect status.",
      shows: "listSubmissions() with a limit over 100",
      see: ({ most }) => most,
      is: 100,
      differs: { by: "Length of lists", perdure: 104 },
    },
  ],
});

/** While another turn holds the conversation. */
const behindATurn = scenario({
  page,
  play: async (peer) => {
    const { agent } = peer;
    const { held, release } = peer.hold();
    const saved = peer.inside((own) => own.saveMessages([says({ ...held, text: "saved" })]));
    await until(() => peer.hooks("execute").length > 0);
    const { submissionId } = await agent.submitMessages([says("behind")], {
      submissionId: "behind",
    });
    const together = [says("one"), says("two"), says("three")];
    await agent.submitMessages(together, { submissionId: "together" });
    // On one side it gets there, on the other it does not.
    await until(async () => (await peer.status(submissionId)) === "running", 500).catch(() => {});
    const whileBusy = await peer.status(submissionId);
    const seen = { whileBusy, transcript: await peer.transcript() };
    const cancelled = await agent.cancelSubmission(submissionId, "cancelled before its turn");
    await agent.cancelSubmission("together", "not needed");
    release();
    const result = await saved;
    await agent.submitMessages([says("last")], { submissionId: "last" });
    await peer.ended("last");
    return { ...seen, cancelled, saved: result.status, after: await peer.transcript() };
  },
  cases: [
    {
      says: "`saveMessages()` waits for the turn to finish.",
      shows: "saveMessages() returns the final status",
      see: ({ saved }) => saved,
      is: "completed",
    },
    {
      says: "// result.status is the accepted submission state",
      shows: "the status of a submission while another turn holds the conversation",
      see: ({ whileBusy }) => whileBusy,
      is: "running",
      differs: { by: "Status behind another turn", perdure: "pending" },
    },
    {
      says: "do not append their messages to the session until their own turn starts.",
      shows: "while another turn runs, the messages of a submission are not in the conversation",
      see: ({ transcript }) => transcript.length,
      is: 1,
    },
    {
      says: "including one that has been claimed but is still waiting for its turn, those messages are not persisted to the conversation.",
      shows: "a submission that is cancelled behind another turn leaves no message",
      see: ({ after }) => after.filter((text) => text === "user: behind"),
      is: [],
    },
    {
      says: "If you cancel a submission before its messages have been applied",
      shows: "no message of several is left of a submission that is cancelled before its turn",
      see: ({ after }) => after.filter((text) => /user: (one|two|three)/.test(text)),
      is: [],
    },
    {
      says: "`messagesApplied` says whether any of its messages reached the conversation.",
      shows: "messagesApplied is false behind another turn",
      see: ({ cancelled }) => cancelled.outcome === "cancelled" && cancelled.messagesApplied,
      is: false,
    },
    {
      says: "This preserves FIFO turn semantics",
      shows: "after cancelled submissions the next one runs",
      see: ({ after }) => after.slice(2),
      is: ["user: last", "assistant: You said: last"],
    },
  ],
});

const resets = scenario({
  page,
  play: async (peer) => {
    const { agent } = peer;
    await running(peer, "runs");
    await agent.submitMessages([says("wait")], { submissionId: "waits" });
    await agent.reset();
    const skipped = await peer.ended("waits");
    const other = peer.another();
    await running(other, "runs");
    await other.agent.submitMessages([says("wait")], { submissionId: "waits" });
    await other.inside((own) => own.clearMessages());
    const cleared = await other.ended("waits");
    await other.agent.submitMessages([says("after")], { submissionId: "after" });
    const after = await other.ended("after");
    const runs = await other.ended("runs");
    const fresh = await refused(() => peer.another().agent.reset());
    return {
      skipped,
      cleared,
      after,
      runs,
      transcript: await other.transcript(),
      fresh,
      log: peer.log,
    };
  },
  cases: [
    {
      says: "Turn state was reset before the submission ran",
      shows: "a reset skips what waits, and says so",
      see: ({ skipped }) => [skipped.status, skipped.error],
      is: ["skipped", "Submission was skipped by turn reset."],
    },
    {
      says: "If the chat is cleared or turn state is reset before a pending submission runs, that submission is marked `skipped`.",
      shows: "clearMessages() skips what waits",
      see: ({ cleared }) => cleared.status,
      is: "skipped",
    },
    {
      says: "Turn state was reset before the submission ran",
      shows: "a skipped submission never started and has an end",
      see: ({ skipped }) => [skipped.startedAt, skipped.completedAt],
      is: [null, "<time>"],
    },
    {
      says: "after `onSubmissionStatus` has run for it",
      shows: "onSubmissionStatus() is called for a skipped submission",
      see: ({ log }) => log.filter(({ status }) => status === "skipped").length,
      is: 1,
    },
    {
      says: "If the chat is cleared or turn state is reset before a pending submission runs",
      shows: "after clearMessages() the next submission runs in an empty conversation",
      see: ({ after, transcript }) => [after.status, transcript],
      is: ["completed", ["user: after", "assistant: You said: after"]],
    },
    {
      says: "If the chat is cleared or turn state is reset before a pending submission runs",
      shows: "clearMessages() aborts the submission that runs",
      see: ({ runs }) => runs.status,
      is: "aborted",
    },
    {
      says: "turn state is reset before a pending submission runs",
      shows: "a reset as the first call of a new agent does not fail",
      see: ({ fresh }) => fresh,
      is: "not refused",
    },
  ],
});

const failures = scenario({
  page,
  play: async (peer) => {
    const { agent } = peer;
    await agent.submitMessages([says({ fail: "the stream broke" })], { submissionId: "broken" });
    const broken = await peer.ended("broken");
    await agent.submitMessages([says({ first: "half ", fail: "in the middle" })], {
      submissionId: "half",
    });
    const half = await peer.ended("half");
    peer.settings.beforeTurn = () => {
      throw new Error("the hook failed");
    };
    await agent.submitMessages([says("never")], { submissionId: "hook" });
    const hook = await peer.ended("hook");
    delete peer.settings.beforeTurn;
    await agent.submitMessages([says("fine")], { submissionId: "fine" });
    const fine = await peer.ended("fine");
    const messages = await peer.inside((own) => own.getMessages());
    return { broken, half, hook, fine, messages, log: peer.log };
  },
  cases: [
    {
      says: "Execution failed or recovery was unsafe",
      shows: "a failure of the model ends the submission with its text",
      see: ({ broken }) => [broken.status, broken.error],
      is: ["error", "the stream broke"],
    },
    {
      says: "Execution failed or recovery was unsafe",
      shows: "a failure in the middle of the reply ends the submission with its text",
      see: ({ half }) => [half.status, half.error],
      is: ["error", "in the middle"],
    },
    {
      says: "Once the turn persists its assistant message, the inspection carries that message's id as `messageId`",
      shows: "the partial reply of a failed turn is in the conversation, and messageId names it",
      see: ({ half, messages }) =>
        messages
          .find(({ id }) => id === half.messageId)
          ?.parts.filter(({ type }) => type === "text"),
      is: [{ type: "text", text: "half ", state: "done" }],
    },
    {
      says: "Execution failed or recovery was unsafe",
      shows: "an error of beforeTurn() ends the submission with its text",
      see: ({ hook }) => [hook.status, hook.error],
      is: ["error", "the hook failed"],
    },
    {
      says: "This preserves FIFO turn semantics",
      shows: "the submission after a failed one runs",
      see: ({ fine }) => fine.status,
      is: "completed",
    },
    {
      says: "An `error` status resolves rather than rejects, so read `status` and `error` from the result.",
      shows: "onSubmissionStatus() is told of the error",
      see: ({ log }) =>
        log
          .filter(({ hook, status }) => hook === "onSubmissionStatus" && status === "error")
          .map(({ error }) => error),
      is: ["the stream broke", "in the middle", "the hook failed"],
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
    const ended = await call("waitForSubmission", "s", { timeoutMs: 15_000 });
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
  lists,
  manyListed,
  behindATurn,
  resets,
  failures,
  layers,
  lookalikes,
  children,
];
