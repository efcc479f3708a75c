/** What an agent has beside its submissions, by capability: `this.outbox.stats()` in its class, `capabilitiesOf(stub).outbox.stats()` elsewhere. */

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
  approvals: ["list", "inspect", "grant", "reject"],
  schedules: ["list", "inspect", "runs", "pause", "resume", "trigger", "backfill", "skipNext"],
  inbound: ["list", "inspect", "replay", "replayMany"],
  operations: [
    "healthReport",
    "operate",
    "listActions",
    "listThreads",
    "listThreadMessages",
    "listWorkflows",
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
  const agent = stub as { callKernel(verb: string, ...args: unknown[]): Promise<unknown> };
  const capabilities = Object.entries(CAPABILITY_VERBS).map(([name, verbs]) => {
    const calls = verbs.map((verb) => [
      verb,
      (...args: unknown[]) => agent.callKernel(`${name}.${verb}`, ...args),
    ]);
    return [name, Object.fromEntries(calls)];
  });
  return Object.fromEntries(capabilities) as Remote<Capabilities>;
}
