/** lifecycle-hooks.md and "Choosing a Turn API" of index.md: how a turn is submitted, cancelled and observed. */

import { subscribe } from "node:diagnostics_channel";
import type { RunTurnSubmit, SubmitMessagesResult } from "@cloudflare/think";
import { until } from "../../support/given.ts";
import type { PeerAgent } from "../app.ts";
import { refused, type Scenario, says, scenario } from "../harness.ts";
import { running } from "./submissions.ts";

const hooks = "lifecycle-hooks.md";
const index = "index.md";
const submissions = "programmatic-submissions.md";
const WORK = { name: "work", input: { text: "dig" } };

const submitMode = scenario({
  page: index,
  play: async (peer) => {
    const run = (options: object): Promise<SubmitMessagesResult> =>
      peer.inside((own) => own.runTurn({ mode: "submit", ...options } as RunTurnSubmit));
    const text = await run({ input: "a text", idempotencyKey: "k", metadata: { m: 1 } });
    const again = await run({ input: "a text", idempotencyKey: "k" });
    const message = await run({ input: says("a message") });
    const list = await run({ input: [says("one"), says("two")], submissionId: "list" });
    const ended = await peer.ended("list");
    return {
      ...{ text, again, message, list, ended },
      inspected: await peer.agent.inspectSubmission(text.submissionId),
      transcript: await peer.transcript(),
      closure: await refused(() => run({ input: () => [] })),
      noInput: await refused(() => run({})),
      empty: await refused(() => run({ input: [] })),
    };
  },
  cases: [
    {
      says: '// submission.accepted is true on first accept; submission.status is "pending"',
      shows: "runTurn() in submit mode returns a pending submission",
      see: ({ text }) => [text.accepted, text.status],
      is: [true, "pending"],
    },
    {
      says: "re-submitting a known key returns the existing record with `accepted: false` instead of starting a second turn.",
      shows: "runTurn() in submit mode accepts a key once",
      see: ({ text, again }) => [again.accepted, again.submissionId === text.submissionId],
      is: [false, true],
    },
    {
      says: "The `input` accepts a string, a `UIMessage`, an array of messages",
      shows: "runTurn() in submit mode takes a text, a message and a list of messages",
      see: ({ transcript }) => transcript.filter((line) => line.startsWith("user")),
      is: ["user: a text", "user: a message", "user: one", "user: two"],
    },
    {
      says: "Pass `submissionId` and/or `idempotencyKey`",
      shows: "runTurn() in submit mode takes a submission id",
      see: ({ list, ended }) => [list.submissionId, ended.status],
      is: ["list", "completed"],
    },
    {
      says: "The caller needs fast, durable acceptance and a later status",
      shows: "runTurn() in submit mode takes metadata, which inspectSubmission() has",
      see: ({ inspected }) => inspected?.metadata,
      is: { m: 1 },
    },
    {
      says: "(`submit` does not accept function input.)",
      shows: "runTurn() in submit mode refuses a function",
      see: ({ closure }) => closure !== "not refused",
      is: true,
    },
    {
      says: "pass exactly one of `input` or `continuation`",
      shows: "runTurn() in submit mode refuses a call without input",
      see: ({ noInput }) => noInput !== "not refused",
      is: true,
    },
    {
      says: "`Promise<SubmitMessagesResult>`",
      shows: "runTurn() in submit mode refuses an empty list",
      see: ({ empty }) => empty.startsWith("submitMessages requires at least one message"),
      is: true,
    },
  ],
});

const nesting = scenario({
  page: index,
  play: async (peer) => {
    const nested: Record<string, string> = {};
    peer.settings.work = async (_input, own) => {
      nested.wait = await refused(() => own.runTurn({ input: "nested" }));
      nested.save = await refused(() => own.saveMessages([says("nested")]));
      nested.submit = await refused(() =>
        own.submitMessages([says("submitted from a tool")], { submissionId: "inner" }),
      );
      nested.add = await refused(() => own.addMessages([says("context")]));
    };
    await peer.agent.submitMessages([says({ tool: WORK, text: "outer" })], {
      submissionId: "outer",
    });
    const outer = await peer.ended("outer");
    const inner = await peer.ended("inner");
    return { nested, outer, inner, transcript: await peer.transcript() };
  },
  cases: [
    {
      says: "for example, from a tool's `execute` — throws, because it would deadlock the turn queue.",
      shows: "runTurn() and saveMessages() from a tool of a submitted turn throw",
      see: ({ nested }) => [nested.wait !== "not refused", nested.save !== "not refused"],
      is: [true, true],
    },
    {
      says: 'From inside a turn, use `runTurn({ mode: "submit" })` (durable, runs after the current turn frees the queue)',
      shows: "a tool of a submitted turn can submit another turn, which runs after it",
      see: ({ nested, outer, inner }) => [
        nested.submit,
        inner.status,
        (outer.completedAt ?? 0) <= (inner.completedAt ?? 0),
      ],
      is: ["not refused", "completed", true],
    },
    {
      says: "so it is safe to call from inside a tool's `execute` without deadlocking.",
      shows: "a tool of a submitted turn can add messages",
      see: ({ nested, transcript }) => [
        nested.add,
        transcript.filter((line) => line === "user: context").length,
      ],
      is: ["not refused", 1],
    },
  ],
});

const cancelChat = scenario({
  page: hooks,
  play: async (peer) => {
    await running(peer, "s");
    const byId = await peer.inside((own) => own.cancelChat("s", "by the submission's id"));
    const soon = await peer.agent.waitForSubmission("s", { timeoutMs: 4_000 });
    if (soon?.status === "running") await peer.agent.cancelSubmission("s");
    const other = peer.another();
    await running(other, "s");
    const [hooked] = other.hooks("beforeTurn");
    await other.inside((own) => own.cancelChat(String(hooked?.requestId), "by the hook's id"));
    const byHook = await other.ended("s");
    const stays = other.another();
    await running(stays, "s");
    await stays.inside((own) => own.cancelAllChats());
    return { byId, soon, byHook, all: await stays.ended("s") };
  },
  cases: [
    {
      says: "for example to call [`cancelChat(requestId)`](./index.md) and bail out of recovery.",
      shows: "cancelChat() of the submission's id cancels its turn",
      see: ({ soon }) => soon?.status,
      is: "aborted",
    },
    {
      says: "so a classifier can correlate the error with the in-flight turn",
      shows: "cancelChat() of the request id that beforeTurn() received cancels the turn",
      see: ({ byHook }) => byHook.status,
      is: "aborted",
    },
    {
      says: "How the turn ended",
      shows: "cancelAllChats() cancels the turn of a submission",
      see: ({ all }) => all.status,
      is: "aborted",
    },
  ],
});

type Observed = { type: string; name: string; payload: Record<string, unknown> };

const events = scenario({
  page: "programmatic-submissions.md",
  play: async (peer) => {
    const observed: Observed[] = [];
    const listen = (event: unknown) => {
      const { type, name, payload } = event as Observed;
      if (name === peer.name && type.startsWith("submission:"))
        observed.push({ type, name, payload });
    };
    subscribe("agents:message", listen);
    await peer.agent.submitMessages([says("fine")], { submissionId: "fine", idempotencyKey: "k" });
    await peer.ended("fine");
    await peer.agent.submitMessages([says({ fail: "broken" })], { submissionId: "broken" });
    await peer.ended("broken");
    await running(peer, "runs");
    await peer.agent.cancelSubmission("runs", "enough");
    await until(() => peer.hooks("onSubmissionStatus").some(({ status }) => status === "aborted"));
    return {
      statuses: observed
        .filter(({ type }) => type === "submission:status")
        .map(({ payload }) => `${payload.submissionId} ${payload.status}`),
      created: observed
        .filter(({ type }) => type === "submission:create")
        .map(({ payload }) => payload.submissionId),
      failed: observed
        .filter(({ type }) => type === "submission:error")
        .map(({ payload }) => [payload.submissionId, payload.error]),
    };
  },
  cases: [
    {
      says: "`submitMessages()` creates a durable acceptance boundary:",
      shows: "the event submission:create is emitted for each accepted submission",
      see: ({ created }) => created,
      is: ["fine", "broken", "runs"],
    },
    {
      says: "## Statuses",
      shows: "the event submission:status is emitted for each status",
      see: ({ statuses }) => statuses,
      is: [
        "fine pending",
        "fine running",
        "fine completed",
        "broken pending",
        "broken running",
        "broken error",
        "runs pending",
        "runs running",
        "runs aborted",
      ],
    },
    {
      says: "Execution failed or recovery was unsafe",
      shows: "the event submission:error is emitted for a failed submission",
      see: ({ failed }) => failed,
      is: [["broken", "broken"]],
    },
  ],
});

const requests = scenario({
  page: "programmatic-submissions.md",
  play: async (peer) => {
    const response = await peer.stub.fetch("http://agent.test/hook", {
      method: "POST",
      headers: { "x-partykit-room": peer.name },
      body: JSON.stringify([says("from a request")]),
    });
    const { submissionId } = (await response.json()) as { submissionId: string };
    await peer.ended(submissionId);
    return { log: peer.hooks("onSubmissionStatus"), ok: response.ok };
  },
  cases: [
    {
      says: "Webhook handlers, RPC callers, and parent Workers often have strict timeout limits.",
      shows: "a submission that a request accepts completes",
      see: ({ ok, log }) => [ok, log.map(({ status }) => status)],
      is: [true, ["pending", "running", "completed"]],
    },
    {
      says: "after `onSubmissionStatus` has run for it.",
      shows: "getCurrentAgent().request is the request in onSubmissionStatus() for pending",
      see: ({ log: [first] }) => first?.url,
      is: "http://agent.test/hook",
    },
  ],
});

const channels = scenario({
  page: index,
  play: async (peer) => {
    await peer.agent.submitMessages([says({ tool: WORK })], { submissionId: "s", channel: "web" });
    await peer.ended("s");
    const [execute] = peer.hooks("execute");
    const [first] = await peer.inside((own) => own.getMessages());
    return { active: execute?.activeTurn as { channel?: string }, metadata: first?.metadata };
  },
  cases: [
    {
      says: "`configureChannels()`",
      shows: "activeTurn of a submission for a channel has the channel",
      see: ({ active }) => active.channel,
      is: "web",
    },
    {
      says: "`configureChannels()`",
      shows: "the message of a submission for a channel has the channel in its metadata",
      see: ({ metadata }) => metadata,
      is: { channel: "web" },
    },
  ],
});

const DIRECT_FIRST = ["user: direct", "user: submitted"];

/** The questions of the conversation in the order of their turns, of a method that submits a turn and runs another one. */
const order = scenario({
  page: submissions,
  play: async (peer) => {
    const turn = async (work: (own: PeerAgent) => Promise<unknown>) => {
      const one = peer.another();
      await one.inside(async (own) => void (await work(own)));
      await one.ended("submitted");
      return (await one.transcript()).filter((line) => line.startsWith("user"));
    };
    const submit = (own: PeerAgent) =>
      own.submitMessages([says("submitted")], { submissionId: "submitted" });
    return {
      saved: await turn(async (own) => {
        await submit(own);
        await own.saveMessages([says("direct")]);
      }),
      run: await turn(async (own) => {
        await submit(own);
        await own.runTurn({ input: "direct" });
      }),
      both: await turn((own) => Promise.all([submit(own), own.saveMessages([says("direct")])])),
      reversed: await turn((own) => Promise.all([own.saveMessages([says("direct")]), submit(own)])),
      later: await turn(async (own) => {
        await submit(own);
        await own.waitForSubmission("submitted");
        await own.saveMessages([says("direct")]);
      }),
    };
  },
  cases: [
    {
      says: "Use `saveMessages()` when the caller can wait for the full turn",
      shows: "a turn that a method runs itself comes before one that it has submitted",
      see: ({ saved, run }) => [saved, run],
      is: [DIRECT_FIRST, DIRECT_FIRST],
    },
    {
      says: "Use `saveMessages()` when the caller can wait for the full turn",
      shows: "a turn that a method runs itself comes before one that it submits at the same time",
      see: ({ both, reversed }) => [both, reversed],
      is: [DIRECT_FIRST, DIRECT_FIRST],
    },
    {
      says: "accepted submissions are serialized by Think",
      shows: "a turn that is run later comes after one that was submitted",
      see: ({ later }) => later,
      is: ["user: submitted", "user: direct"],
    },
  ],
});

const mcpWait = scenario({
  page: index,
  play: (peer) => peer.inside((own) => own.waitForMcpConnections),
  cases: [
    {
      says: "| `waitForMcpConnections` | `false` | Wait for MCP servers before inference",
      shows: "the default of waitForMcpConnections",
      see: (wait) => wait,
      is: false,
      differs: { by: "MCP servers after a restart", perdure: { timeout: 15_000 } },
    },
  ],
});

export const turns: readonly Scenario<unknown>[] = [
  order,
  mcpWait,
  submitMode,
  nesting,
  cancelChat,
  events,
  requests,
  channels,
];
