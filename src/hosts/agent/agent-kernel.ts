/** The kernel of an agent of the SDK: what is the same for all base classes. */

import type { Lifecycle } from "agents/lifecycle";
import { logProblem, type Problem } from "../../core/problems.ts";
import type { HostAgent, Watchers } from "../../kernel/index.ts";
import {
  type Host,
  type HostOptions,
  type HostTurns,
  hooksOf,
  type Kernel,
  kernelOf,
  type TurnOptions,
} from "../../kernel/index.ts";
import type { DeadLetter, Outbox } from "../../kernel/outbox/index.ts";
import { type ApprovalAgent, announceApproval } from "./approval-clients.ts";
import { type SubmissionAgent, SubmissionClients } from "./submission-clients.ts";

/** An agent, with the members that are protected in its class. */
type HookedAgent = HostAgent &
  SubmissionAgent &
  ApprovalAgent & {
    readonly lifecycle: Lifecycle;
    onProblem(problem: Problem): void | Promise<void>;
    onDeadLetter(letter: DeadLetter): void | Promise<void>;
  };

/** What the turns of an agent are made with. */
export type TurnParts = {
  readonly outbox: Outbox;
  readonly limits: TurnOptions;
  readonly watchers: Watchers;
  /** Whether the app overrides `onSubmissionStatus()`. */
  readonly hasStatusHook: () => boolean;
};

/** @param host the name of its base class, and what differs between the base classes */
export function agentKernel<Turns extends HostTurns>(
  object: object,
  host: Pick<Host, "features" | "own" | "isBuiltIn"> & {
    readonly name: string;
    readonly turns: (parts: TurnParts) => Turns;
  },
  options: HostOptions,
): Kernel<Turns> {
  const agent = object as HookedAgent;
  const { isBuiltIn } = host;
  const hasHook = hooksOf(agent, isBuiltIn);
  const hasStatusHook = () => hasHook("onSubmissionStatus");
  return kernelOf(
    {
      ...{ object, agent, verbs: object, features: host.features, own: host.own, isBuiltIn },
      lifecycle: agent.lifecycle,
      hooks: {
        onProblem: (problem) => agent.onProblem(problem),
        onDeadLetter: (letter) => agent.onDeadLetter(letter),
      },
      onApproval: (approval) => announceApproval(agent, approval),
      clients: new SubmissionClients(agent, () => hasHook("shouldSendSubmission")),
      turns: (outbox, limits, watchers) => host.turns({ outbox, limits, watchers, hasStatusHook }),
    },
    options,
    `options of ${host.name}`,
  );
}

/** Logs a problem with the class and the name of the agent. */
export function logFor(agent: { readonly name: string }, problem: Problem): void {
  const ids = { agent: agent.constructor.name, name: agent.name };
  logProblem({ ...problem, ids: { ...ids, ...problem.ids } });
}
