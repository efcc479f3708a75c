/** What each host cannot do, and what to do instead. The errors and the table of docs/hosts.md are made of this data. */

export type HostName = "perdure/agent" | "perdure/chat" | "perdure/object" | "perdure/think";

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

export const LIMITATIONS = {
  "perdure/think": {},
  "perdure/agent": { channel: CHANNEL },
  "perdure/object": OBJECT,
  "perdure/chat": CHAT,
} as const satisfies Readonly<Record<HostName, Limitations>>;
