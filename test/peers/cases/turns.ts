/** lifecycle-hooks.md and "Choosing a Turn API" of index.md: what a submitted turn is for the app's hooks. */

import { subscribe } from "node:diagnostics_channel";
import type { RunTurnSubmit, SubmitMessagesResult } from "@cloudflare/think";
import { until } from "../../support/given.ts";
import { type Peer, refused, type Scenario, says, scenario } from "../harness.ts";
import { running } from "./submissions.ts";

const hooks = "lifecycle-hooks.md";
const index = "index.md";
const WORK = { name: "work", input: { text: "dig" } };

const turn = scenario({
  page: hooks,
  play: async (peer) => {
    peer.settings.system = "Dig well.";
    await peer.agent.submitMessages([says({ tool: WORK, text: "dug" })], { submissionId: "s" });
    const ended = await peer.ended("s");
    const [beforeTurn] = peer.hooks("beforeTurn");
    const [execute] = peer.hooks("execute");
    const [response] = peer.hooks("onChatResponse");
    const order = peer.log
      .map(({ hook }) => hook)
      .filter((hook) => !["onChunk", "onSubmissionStatus"].includes(hook));
    const chunks = peer.hooks("onChunk").map(({ type }) => type);
    const messages = await peer.inside((own) => own.getMessages());
    const outside = await peer.inside((own) => own.activeTurn === undefined);
    return { ended, beforeTurn, execute, response, order, chunks, messages, outside, peer };
  },
  cases: [
    {
      says: "Hooks fire on every turn regardless of entry path — WebSocket chat, sub-agent `chat()`, `saveMessages()`, durable `submitMessages()` execution",
      shows: "the hooks of a submitted turn with a tool call are called in the documented order",
      see: ({ order }) => order,
      is: [
        "beforeTurn",
        "beforeStep",
        "beforeToolCall",
        "execute",
        "afterToolCall",
        "onStepFinish",
        "beforeStep",
        "onStepFinish",
        "onChatResponse",
      ],
    },
    {
      says: "Called for each streaming chunk.",
      shows: "onChunk() sees the chunks of a submitted turn",
      see: ({ chunks }) => [...new Set(chunks)].sort(),
      is: [
        "finish",
        "finish-step",
        "start",
        "start-step",
        "text-delta",
        "text-end",
        "text-start",
        "tool-call",
        "tool-input-delta",
        "tool-input-end",
        "tool-input-start",
        "tool-result",
      ],
    },
    {
      says: 'What admitted the turn: `"ws-chat"`, `"rpc"`, `"submission"`, and so on',
      shows: "ctx.trigger of a submitted turn is submission",
      see: ({ beforeTurn }) => beforeTurn?.trigger,
      is: "submission",
    },
    {
      says: "Every turn has a request id.",
      shows: "ctx.requestId of a submitted turn is the submission's id",
      see: ({ beforeTurn }) => beforeTurn?.requestId,
      is: "s",
    },
    {
      says: "`beforePersist`, `beforeTurn`, `beforeToolCall`, `onChatResponse` and `onChatError` all receive the same id for the same turn",
      shows:
        "beforeTurn(), beforeToolCall() and onChatResponse() of a turn receive the same request id",
      see: ({ peer, beforeTurn, response }) =>
        peer.hooks("beforeToolCall")[0]?.requestId === beforeTurn?.requestId &&
        beforeTurn?.requestId === response?.requestId,
      is: true,
    },
    {
      says: "Unique ID for this turn",
      shows: "onChatResponse() receives the request id that the submission has",
      see: ({ response, ended }) => response?.requestId === ended.requestId,
      is: true,
    },
    {
      says: "It returns `{ requestId, trigger, continuation, channel? }` for the running turn",
      shows: "activeTurn in a tool of a submitted turn",
      see: ({ execute }) => execute?.activeTurn,
      is: { requestId: "s", trigger: "submission", continuation: false },
    },
    {
      says: "and `undefined` outside a turn",
      shows: "activeTurn is undefined after the turn",
      see: ({ outside }) => outside,
      is: true,
    },
    {
      says: "Whether this is a continuation turn (auto-continue after tool result)",
      shows: "a submitted turn is no continuation",
      see: ({ beforeTurn, response }) => [beforeTurn?.continuation, response?.continuation],
      is: [false, false],
    },
    {
      says: "Aborts when the turn is cancelled. Pass it to I/O the hook awaits",
      shows: "beforeTurn() of a submitted turn has an abort signal",
      see: ({ beforeTurn }) => beforeTurn?.hasSignal,
      is: true,
    },
    {
      says: "Assembled system prompt (`getSystemPrompt()` override, then context blocks)",
      shows: "the system prompt of a submitted turn begins with getSystemPrompt()",
      see: ({ beforeTurn }) => String(beforeTurn?.system).split("\n")[0],
      is: "Dig well.",
    },
    {
      says: "Assembled model messages (truncated)",
      shows: "ctx.messages has the submitted message",
      see: ({ beforeTurn }) => beforeTurn?.messages,
      is: 1,
    },
    {
      says: "Merged tool set (workspace + getTools + context + MCP + client + caller)",
      shows: "a submitted turn offers the tools of getTools(), and no final answer",
      see: ({ beforeTurn }) => beforeTurn?.tools,
      is: ["work"],
    },
    {
      says: "Zero-based number of the step about to run",
      shows: "beforeStep() counts the steps of a submitted turn, and those that have completed",
      see: ({ peer }) =>
        peer.hooks("beforeStep").map(({ stepNumber, steps }) => [stepNumber, steps]),
      is: [
        [0, 0],
        [1, 1],
      ],
    },
    {
      says: "Called **before** the tool's `execute` function runs.",
      shows: "beforeToolCall() receives the tool's name and input",
      see: ({ peer }) =>
        peer.hooks("beforeToolCall").map(({ toolName, input }) => [toolName, input]),
      is: [["work", { text: "dig" }]],
    },
    {
      says: "`afterToolCall` always fires after the decision resolves.",
      shows: "afterToolCall() receives the output",
      see: ({ peer }) =>
        peer.hooks("afterToolCall").map(({ success, output }) => [success, output]),
      is: [[true, "worked: dig"]],
    },
    {
      says: "onStepFinish(ctx: StepContext)",
      shows: "onStepFinish() receives the finish reason, text and usage of each step",
      see: ({ peer }) =>
        peer
          .hooks("onStepFinish")
          .map(({ finishReason, text, tokens }) => [finishReason, text, tokens]),
      is: [
        ["tool-calls", "", [10, 5]],
        ["stop", "dug", [10, 5]],
      ],
    },
    {
      says: "Called after a chat turn completes and the assistant message has been persisted.",
      shows: "onChatResponse() receives the message that is in the conversation",
      see: ({ response, messages, ended }) => [
        response?.status,
        response?.types,
        messages.at(-1)?.id === response?.id,
        ended.messageId === response?.id,
      ],
      is: ["completed", ["tool-work", "text"], true, true],
    },
  ],
});

const decisions = scenario({
  page: hooks,
  play: async (peer) => {
    const ask = async (submissionId: string, decide: Peer["settings"]["beforeToolCall"]) => {
      if (decide) peer.settings.beforeToolCall = decide;
      const from = peer.log.length;
      await peer.agent.submitMessages([says({ tool: WORK })], { submissionId });
      await peer.ended(submissionId);
      const log = peer.log.slice(from);
      const executed = log.filter(({ hook }) => hook === "execute").map(({ input }) => input);
      const [after] = log.filter(({ hook }) => hook === "afterToolCall");
      return { executed, after: [after?.success, after?.input, after?.output] };
    };
    return {
      block: await ask("block", () => ({ action: "block", reason: "not now" })),
      plainBlock: await ask("plain block", () => ({ action: "block" })),
      substitute: await ask("substitute", () => ({ action: "substitute", output: "cached" })),
      allow: await ask("allow", () => ({ action: "allow" })),
      changed: await ask("changed", () => ({ action: "allow", input: { text: "deeper" } })),
      throws: await ask("throws", () => {
        throw new Error("no decision");
      }),
    };
  },
  cases: [
    {
      says: "Skip `execute`; the model sees `reason` (or a default string) as the tool's output",
      shows: "a blocked tool of a submitted turn does not run, and the model sees the reason",
      see: ({ block }) => block,
      is: { executed: [], after: [true, { text: "dig" }, "not now"] },
    },
    {
      says: "(or a default string)",
      shows: "a block without a reason has the default text",
      see: ({ plainBlock }) => [plainBlock.executed, typeof plainBlock.after[2]],
      is: [[], "string"],
    },
    {
      says: "Skip `execute`; the model sees `output` as the tool's output",
      shows: "a substituted output of a submitted turn stands for the tool's",
      see: ({ substitute }) => substitute,
      is: { executed: [], after: [true, { text: "dig" }, "cached"] },
    },
    {
      says: "Same as `void`",
      shows: "an allowed tool runs with the model's input",
      see: ({ allow }) => allow,
      is: { executed: [{ text: "dig" }], after: [true, { text: "dig" }, "worked: dig"] },
    },
    {
      says: "when `allow` substitutes the input, `afterToolCall.input` still reflects what the **model** emitted",
      shows: "a tool runs with the substituted input, and afterToolCall() has the model's",
      see: ({ changed }) => changed,
      is: { executed: [{ text: "deeper" }], after: [true, { text: "dig" }, "worked: deeper"] },
    },
    {
      says: "Called **before** the tool's `execute` function runs.",
      shows: "a beforeToolCall() that throws makes the call fail, and the tool does not run",
      see: ({ throws }) => [throws.executed, throws.after[0]],
      is: [[], false],
    },
  ],
});

const config = scenario({
  page: hooks,
  play: async (peer) => {
    const ask = async (beforeTurn: Peer["settings"]["beforeTurn"], script: object = {}) => {
      if (beforeTurn) peer.settings.beforeTurn = beforeTurn;
      const from = peer.model.calls.length;
      const { submissionId } = await peer.agent.submitMessages([says(script)]);
      await peer.ended(submissionId);
      return peer.model.calls.slice(from);
    };
    const system = await ask(() => ({ system: "Only this." }));
    const settings = await ask(() => ({
      temperature: 0.5,
      maxOutputTokens: 77,
      topP: 0.4,
      seed: 9,
    }));
    const active = await ask(() => ({ activeTools: ["work"] }));
    const none = await ask(() => ({ activeTools: [] }));
    const choice = await ask(() => ({ toolChoice: "none" }));
    const steps = await ask(() => ({ maxSteps: 1 }), { tool: WORK });
    const messages = await ask(() => ({
      messages: [{ role: "user", content: "another question" }],
    }));
    await ask(() => ({
      messageMetadata: ({ part }) => (part.type === "start" ? { stamped: "yes" } : undefined),
    }));
    const last = (await peer.inside((own) => own.getMessages())).at(-1);
    const chosen = choice[0]?.toolChoice;
    return { system, settings: settings[0], active, none, chosen, steps, messages, last };
  },
  cases: [
    {
      says: "Override the system prompt",
      shows: "beforeTurn() sets the system prompt of a submitted turn",
      see: ({ system }) => system[0]?.prompt[0],
      is: { role: "system", content: "Only this." },
    },
    {
      says: "Maximum tokens to generate",
      shows: "beforeTurn() sets the model's settings of a submitted turn",
      see: ({ settings }) => [
        settings?.temperature,
        settings?.maxOutputTokens,
        settings?.topP,
        settings?.seed,
      ],
      is: [0.5, 77, 0.4, 9],
    },
    {
      says: "Limit which tools the model can call",
      shows: "beforeTurn() limits the tools of a submitted turn",
      see: ({ active, none }) => [
        active[0]?.tools?.map(({ name }) => name),
        none[0]?.tools?.length ?? 0,
      ],
      is: [["work"], 0],
    },
    {
      says: "Force a specific tool call",
      shows: "beforeTurn() sets the choice of tools of a submitted turn",
      see: ({ chosen }) => chosen,
      is: { type: "none" },
    },
    {
      says: "Override `maxSteps` for this turn",
      shows: "beforeTurn() limits the steps of a submitted turn",
      see: ({ steps }) => steps.length,
      is: 1,
    },
    {
      says: "Override the assembled messages",
      shows: "beforeTurn() sets the messages of a submitted turn",
      see: ({ messages }) => messages[0]?.prompt.filter(({ role }) => role === "user"),
      is: [{ role: "user", content: [{ type: "text", text: "another question" }] }],
    },
    {
      says: "Stamp server-authored metadata on the assistant message this turn persists.",
      shows: "messageMetadata of a submitted turn is on the stored message",
      see: ({ last }) => (last?.metadata as { stamped?: string } | undefined)?.stamped,
      is: "yes",
    },
  ],
});

const errors = scenario({
  page: hooks,
  play: async (peer) => {
    await peer.agent.submitMessages([says({ first: "begun", fail: "broken" })], {
      submissionId: "s",
    });
    await peer.ended("s");
    peer.settings.beforeTurn = () => {
      throw new Error("no turn");
    };
    await peer.agent.submitMessages([says("never")], { submissionId: "t" });
    await peer.ended("t");
    delete peer.settings.beforeTurn;
    const refusals: string[] = [];
    peer.settings.onChatResponse = async (_result, own) => {
      delete peer.settings.onChatResponse;
      refusals.push(await refused(() => own.saveMessages([says("wait for it")])));
      await own.submitMessages([says("a follow-up")], { submissionId: "follow-up" });
      peer.log.push({ hook: "followed up" });
    };
    await peer.agent.submitMessages([says("fine")], { submissionId: "fine" });
    await peer.ended("fine");
    await until(() => peer.hooks("followed up").length > 0);
    const followed = await peer.ended("follow-up");
    const order = peer.log
      .filter(
        ({ hook, submissionId, status }) =>
          hook === "followed up" || (submissionId === "fine" && status === "completed"),
      )
      .map(({ hook }) => hook);
    return {
      errors: peer.hooks("onChatError"),
      responses: peer.hooks("onChatResponse"),
      followed,
      refusals,
      order,
    };
  },
  cases: [
    {
      says: "Called when an error occurs during a chat turn.",
      shows:
        "onChatError() is not called for submitted turns, which have their error in the ledger",
      see: ({ errors }) => errors,
      is: [],
    },
    {
      says: 'Error message (when `status` is `"error"`)',
      shows: "onChatResponse() of a failed turn receives its error and its partial message",
      see: ({ responses: [first] }) => [first?.status, first?.error, first?.types],
      is: ["error", "broken", ["text"]],
    },
    {
      says: "The turn lock is released before this hook runs, so it is safe to call `saveMessages` or other methods from inside.",
      shows: "onChatResponse() of a submitted turn can submit another turn",
      see: ({ followed }) => followed.status,
      is: "completed",
    },
    {
      says: "The turn lock is released before this hook runs",
      shows: "onChatResponse() of a submitted turn cannot run a turn and wait for it",
      see: ({ refusals: [text] }) => text?.includes("cannot be called from inside an active turn"),
      is: true,
    },
    {
      says: "Called after a chat turn completes and the assistant message has been persisted.",
      shows: "the order of the last status and of what onChatResponse() waits for",
      see: ({ order }) => order,
      is: ["followed up", "onSubmissionStatus"],
      differs: {
        by: "The end and onChatResponse()",
        perdure: ["onSubmissionStatus", "followed up"],
      },
    },
  ],
});

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
    const soon = await peer.agent.waitForSubmission("s", { timeoutMs: 2_000 });
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

export const turns: readonly Scenario<unknown>[] = [
  turn,
  decisions,
  config,
  errors,
  submitMode,
  nesting,
  cancelChat,
  events,
  requests,
  channels,
];
