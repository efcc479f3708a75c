/** What each host cannot do, and what to do instead. The errors and the table of docs/hosts.md are made of this data. */

export type HostName =
  | "perdure/agent"
  | "perdure/chat"
  | "perdure/harness"
  | "perdure/object"
  | "perdure/think";

/** By option, the alternative as a sentence. */
export type Limitations = Readonly<Record<string, string>>;

const CHANNEL = {
  channel: "Channels belong to Think. Extend DurableThink, or use a thread for each channel.",
};

export const LIMITATIONS = {
  "perdure/think": {},
  "perdure/agent": CHANNEL,
  "perdure/object": {
    ...CHANNEL,
    models: "Pass `model` of durable() as a function: it gets the id of the model.",
    "step.agentTool()": "A plain Durable Object has no sub-agents. Extend DurableAgent.",
  },
  "perdure/chat": CHANNEL,
  "perdure/harness": CHANNEL,
} as const satisfies Readonly<Record<HostName, Limitations>>;
