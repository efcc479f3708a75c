/** The agent as its operator's verbs see it. */

import type { Agent } from "agents";
import type { Clock } from "../core/clock.ts";
import type { AgentVerbs, Capabilities } from "../hosts/verbs.ts";

export type OperatedAgent = {
  /** Its verbs, with those that the app overrides. */
  readonly agent: Agent & AgentVerbs;
  readonly capabilities: Capabilities;
  readonly storage: DurableObjectStorage;
  readonly env: object;
  readonly clock: Clock;
};
