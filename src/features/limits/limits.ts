/** The feature `limits()`: installs the gate of an object's turns, and the capacity that it uses. */

import { monotonic, systemClock } from "../../core/clock.ts";
import { failureOf } from "../../core/failures.ts";
import { type Problem, reportProblem } from "../../core/problems.ts";
import { installGate } from "../../submissions/install-gate.ts";
import { limitWaits, startedTurns } from "../../submissions/store/limit-waits.ts";
import { waitInMemory } from "../../submissions/store/waiting.ts";
import type { Feature, Kernel } from "../../workflow/agent/kernel.ts";
import { Capacity } from "./capacity.ts";
import { LimitControls } from "./controls.ts";
import {
  type Limit,
  type LimitsOptions,
  type LimitsSettings,
  readLimits,
} from "./declared/declarations.ts";
import { SubmissionReplacedError } from "./errors.ts";
import { LimitGate } from "./gate.ts";
import { Keepers } from "./keepers.ts";
import { checkNotify, Notices } from "./notices.ts";
import { limitsHealth, unkeyedLimits } from "./operated/health.ts";

/** One for all objects of the isolate, because sub-agents share the leases of their root. */
const clock = monotonic(systemClock);

/** What the feature installs, for the verbs and the report of the agent. */
export type InstalledLimits = {
  readonly controls: LimitControls;
  /** Facts for the health report: from keepers, and from the submissions of this agent. */
  readonly health: (now: number) => ReturnType<typeof limitsHealth>;
};

/**
 * Limits of requests, tokens, money and concurrency that all agents of an app share. The Worker exports `LimitKeeper`, and has a
 * binding to it.
 *
 * @throws InvalidOptionError
 * @example
 * export { LimitKeeper } from "perdure/limits";
 *
 * export class Support extends DurableThink<Env> {
 *   static override readonly features = [
 *     limits({ limits: [limit("openai", { models: "openai/*", requests: "1000 per minute" })] }),
 *   ];
 * }
 */
export function limits<const Limits extends readonly Limit[]>(
  options: LimitsOptions<Limits> = {},
): Feature<"limits", InstalledLimits> {
  const settings = readLimits(options);
  return { feature: "limits", install: (kernel) => install(settings, kernel) };
}

function install(settings: LimitsSettings, kernel: Kernel): InstalledLimits {
  const { agent, object, env, outbox, submissions, onProblem } = kernel;
  checkNotify(settings, outbox);
  const keepers = new Keepers(env, settings.keeper, clock);
  const className = object.constructor.name;
  const subject = { agent: agent.name, className };
  const { turns } = submissions;
  const { store, budgets, loop } = turns;
  const report = (problem: Problem) => reportProblem(onProblem, problem, loop.inHostContext);
  const notices = new Notices(settings, outbox, report, subject);
  const agentId = agent.ctx.id.toString();
  const capacity = new Capacity({
    ...{ keepers, clock },
    root: () => `${settings.keeper}\n${JSON.stringify(agent.selfPath[0])}`,
    notify: (limit, notice) => notices.put(limit, notice),
    inBackground: (work) => agent.ctx.waitUntil(work),
  });
  const gate = new LimitGate({
    ...{ settings, capacity, clock, agentId, subject },
    load: (seq) => {
      const found = store.get(seq);
      if (found?.status !== "running") return undefined;
      // An earlier instance of the object has waited, and the host goes on with the turn.
      if (found.waitsUntil !== undefined) waitInMemory(store, seq);
      return found;
    },
    onReserved: (seq, dollars) => budgets.reserveCost(seq, dollars),
    onWaiting: (seq, until) => waitInMemory(store, seq, until),
    heartbeat: (seq) => turns.heartbeat({ seq }),
    onWaited: (seq, waited) => {
      const { times } = budgets.recordOf(seq);
      if (times) times.waited = { ...waited, ms: waited.ms + (times.waited?.ms ?? 0) };
    },
    onReplaced: (seq, key) => {
      const found = store.get(seq);
      if (found?.status !== "running") return;
      turns.cancel(found, failureOf(new SubmissionReplacedError(key)));
    },
  });
  installGate(submissions, gate);
  const kept = settings.limits.filter(({ rules }) => Object.keys(rules).length > 0);
  const controls = new LimitControls(kept, keepers, clock);
  const health = (now: number) => {
    const { sql } = kernel.storage;
    const turns = startedTurns(sql, now);
    const unkeyed = unkeyedLimits(settings.limits, subject, turns, gate.clientSteps);
    return limitsHealth(kept, controls, { waits: limitWaits(sql), unkeyed }, now);
  };
  return { controls, health };
}
