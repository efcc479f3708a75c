/** What an agent has beside its submissions, by capability: `this.outbox.stats()` in its class, `capabilitiesOf(stub).outbox.stats()` elsewhere. */

import { lacksMethod } from "../../core/calls.ts";

/** The verbs of each capability. */
export const CAPABILITY_VERBS = {
  outbox: [
    "listDeliveries",
    "inspect",
    "read",
    "stats",
    "listDeadLetters",
    "countDeadLetters",
    "redrive",
    "redriveAll",
    "deleteDeadLetter",
    "deleteDeadLetters",
    "inspectEndpoint",
    "listEndpoints",
    "enableEndpoint",
    "disableEndpoint",
  ],
  approvals: ["list", "inspect", "grant", "reject", "link"],
  schedules: [
    "list",
    "inspect",
    "runs",
    "pause",
    "resume",
    "trigger",
    "backfill",
    "skipNext",
    "remove",
  ],
  inbound: ["list", "inspect", "replay", "replayMany"],
  limits: ["list", "pause", "resume"],
  operations: [
    "healthReport",
    "operate",
    "listActions",
    "listThreads",
    "listThreadMessages",
    "listWorkflows",
    "listCosts",
    "inspectWorkflow",
    "traceSubmission",
  ],
} as const;

export type CapabilityName = keyof typeof CAPABILITY_VERBS;

/** The names of a capability's verbs. */
export type VerbOf<Name extends CapabilityName> = (typeof CAPABILITY_VERBS)[Name][number];

/** Capabilities, as another object calls them: each verb returns a promise. */
export type Remote<Capabilities> = {
  readonly [Name in keyof Capabilities & CapabilityName]: {
    readonly [Verb in VerbOf<Name> & keyof Capabilities[Name]]: Capabilities[Name][Verb] extends (
      ...args: infer Args
    ) => infer Result
      ? (...args: Args) => Promise<Awaited<Result>>
      : never;
  };
};

/** The capabilities of the agent behind a stub, also that of a sub-agent. Makes no call. */
export function remoteOf<Capabilities>(stub: object): Remote<Capabilities> {
  const capabilities = Object.entries(CAPABILITY_VERBS).map(([name, verbs]) => {
    const calls = verbs.map((verb) => [
      verb,
      (...args: unknown[]) => callAgent(stub, "callKernel", `${name}.${verb}`, ...args),
    ]);
    return [name, Object.fromEntries(calls)];
  });
  return Object.fromEntries(capabilities) as Remote<Capabilities>;
}

/** Calls a method that each host of Perdure has. @throws NotDurableError for an agent without it */
export async function callAgent(stub: object, method: string, ...args: unknown[]) {
  try {
    const call = Reflect.get(stub, method) as (...args: unknown[]) => Promise<unknown>;
    return await Reflect.apply(call, stub, args);
  } catch (error) {
    throw lacksMethod(error, method) ? new NotDurableError({ cause: error }) : error;
  }
}

/** The class behind the stub is on no host of Perdure, or the Worker that has it runs an older version. */
export class NotDurableError extends Error {
  override readonly name = "NotDurableError";
  constructor(options?: ErrorOptions) {
    super(
      "The agent's class is on no host of Perdure, or its Worker has an older version. Let it extend DurableAgent or another host.",
      options,
    );
  }
}
