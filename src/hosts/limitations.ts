/** What each host cannot do, and what to do instead. The errors and the table of docs/hosts.md are made of this data. */

export type HostName =
  | "perdure/agent"
  | "perdure/chat"
  | "perdure/harness"
  | "perdure/object"
  | "perdure/think";

/** By option, the alternative as a sentence. */
export type Limitations = Readonly<Record<string, string>>;

/** Of every host but Think. Each host has a constant of its own, without a spread, so that no bundle has those of others. */
export const CHANNEL =
  "Channels belong to Think. Extend DurableThink, or use a thread for each channel.";

const DURABLE = "Call `streamText(this.durable({ model, messages, tools }))` in onChatMessage().";

export const OBJECT = {
  channel: CHANNEL,
  models: "Pass `model` of durable() as a function: it gets the id of the model.",
  "step.agentTool()": "A plain Durable Object has no sub-agents. Extend DurableAgent.",
} as const satisfies Limitations;

export const CHAT = {
  channel: CHANNEL,
  "other threads without getModel()":
    'Override getModel() in your class, or use the thread "main".',
  "models without getModel()": "Override getModel() in your class: it gets the id of the model.",
  "models without durable()": DURABLE,
  "budget without durable()": DURABLE,
  "output without durable()": DURABLE,
} as const satisfies Limitations;

export const HARNESS = {
  channel: CHANNEL,
  budget:
    "A harness reports no tokens. Limit the steps of the harness, e.g. `maxSteps` of ThinkHarness.",
  models: "Choose the model in the harness: `model` of ThinkHarness may be a function.",
  maxSteps: "Set it in the harness: `maxSteps` of ThinkHarness, `stopWhen` of AiSdkHarness.",
  repair: "Check the answer in the workflow, and prompt again.",
  strategy: 'Leave it out, or use "json": the answer is asked for as a text.',
  steer: 'Wait for the turn (the default), or use `whenBusy: "interrupt"`.',
  rollback: 'Use `whenBusy: "interrupt"`: a harness cannot remove single messages.',
  messages: "Submit one message with the role `user`, of texts and files.",
  "sub-agents": "A harness cannot wake a sub-agent. Extend DurableAgent in sub-agents.",
} as const satisfies Limitations;

/** What no call asks for, so that no error says it. */
const OF_HARNESSES = {
  "limits()":
    "A turn counts as one request, and with the usage that a harness of your own reports.",
  usage: "Harnesses of the SDK report no tokens. Read them in hooks of the model.",
  retry:
    "The AI SDK repeats refused calls of the model twice, the ledger an operation after a network failure or a timeout.",
  tools:
    "ThinkHarness does not repeat a call that has begun, AiSdkHarness may. Neither keeps steps of durableTool().",
} as const satisfies Limitations;

export const LIMITATIONS = {
  "perdure/think": {},
  "perdure/agent": { channel: CHANNEL },
  "perdure/object": OBJECT,
  "perdure/chat": CHAT,
  // A spread would be in each bundle.
  "perdure/harness": /* @__PURE__ */ Object.assign({}, HARNESS, OF_HARNESSES),
} as const satisfies Readonly<Record<HostName, Limitations>>;
