/** Makes the kernel of an object, the same for every host: submissions, outbox and waits. Then installs the features of its class. */

import { type OwnMethods, Workflows } from "./workflows.ts";

// After it, so that the bundle is smaller.

import type { Lifecycle, LifecycleCapability } from "agents/lifecycle";
import type { UIMessage } from "ai";
import { type Clock, systemClock } from "../../core/clock.ts";
import { checkNames, objectOf } from "../../core/options/options.ts";
import type { Problem } from "../../core/problems.ts";
import type { OutboxSettings } from "../../outbox/options.ts";
import { Outbox } from "../../outbox/outbox.ts";
import type { DeadLetter } from "../../outbox/types.ts";
import { LEDGER_OPTIONS, type LedgerOptions } from "../../submissions/options.ts";
import type { Submissions } from "../../submissions/submissions.ts";
import { Approvals } from "../waits/kinds/approval.ts";
import type { Approval } from "../waits/kinds/approval-types.ts";
import { KINDS } from "../waits/kinds.generated.ts";
import type { StoredKind, WaitKind } from "../waits/protocol.ts";
import { type KindUses, Waits } from "../waits/waits.ts";
import { stepCalls } from "./calls.ts";
import { type FeatureName, Features, STEP_KINDS } from "./features.ts";
import type { HostAgent } from "./host-agent.ts";
import { type Watcher, Watchers } from "./watchers.ts";

/** Limits and retention, each with a default. */
export type HostOptions = LedgerOptions & {
  /** Options of the outbox. Its hooks are the methods `onDeadLetter()` and `onProblem()`. */
  readonly outbox?: Omit<OutboxSettings, "onDeadLetter" | "onProblem">;
};

export const HOST_OPTIONS: readonly string[] = ["outbox", ...LEDGER_OPTIONS];

/** The conversations of an object. */
type Threads = {
  messages(thread: string): Promise<UIMessage[]>;
  clear(thread: string): Promise<void>;
  message(thread: string, id: string): Promise<UIMessage | undefined>;
};

/** How a host runs turns: its ledger, and the conversations. */
export type HostTurns = Threads & { readonly submissions: Submissions };

export type TurnOptions = LedgerOptions & { readonly onProblem: OnProblem };

type OnProblem = (problem: Problem) => void | Promise<void>;

/** What differs between the hosts. */
export type Host<Turns extends HostTurns = HostTurns> = {
  /** The app's object, whose methods deliveries and the outbox call. */
  readonly object: object;
  readonly features: readonly Feature[];
  readonly agent: HostAgent;
  /** The object's verbs: the object itself, if its class has them. */
  readonly verbs: object;
  readonly lifecycle: Lifecycle;
  readonly hooks: {
    readonly onProblem: OnProblem;
    readonly onDeadLetter: (letter: DeadLetter) => void | Promise<void>;
  };
  /** The SDK's own methods, which the object's class may override. */
  readonly own: OwnMethods;
  /** Whether the app does not override a verb. */
  readonly isBuiltIn: (verb: string) => boolean;
  /** An approval was opened, decided, expired or cancelled. */
  readonly onApproval: (approval: Approval) => void | Promise<void>;
  /** Sends submissions and replies to the connected clients. */
  readonly clients: Watcher;
  readonly turns: (outbox: Outbox, options: TurnOptions, watchers: Watchers) => Turns;
};

/** What every object has, for its verbs and for features. */
export type Kernel<Turns extends HostTurns = HostTurns> = Pick<
  Host,
  "object" | "agent" | "verbs" | "isBuiltIn"
> & {
  readonly env: object;
  readonly storage: DurableObjectStorage;
  readonly clock: Clock;
  readonly onProblem: OnProblem;
  readonly outbox: Outbox;
  readonly submissions: Submissions;
  readonly threads: Turns;
  readonly waits: Waits;
  readonly approvals: Approvals;
  readonly workflows: Workflows;
  /** A feature adds those that are to hear of turns and approvals. */
  readonly watchers: Watchers;
  readonly features: Features;
  /** What other parts of Perdure call by `callKernel()` of the agent, by name. */
  readonly calls: Map<string, (...args: never[]) => unknown>;
  /** Installs what a feature needs of the Lifecycle. */
  readonly use: (capability: LifecycleCapability) => void;
};

/** A value that an app installs. Code of a feature that no class names is not part of the Worker. */
export type Feature<Name extends FeatureName = FeatureName, Installed = unknown> = {
  readonly feature: Name;
  /**
   * Called once for each object, in its constructor. What it adds, such as a kind of wait, is there at the start.
   * @internal
   */
  readonly install: (kernel: Kernel) => Installed;
};

const WAIT_KINDS = Object.entries<(uses: KindUses) => WaitKind | StoredKind>(KINDS);

/**
 * @param options as the app gave them
 * @param name of the options, for errors
 * @throws InvalidOptionError for an invalid option
 * @throws FeatureNotInstalledError for a method of the class that only a feature would call
 */
export function kernelOf<Turns extends HostTurns>(
  host: Host<Turns>,
  options: HostOptions,
  name: string,
): Kernel<Turns> {
  checkNames(name, options ?? null, HOST_OPTIONS);
  const { agent, object, verbs, isBuiltIn, lifecycle } = host;
  const { env, ctx } = agent;
  const { outbox: sending = {}, ...limits } = options;
  const { onProblem } = host.hooks;
  const { name: className, features: listed = host.features } = object.constructor as {
    name: string;
    features?: readonly Feature[];
  };
  const features = new Features(className, Object(listed).length > 0);
  const outbox = new Outbox({
    ...objectOf("outbox", sending),
    ...host.hooks,
    host: object,
    env,
    startWorkflow: (start, create) => workflows.start(start, create),
    problemOfStart: (start) => workflows.problemOf(start),
  });
  const watchers = new Watchers();
  watchers.add(host.clients);
  const threads = host.turns(outbox, { ...limits, onProblem }, watchers);
  const { submissions } = threads;
  submissions.limiter.needGate = (usedBy) => features.get("limits", usedBy) as never;
  const missingKind = (kind: string) => features.missing("steps", kind);
  const waits = new Waits({ outbox, missingKind, ofFeatures: STEP_KINDS });
  const onApproval = (approval: Approval) => {
    watchers.approval(approval);
    // The app is notified of an approval last: its work may take long.
    return host.onApproval(approval);
  };
  const ownerOfRun: KindUses["ownerOfRun"] = (workflow) => workflows.ownerOf(workflow);
  const linkOf: KindUses["linkOf"] = async (...args) => {
    type Signs = { readonly sign: KindUses["linkOf"] };
    const links = features.get("signedLinks", "notify of step.approval()") as Signs;
    return links.sign(...args);
  };
  for (const [name, kindOf] of WAIT_KINDS)
    waits.install(name, kindOf({ waits, submissions, ownerOfRun, onApproval, outbox, linkOf }));
  const approvals = new Approvals(waits, async (...args) => {
    const links = features.get("signedLinks", "approvals.link()") as Pick<Approvals, "link">;
    return links.link(...args);
  });
  const workflows = new Workflows(agent, host.own, outbox, waits, submissions);
  const use = (capability: LifecycleCapability) => void lifecycle.use(capability);
  for (const capability of [outbox, submissions, waits]) use(capability);
  const kernel = {
    ...{ object, agent, verbs, isBuiltIn, env, onProblem, use },
    ...{ outbox, submissions, threads, waits, approvals, workflows, watchers, features },
    calls: new Map(Object.entries(stepCalls({ agent, waits, workflows, submissions }))),
    storage: ctx.storage,
    clock: systemClock,
  };
  features.install(host.features, kernel);
  // The tasks would never run.
  if (!isBuiltIn("getScheduledTasks")) features.get("schedules", "getScheduledTasks()");
  use(features);
  return kernel;
}
