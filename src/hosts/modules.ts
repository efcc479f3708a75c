/** Makes the modules of an object and connects them, the same for every host. */

import type { Lifecycle } from "agents/lifecycle";
import { systemClock } from "../core/clock.ts";
import { checkNames, objectOf } from "../core/options/options.ts";
import type { Problem } from "../core/problems.ts";
import { Inbound, type InboundSettings } from "../inbound/index.ts";
import { type DeadLetter, Outbox, type OutboxSettings } from "../outbox/index.ts";
import type { Scheduler } from "../scheduler/index.ts";
import { LEDGER_OPTIONS, type LedgerOptions, type Submissions } from "../submissions/index.ts";
import { ThreadHistory } from "../submissions/store/threads.ts";
import {
  type AgentToolPort,
  AgentTools,
  type Approval,
  Approvals,
  approvalKind,
  BatchKind,
  PromptKind,
  Waits,
  WebhookWaits,
} from "../waits/index.ts";
import { deliveryVerbs } from "./agent/delivery-verbs.ts";
import { type LinkSettings, Links } from "./agent/links.ts";
import { type OwnMethods, Workflows } from "./agent/workflows.ts";
import { type Feature, Features } from "./features.ts";
import type { HostAgent } from "./host-agent.ts";
import { type FollowedModules, Followers, type StreamSettings } from "./streams/followers.ts";
import type { ThinkLedger } from "./think/think-ledger.ts";
import { type AgentVerbs, type Capabilities, operatedOf } from "./verbs.ts";

/** Limits and retention, each with a default. */
export type HostOptions = LedgerOptions & {
  /** Options of the outbox. Its hooks are the methods `onDeadLetter()` and `onProblem()`. */
  readonly outbox?: Omit<OutboxSettings, "onDeadLetter" | "onProblem">;
  /** Options of the log of inbound deliveries. */
  readonly inbound?: InboundSettings;
  /** Bounds of followSubmission(), followThread() and followApproval(). */
  readonly streams?: StreamSettings;
  /** Signs links: of approvals, and of `step.webhook()` with `url: true`. */
  readonly links?: LinkSettings;
};

export const HOST_OPTIONS: readonly string[] = [
  "outbox",
  "inbound",
  "streams",
  "links",
  ...LEDGER_OPTIONS,
];

/** How a host runs turns: its ledger, and the conversations. */
export type HostTurns = Capabilities["threads"] & { readonly submissions: Submissions };

export type TurnOptions = LedgerOptions & { readonly onProblem: OnProblem };

type OnProblem = (problem: Problem) => void | Promise<void>;

/** What differs between the hosts. */
export type Host<Turns extends HostTurns> = {
  /** The app's object, whose methods deliveries and the outbox call. */
  readonly object: object;
  readonly features: readonly Feature[];
  readonly agent: HostAgent;
  /** The object's verbs: the object itself, if its class has them. */
  readonly verbs: AgentVerbs;
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
  /** Undefined for a host without sub-agents. */
  readonly agentTools?: AgentToolPort;
  /** Submissions that Think itself has accepted. */
  readonly think?: ThinkLedger;
  readonly turns: (outbox: Outbox, options: TurnOptions, followers: Followers) => Turns;
  readonly scheduler: (submissions: Submissions, onProblem: OnProblem) => Scheduler;
};

/** A trace shows deliveries that have a row. */
const KEPT_FOR_TRACES = {
  keepDelivered: { maxAge: "1 hour", maxCount: 1_000 },
} as const satisfies OutboxSettings;

/**
 * @param options as the app gave them
 * @param name of the options, for errors
 * @throws InvalidOptionError for an invalid option
 */
export function modulesOf<Turns extends HostTurns>(
  host: Host<Turns>,
  options: HostOptions,
  name: string,
): Capabilities & { readonly threads: Turns } {
  checkNames(name, options ?? null, HOST_OPTIONS);
  const { agent, think } = host;
  const { env, ctx } = agent;
  const { outbox: sending = {}, inbound = {}, streams = {}, links: signing, ...limits } = options;
  const { onProblem } = host.hooks;
  const features = featuresOf(host, limits);
  const outbox = new Outbox({
    ...(limits.tracing && KEPT_FOR_TRACES),
    ...objectOf("outbox", sending),
    ...host.hooks,
    host: host.object,
    env,
    startWorkflow: (start, create) => workflows.start(start, create),
    problemOfStart: (start) => workflows.problemOf(start),
    telemetryOf: (event) => features.get("operations", "tracing").telemetryOf(event),
  });
  const followers = followersOf(ctx, streams, () => ({ submissions, threads, approvals }));
  const threads = host.turns(outbox, { ...limits, onProblem }, followers);
  const { submissions } = threads;
  const scheduler = host.scheduler(submissions, onProblem);
  const agentTools = host.agentTools && new AgentTools(host.agentTools, () => waits);
  const webhookWaits = new WebhookWaits(() => ({ waits, deliveries, links, onProblem }));
  const waits: Waits = new Waits({
    outbox,
    kinds: () => ({
      prompt: new PromptKind(submissions, think),
      batch: new BatchKind(submissions),
      approval: approvalKind((approval) => announced(approval, followers, host)),
      ...(agentTools && { "agent-tool": agentTools }),
      webhook: webhookWaits,
    }),
  });
  const approvals = new Approvals(waits);
  const links: Links = new Links(agent, signing, approvals);
  const workflows = new Workflows(agent, host.own, outbox, waits, limits.tracing);
  const deliveries: Inbound = new Inbound({
    ...objectOf("inbound", inbound),
    agent: host.object,
    verbs: deliveryVerbs({ submissions, think, workflows, storage: ctx.storage }, host.isBuiltIn),
    matchWaits: (delivery) => webhookWaits.match(delivery),
    onProblem,
  });
  host.lifecycle.use(outbox).use(submissions).use(waits).use(scheduler).use(deliveries);
  features.find("operations")?.start(host.lifecycle, outbox, ctx.storage);
  return {
    outbox,
    submissions,
    think,
    scheduler,
    waits,
    approvals,
    agentTools,
    webhookWaits,
    links,
    workflows,
    inbound: deliveries,
    threads,
    followers,
    features,
    operated: { host: agent, storage: ctx.storage, env, clock: systemClock },
  };
}

/** @throws FeatureNotInstalledError for an option of a feature that the class does not install */
function featuresOf(
  { features: installed, verbs, object }: Pick<Host<HostTurns>, "features" | "verbs" | "object">,
  { tracing }: LedgerOptions,
): Features {
  const features = new Features(installed, () => operatedOf(verbs), object.constructor.name);
  if (tracing) features.get("operations", "The option tracing");
  return features;
}

function followersOf(
  { storage }: Pick<DurableObjectState, "storage">,
  settings: StreamSettings,
  modules: () => Omit<FollowedModules, "historyOf">,
): Followers {
  const historyOf = (thread: string) => new ThreadHistory(storage.sql, thread);
  return new Followers(() => ({ ...modules(), historyOf }), settings);
}

/** The app hears of an approval last: what it does may take long. */
function announced(
  approval: Approval,
  followers: Followers,
  { onApproval }: Pick<Host<HostTurns>, "onApproval">,
): void | Promise<void> {
  followers.approval(approval);
  return onApproval(approval);
}
