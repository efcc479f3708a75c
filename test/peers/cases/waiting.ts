/** programmatic-submissions.md: cancelling, and waiting for an end. */

import { until } from "../../support/given.ts";
import { refused, type Scenario, says, scenario } from "../harness.ts";
import { running } from "./submissions.ts";

const page = "programmatic-submissions.md";
const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

const cancels = scenario({
  page,
  play: async (peer) => {
    const { agent } = peer;
    await running(peer, "runs", { first: "a beginning", delayMs: 600_000 });
    await agent.submitMessages([says("wait"), says("more")], { submissionId: "waits" });
    const pending = await agent.cancelSubmission("waits", "No longer needed");
    await until(() => peer.hooks("onChunk").some(({ type }) => type === "text-delta"));
    const ran = await agent.cancelSubmission("runs", new Error("an error as reason"));
    const again = await agent.cancelSubmission("runs", "another reason");
    const unknown = await agent.cancelSubmission("unknown");
    await running(peer, "quiet");
    await agent.submitMessages([says("wait")], { submissionId: "waits quietly" });
    const quietPending = await agent.cancelSubmission("waits quietly");
    const quiet = await agent.cancelSubmission("quiet");
    await agent.submitMessages([says("next")], { submissionId: "next" });
    await peer.ended("next");
    await sleep(100);
    const late = await agent.inspectSubmission("runs");
    const responses = peer.hooks("onChatResponse");
    const transcript = await peer.transcript();
    const log = peer.log;
    return { pending, ran, again, unknown, quiet, quietPending, late, responses, transcript, log };
  },
  cases: [
    {
      says: "`previousStatus` is `pending` when it was removed before its turn started",
      shows: "cancelling what waits says so",
      see: ({ pending }) =>
        pending.outcome === "cancelled" && [pending.previousStatus, pending.messagesApplied],
      is: ["pending", false],
    },
    {
      says: "`submission` holds the new state.",
      shows: "the result of cancelling has the aborted submission",
      see: ({ pending }) =>
        pending.outcome === "cancelled" && [
          pending.submission.submissionId,
          pending.submission.status,
          pending.submission.completedAt,
        ],
      is: ["waits", "aborted", "<time>"],
    },
    {
      says: 'await this.cancelSubmission(submission.submissionId, "No longer needed");',
      shows: "the reason of cancelling is the submission's error",
      see: ({ pending }) => pending.outcome === "cancelled" && pending.submission.error,
      is: "No longer needed",
    },
    {
      says: "or `running` when its turn had been claimed and was signalled to abort.",
      shows: "cancelling what runs says so, and that its messages were applied",
      see: ({ ran }) => ran.outcome === "cancelled" && [ran.previousStatus, ran.messagesApplied],
      is: ["running", true],
    },
    {
      says: "The submission is now `aborted`.",
      shows: "the text of an error as reason is the submission's error",
      see: ({ ran }) =>
        ran.outcome === "cancelled" && [ran.submission.status, ran.submission.error],
      is: ["aborted", "an error as reason"],
    },
    {
      says: "The submission had already finished. `submission` holds its final state, which is unchanged.",
      shows: "cancelling what has ended changes nothing",
      see: ({ again }) =>
        again.outcome === "already_terminal" && [again.submission.status, again.submission.error],
      is: ["aborted", "an error as reason"],
    },
    {
      says: "No submission has this id.",
      shows: "cancelling an unknown id is not_found",
      see: ({ unknown }) => unknown,
      is: { outcome: "not_found", submissionId: "unknown" },
    },
    {
      says: "The submission was cancelled",
      shows: "a pending submission that is cancelled without a reason has no error",
      see: ({ quietPending }) =>
        quietPending.outcome === "cancelled" && [quietPending.submission.error ?? "none"],
      is: ["none"],
    },
    {
      says: "The submission was cancelled",
      shows: "a running submission that is cancelled without a reason has no error",
      see: ({ quiet }) => quiet.outcome === "cancelled" && [quiet.submission.error ?? "none"],
      is: ["none"],
    },
    {
      says: "A `running` cancellation stops the turn",
      shows: "the end of a cancelled turn does not overwrite aborted",
      see: ({ late }) => [late?.status, late?.error],
      is: ["aborted", "an error as reason"],
    },
    {
      says: "A `running` cancellation stops the turn",
      shows: "the partial reply of a cancelled turn stays in the conversation",
      see: ({ transcript }) => transcript[1],
      is: "assistant: a beginning",
    },
    {
      says: "those messages are not persisted to the conversation.",
      shows: "the messages of a pending submission that was cancelled are not in the conversation",
      see: ({ transcript }) => transcript.filter((text) => /user: (wait|more)/.test(text)),
      is: [],
    },
    {
      says: "The submission was cancelled",
      shows: "messageId of a cancelled turn names its partial reply",
      see: ({ late }) => late?.messageId !== undefined,
      is: true,
    },
    {
      says: "This works across Worker and Durable Object RPC boundaries, unlike `AbortSignal`.",
      shows: "onSubmissionStatus() is called for each cancellation",
      see: ({ log }) =>
        log
          .filter(({ hook, status }) => hook === "onSubmissionStatus" && status === "aborted")
          .map(({ submissionId }) => submissionId),
      is: ["waits", "runs", "waits quietly", "quiet"],
    },
    {
      says: "A `running` cancellation stops the turn",
      shows: "onChatResponse() of a cancelled turn gets the status aborted, and no error",
      see: ({ responses }) => responses.map(({ status, error }) => [status, error ?? "none"])[0],
      is: ["aborted", "none"],
    },
  ],
});

const waits = scenario({
  page,
  play: async (peer) => {
    const { agent } = peer;
    const hooked: string[] = [];
    peer.settings.onStatus = async ({ status }) => {
      await sleep(60);
      hooked.push(status);
    };
    await agent.submitMessages([says("done")], { submissionId: "done" });
    const hookedAtAcceptance = [...hooked];
    const done = await agent.waitForSubmission("done");
    const hookedAtEnd = [...hooked];
    const atOnce = await agent.waitForSubmission("done");
    await running(peer, "runs");
    await agent.submitMessages([says("wait")], { submissionId: "waits" });
    await agent.submitMessages([says({ fail: "broken" })], { submissionId: "fails" });
    const soon = await agent.waitForSubmission("runs", { timeoutMs: 30 });
    const soonPending = await agent.waitForSubmission("waits", { timeoutMs: 0 });
    const waiting = [agent.waitForSubmission("runs"), agent.waitForSubmission("fails")];
    const both = [agent.waitForSubmission("waits"), agent.waitForSubmission("waits")];
    await agent.cancelSubmission("runs");
    const [cancelled, failed] = await Promise.all(waiting);
    const two = (await Promise.all(both)).map((found) => found?.status);
    return {
      ...{
        hookedAtAcceptance,
        done,
        hookedAtEnd,
        atOnce,
        soon,
        soonPending,
        cancelled,
        failed,
        two,
      },
      unknown: await agent.waitForSubmission("unknown"),
      unknownSoon: await agent.waitForSubmission("unknown", { timeoutMs: 10 }),
    };
  },
  cases: [
    {
      says: "returns a submission record before inference runs.",
      shows: "submitMessages() returns when onSubmissionStatus() has returned for pending",
      see: ({ hookedAtAcceptance }) => hookedAtAcceptance,
      is: ["pending"],
    },
    {
      says: "resolves once the submission reaches `completed`, `aborted`, `skipped`, or `error`",
      shows: "waitForSubmission() resolves with a completed submission",
      see: ({ done }) => done?.status,
      is: "completed",
    },
    {
      says: "after `onSubmissionStatus` has run for it.",
      shows: "waitForSubmission() resolves when onSubmissionStatus() has returned for the end",
      see: ({ hookedAtEnd }) => hookedAtEnd,
      is: ["pending", "running", "completed"],
    },
    {
      says: "It returns immediately for a submission that has already finished",
      shows: "waitForSubmission() returns an ended submission at once",
      see: ({ atOnce }) => atOnce?.status,
      is: "completed",
    },
    {
      says: "returns `null` for an unknown id.",
      shows: "waitForSubmission() of an unknown id is null, with and without a timeout",
      see: ({ unknown, unknownSoon }) => [unknown, unknownSoon],
      is: [null, null],
    },
    {
      says: "With `timeoutMs`, the call returns the submission as it is when the time runs out, still `pending` or `running`",
      shows: "waitForSubmission() returns a running submission when the time is over",
      see: ({ soon }) => soon?.status,
      is: "running",
    },
    {
      says: "still `pending` or `running`",
      shows: "waitForSubmission() returns a pending submission when the time is over",
      see: ({ soonPending }) => soonPending?.status,
      is: "pending",
    },
    {
      says: "resolves once the submission reaches `completed`, `aborted`, `skipped`, or `error`",
      shows: "waitForSubmission() resolves with an aborted submission",
      see: ({ cancelled }) => cancelled?.status,
      is: "aborted",
    },
    {
      says: "An `error` status resolves rather than rejects, so read `status` and `error` from the result.",
      shows: "waitForSubmission() resolves with a failed submission and its error",
      see: ({ failed }) => [failed?.status, failed?.error],
      is: ["error", "broken"],
    },
    {
      says: "resolves once the submission reaches `completed`, `aborted`, `skipped`, or `error`",
      shows: "two waits for one submission both resolve",
      see: ({ two }) => two,
      is: ["completed", "completed"],
    },
  ],
});

const forbiddenWaits = scenario({
  page,
  play: async (peer) => {
    const refusals: string[] = [];
    peer.settings.work = async (_input, own) => {
      await until(() => own.inspectSubmission("behind"));
      refusals.push(await refused(() => own.waitForSubmission("behind")));
    };
    peer.settings.onStatus = async ({ submissionId, status }, own) => {
      if (submissionId !== "hook" || status !== "running") return;
      refusals.push(await refused(() => own.waitForSubmission("hook")));
    };
    const tool = { name: "work", input: { text: "wait" } };
    await peer.agent.submitMessages([says({ tool })], { submissionId: "turn" });
    await peer.agent.submitMessages([says("behind")], { submissionId: "behind" });
    await peer.ended("behind");
    await peer.agent.submitMessages([says("hook")], { submissionId: "hook" });
    const hook = await peer.ended("hook");
    return { refusals: refusals.map((text) => text.split(":")[0]), hook };
  },
  cases: [
    {
      says: "`waitForSubmission(submissionId)` resolves once the submission reaches",
      shows: "waitForSubmission() throws from inside a turn",
      see: ({ refusals }) => refusals[0],
      is: "waitForSubmission() cannot be called from inside an active turn",
    },
    {
      says: "after `onSubmissionStatus` has run for it.",
      shows: "waitForSubmission() throws from onSubmissionStatus()",
      see: ({ refusals }) => refusals[1],
      is: "waitForSubmission() cannot be called from onSubmissionStatus",
    },
    {
      says: "after `onSubmissionStatus` has run for it.",
      shows: "after the refused wait in onSubmissionStatus() the turn continues",
      see: ({ hook }) => hook.status,
      is: "completed",
    },
  ],
});

const hooksThatThrow = scenario({
  page,
  play: async (peer) => {
    peer.settings.onStatus = async () => {
      throw new Error("the hook failed");
    };
    await peer.agent.submitMessages([says("fine")], { submissionId: "s" });
    return { ended: await peer.ended("s"), log: peer.hooks("onSubmissionStatus") };
  },
  cases: [
    {
      says: "after `onSubmissionStatus` has run for it.",
      shows: "what onSubmissionStatus() throws changes nothing",
      see: ({ ended, log }) => [ended.status, log.map(({ status }) => status)],
      is: ["completed", ["pending", "running", "completed"]],
    },
  ],
});

const deletedWhileWaiting = scenario({
  page,
  play: async (peer) => {
    const { agent } = peer;
    let deleted: boolean | undefined;
    peer.settings.onStatus = async ({ status, submissionId }, own) => {
      if (status === "completed") deleted = await own.deleteSubmission(submissionId);
    };
    await agent.submitMessages([says({ delayMs: 300 })], { submissionId: "s" });
    const waited = await agent.waitForSubmission("s", { timeoutMs: 60_000 });
    return { waited, deleted, after: await agent.waitForSubmission("s") };
  },
  cases: [
    {
      says: "or `null` if it was deleted.",
      shows: "a submission that onSubmissionStatus() deletes at its end is gone",
      see: ({ deleted, after }) => [deleted, after],
      is: [true, null],
    },
    {
      says: "resolves once the submission reaches `completed`, `aborted`, `skipped`, or `error`, after `onSubmissionStatus` has run for it.",
      shows: "a wait for a submission that is deleted at its end resolves with that end",
      see: ({ waited }) => waited?.status ?? null,
      is: "completed",
    },
  ],
});

const restarted = scenario({
  page,
  play: async (peer) => {
    const { agent } = peer;
    const hangs = says({ hangTimes: 1, text: "after the restart", id: peer.name });
    await agent.submitMessages([hangs], { submissionId: "s" });
    await peer.asked();
    const wait = refused(() => peer.agent.waitForSubmission("s"));
    // Answered after the call before has begun to wait.
    await peer.agent.inspectSubmission("s");
    await peer.crash();
    const rejected = (await wait) !== "not refused";
    const ended = await peer.ended("s");
    const transcript = await peer.transcript();
    await peer.agent.submitMessages([says("behind")], { submissionId: "behind" });
    const behind = await peer.ended("behind");
    const retry = await peer.agent.submitMessages([says("again")], { submissionId: "s" });
    return { rejected, ended, behind, transcript, retry };
  },
  cases: [
    {
      says: "The wait is held in the agent's memory, so it rejects if the agent restarts.",
      shows: "a wait rejects if the agent restarts",
      see: ({ rejected }) => rejected,
      is: true,
    },
    {
      says: "The submission itself is durable, so call `waitForSubmission()` again to keep waiting.",
      shows: "an interrupted turn completes after the restart",
      see: ({ ended }) => [ended.status, ended.error ?? "none"],
      is: ["completed", "none"],
    },
    {
      says: "Later, call `inspectSubmission(submissionId)` or `listSubmissions()` to inspect status.",
      shows: "the request id of a submission whose interrupted turn was recovered",
      see: ({ ended }) => ended.requestId,
      is: "<random>",
      differs: { by: "Request ids after a recovery", perdure: "s" },
    },
    {
      says: "Retrying can duplicate a user message and start a second turn.",
      shows: "an interrupted turn has its message and its reply once",
      see: ({ transcript }) => transcript.map((text) => text.replace(/\{.*/, "{")),
      is: ["user: {", "assistant: after the restart"],
    },
    {
      says: "The submission itself is durable",
      shows: "what is submitted after an interrupted turn runs",
      see: ({ behind }) => behind.status,
      is: "completed",
    },
    {
      says: "// retry.accepted === false",
      shows: "the id is known after a restart",
      see: ({ retry }) => [retry.accepted, retry.status],
      is: [false, "completed"],
    },
  ],
});

export const waiting: readonly Scenario<unknown>[] = [
  cancels,
  waits,
  forbiddenWaits,
  hooksThatThrow,
  deletedWhileWaiting,
  restarted,
];
