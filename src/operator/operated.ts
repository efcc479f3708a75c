/** The agent as its operator's verbs see it. */

import type { Clock } from "../core/clock.ts";
import type { HostAgent } from "../hosts/host-agent.ts";
import type { AgentVerbs, Capabilities } from "../hosts/verbs.ts";

export type OperatedAgent = {
  /** Its verbs, with those that the app overrides. */
  readonly agent: AgentVerbs;
  /** The members of the SDK's class. */
  readonly host: HostAgent;
  readonly capabilities: Capabilities;
  readonly storage: DurableObjectStorage;
  readonly env: object;
  readonly clock: Clock;
};
