/** lifecycle-hooks.md: what a submitted turn is for the app's hooks. */

import { until } from "../../support/given.ts";
import { type Peer, refused, type Scenario, says, scenario } from "../harness.ts";

const hooks = "lifecycle-hooks.md";
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
      .filter((hook) => !["onChunk", "onSubmissionStatus", "submitMessages"].includes(hook));
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
        by: "End of the turn and onChatResponse()",
        perdure: ["onSubmissionStatus", "followed up"],
      },
    },
  ],
});

export const hookCases: readonly Scenario<unknown>[] = [turn, decisions, config, errors];
