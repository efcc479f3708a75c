/** What a host cannot do, and what to do instead. The errors and the table of docs/hosts.md are made of this data. */

import type { NewSubmission } from "../submissions/store/rows.ts";

export type HostName =
  | "perdure/agent"
  | "perdure/chat"
  | "perdure/harness"
  | "perdure/object"
  | "perdure/think";

/** By option, the alternative as a sentence. */
type Limitations = Readonly<Record<string, string>>;

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

/** The host cannot do what the caller asks for. Thrown by the call, before anything is stored, where it is known then. */
export class NotSupportedByHostError<Host extends HostName = HostName> extends Error {
  override readonly name = "NotSupportedByHostError";
  /** What to do instead. */
  readonly alternative: string;

  constructor(
    /** The entry of the host, e.g. `"perdure/object"`. */
    readonly host: Host,
    /** The option or the step. */
    readonly option: keyof (typeof LIMITATIONS)[Host] & string,
  ) {
    const alternative = (LIMITATIONS[host] as Limitations)[option] ?? "";
    super(`${host} does not support ${option}. ${alternative}`);
    this.alternative = alternative;
  }
}

/** @throws NotSupportedByHostError for a submission that the host cannot run */
export function checkChannel(
  host: Exclude<HostName, "perdure/think">,
  { channel }: Pick<NewSubmission, "channel">,
): void {
  if (channel !== undefined) throw new NotSupportedByHostError(host, "channel");
}
