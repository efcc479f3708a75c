/** programmatic-submissions.md: lists, deletion, resets, failures, and turns that come before. */

import { until } from "../../support/given.ts";
import { refused, type Scenario, says, scenario } from "../harness.ts";
import { ENDLESS, page, running } from "./submissions.ts";

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
        by: "Invalid limits",
        perdure: "Invalid limit 0: expected a whole number from 1 to 1000.",
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
      shows: "onSubmissionStatus() gets the error",
      see: ({ log }) =>
        log
          .filter(({ hook, status }) => hook === "onSubmissionStatus" && status === "error")
          .map(({ error }) => error),
      is: ["the stream broke", "in the middle", "the hook failed"],
    },
  ],
});

export const ledger: readonly Scenario<unknown>[] = [
  lists,
  manyListed,
  behindATurn,
  resets,
  failures,
];
