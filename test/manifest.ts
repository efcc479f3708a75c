/**
 * Which test file runs in which project of Vitest, and in which process of `npm test`. vitest.config.ts and scripts/test.ts read
 * it.
 */
import { globSync } from "node:fs";
import path from "node:path";

const root = path.join(import.meta.dirname, "..");

/** The patterns of each project. A file belongs to the first project that has a pattern for it. */
const PROJECTS = {
  /** Pages in Chromium: `npm run test:browser`. */
  browser: ["test/**/browser/*.test.ts"],
  /** Runtimes of their own, as a process or for new code: `npm run test:runtimes`. */
  runtimes: [
    "test/cli/process.test.ts",
    "test/cli/deploy/{deploys,new-code,snapshot}.test.ts",
    "test/operator/{runtime,trace/native}/*.test.ts",
    "test/operator/otlp/otlp.test.ts",
  ],
  /** Replays of runs in the real engine: `npm run test:runtimes`. */
  replays: ["test/testing/replay/{edits,same-code,model}.test.ts"],
  /** In Node. */
  pure: [
    "test/scheduler/{calendar,language}/**/*.test.ts",
    "test/{bench,scripts}/**/*.test.ts",
    "test/acceptance/soak/**/*.test.ts",
    "test/features/limits/simulation/*.test.ts",
    "test/cli/**/*.test.ts",
    "test/operator/dashboard/*.test.ts",
    // The senders' own packages are for Node. In Workers, that of GitHub is less strict.
    "test/features/inbound/webhooks/oracles/**/*.test.ts",
  ],
  /** Behaviour by public names, on every host: `npm run test:acceptance`. */
  acceptance: ["test/acceptance/**/*.test.ts"],
  /** Costs, storage and features of every host: `npm run test:contract`. */
  contract: ["test/contract/**/*.test.ts", "test/hosts/chat/*.test.ts"],
  /** What needs Think. */
  think: [
    "test/hosts/think/**/*.test.ts",
    "test/{workflow,features/codemode}/steps/**/*.test.ts",
    "test/peers/*.test.ts",
    "test/types.test.ts",
    "test/features/deploy/*.test.ts",
    "test/testing/replay/*.test.ts",
    "test/operator/*.test.ts",
    "test/operator/{actions,api,mcp,report,trace}/**/*.test.ts",
  ],
  scheduler: ["test/scheduler/*.test.ts", "test/scheduler/{tasks,runs}/**/*.test.ts"],
  triage: ["examples/triage/test/**/*.test.ts"],
  /** Modules on a plain Durable Object. */
  modules: ["test/**/*.test.ts"],
} as const satisfies Readonly<Record<string, readonly string[]>>;

export type Project = keyof typeof PROJECTS;

export const projects = Object.keys(PROJECTS) as Project[];

/** Files that run in a second project: Zod compiles its schemas where `new Function` is allowed, as in Node. */
export const TWICE: Readonly<Partial<Record<Project, readonly string[]>>> = {
  pure: ["test/core/options.test.ts"],
};

/** The patterns of a project, as Vitest takes them. */
export function patternsOf(project: Project): { include: string[]; exclude: string[] } {
  const before = projects.slice(0, projects.indexOf(project));
  return {
    include: [...PROJECTS[project], ...(TWICE[project] ?? [])],
    exclude: before.flatMap((name) => [...PROJECTS[name]]),
  };
}

/** The files of a project. */
export function filesOf(project: Project): string[] {
  const { include, exclude } = patternsOf(project);
  return globSync(include, { cwd: root, exclude }).sort();
}

/** One process of Vitest, with some files of some projects. */
export type TestProcess = {
  readonly name: string;
  readonly projects: readonly Project[];
  readonly files: readonly string[];
};

/** Crashes at many points, random sequences, large numbers. */
const PROOF = /[/-](crash|model|scale|simulation)\.test\.ts$|\/crash-[^/]*$/;
/** A file of so many seconds is left to `npm run test:long`: mostly waits in the real engine of Workflows. */
const LONG_SECONDS = 15;

const isLong = (file: string) => PROOF.test(file) || secondsOf(file) >= LONG_SECONDS;
const longOf = (project: Project) => filesOf(project).filter(isLong);
const shortOf = (project: Project) => filesOf(project).filter((file) => !isLong(file));

/** `npm test`. The longest process first. Each that needs Think imports it, which takes as long as all tests of some files. */
export function testProcesses(): TestProcess[] {
  return [
    ...dealt("think", shortOf("think"), 2),
    ...dealt("modules", shortOf("modules"), 2),
    ...dealt("scheduler", shortOf("scheduler"), 1),
    ...dealt("pure", shortOf("pure"), 1),
  ];
}

/** `npm run test:long`. */
export function longProcesses(): TestProcess[] {
  return [
    ...dealt("think", longOf("think"), 3),
    ...dealt("modules", longOf("modules"), 1),
    ...dealt("scheduler", longOf("scheduler"), 1),
    ...dealt("pure", longOf("pure"), 1),
  ];
}

/** `npm run test:fast`: what takes less than 6 seconds of the tests of the modules and of those in Node. */
export function fastProcesses(): TestProcess[] {
  const fast = (project: Project) => shortOf(project).filter((file) => secondsOf(file) < 6);
  return [...dealt("modules", fast("modules"), 3), ...dealt("pure", fast("pure"), 1)];
}

/** The default duration of a file, in seconds. */
const SHORT = 2;

/** Seconds of a file in `npm test` on two cores. Add a line for a long file. */
const SECONDS: Readonly<Record<string, number>> = {
  "test/scheduler/tasks/reconcile.test.ts": 4,
  "test/operator/report/runs.test.ts": 16,
  "test/operator/actions/restarts.test.ts": 13,
  "test/workflow/steps/race.test.ts": 9,
  "test/workflow/steps/agent-tools-again.test.ts": 40,
  "test/hosts/think/schedules.test.ts": 31,
  "test/features/limits/sub-agents.test.ts": 5,
  "test/workflow/steps/crash-prompts.test.ts": 28,
  "test/workflow/steps/agent-tools.test.ts": 27,
  "test/peers/peers.test.ts": 25,
  "test/workflow/steps/prompt-all.test.ts": 25,
  "test/workflow/steps/prompt-boundaries.test.ts": 25,
  "test/features/codemode/steps/crash.test.ts": 24,
  "test/hosts/think/turns/crash.test.ts": 24,
  "test/hosts/think/turns/tools.test.ts": 23,
  "test/workflow/steps/crash-waits.test.ts": 23,
  "test/submissions/turns/answers.test.ts": 20,
  "test/workflow/steps/prompt-schemas.test.ts": 20,
  "test/outbox/delivery/hanging.test.ts": 19,
  "test/workflow/steps/forged-events.test.ts": 19,
  "test/hosts/think/moved/work-in-flight.test.ts": 18,
  "test/hosts/think/turns/answers.test.ts": 18,
  "test/workflow/waits/webhooks.test.ts": 18,
  "test/features/codemode/steps/codemode.test.ts": 17,
  "test/hosts/think/ids.test.ts": 17,
  "test/hosts/think/turns/again.test.ts": 17,
  "test/submissions/crash.test.ts": 17,
  "test/submissions/turns/limit-wait.test.ts": 16,
  "test/hosts/think/turns/answers-asked.test.ts": 15,
  "test/hosts/think/turns/crash-turns.test.ts": 15,
  "examples/triage/test/triage.test.ts": 14,
  "test/outbox/crash.test.ts": 14,
  "test/operator/otlp/otlp.test.ts": 14,
  "test/workflow/waits/crash.test.ts": 13,
  "test/core/schema.test.ts": 12,
  "test/operator/listing.test.ts": 12,
  "test/testing/replay/hostile.test.ts": 12,
  "test/hosts/think/workflow-start.test.ts": 11,
  "test/cli/process.test.ts": 11,
  "test/engine/idle.test.ts": 10,
  "test/hosts/think/turns/reset.test.ts": 10,
  "test/hosts/think/workflow-of-another.test.ts": 10,
  "test/operator/trace/trace.test.ts": 10,
  "test/features/replies/outbox.test.ts": 10,
  "test/testing/crash.test.ts": 10,
  "test/workflow/steps/prompt.test.ts": 10,
  "test/outbox/delivery/trouble.test.ts": 9,
  "test/workflow/waits/model.test.ts": 9,
  "test/workflow/steps/approval.test.ts": 9,
  "test/workflow/steps/webhook.test.ts": 9,
  "test/hosts/think/approval-clients.test.ts": 8,
  "test/features/limits/turns.test.ts": 8,
  "test/operator/actions/bulk.test.ts": 8,
  "test/operator/report/waits.test.ts": 8,
  "test/outbox/model.test.ts": 7,
  "test/operator/actions/operate.test.ts": 7,
  "test/cli/agents.test.ts": 7,
  "test/scheduler/crash.test.ts": 7,
  "test/testing/clock.test.ts": 7,
  "test/workflow/prompt-answers.test.ts": 7,
  "test/workflow/steps/rollback.test.ts": 7,
  "test/features/deploy/history.test.ts": 6,
  "test/hosts/sdk/threads.test.ts": 6,
  "test/hosts/think/cost.test.ts": 6,
  "test/hosts/think/turns/crash-tools.test.ts": 6,
  "test/hosts/think/turns/edges.test.ts": 6,
  "test/outbox/turns.test.ts": 6,
  "test/workflow/waits/approvals.test.ts": 6,
  "test/workflow/waits/waits.test.ts": 6,
  "test/workflow/steps/approval-crash.test.ts": 6,
  "test/features/deploy/work/work.test.ts": 5,
  "test/features/inbound/webhooks/receiver.test.ts": 5,
  "test/features/inbound/webhooks/sources/queue.test.ts": 5,
  "test/outbox/scale.test.ts": 5,
  "test/submissions/model.test.ts": 5,
  "test/submissions/options.test.ts": 5,
  "test/submissions/threads.test.ts": 5,
  "test/submissions/trouble.test.ts": 5,
  "test/workflow/waits/prompt-batches.test.ts": 5,
  "test/cli/deploy/snapshot.test.ts": 5,
  "test/operator/report/outbox.test.ts": 5,
  "test/operator/trace/native/native-spans.test.ts": 5,
  "test/scheduler/calendar/proof.test.ts": 5,
  "test/scheduler/cost.test.ts": 5,
  "test/scheduler/language/errors.test.ts": 5,
  "test/scheduler/runs/overlap.test.ts": 5,
  "test/features/streams/thread-followers.test.ts": 5,
  "test/testing/replay/kinds.test.ts": 5,
  "test/workflow/steps/links.test.ts": 5,
  "test/features/deploy/versions.test.ts": 4,
  "test/hosts/think/refusals.test.ts": 4,
  "test/hosts/think/turns/hooks.test.ts": 4,
  "test/hosts/think/turns/threads.test.ts": 4,
  "test/features/inbound/webhooks/oracles/senders.test.ts": 4,
  "test/outbox/destinations/destinations.test.ts": 4,
  "test/outbox/destinations/webhook.test.ts": 4,
  "test/outbox/outbox.test.ts": 4,
  "test/submissions/submissions.test.ts": 4,
  "test/submissions/turns/spending.test.ts": 4,
  "test/features/limits/simulation/simulation.test.ts": 4,
  "test/operator/report/recent.test.ts": 4,
  "test/operator/runtime/limits.test.ts": 4,
  "test/scheduler/scheduler.test.ts": 4,
  "test/scheduler/verbs.test.ts": 4,
  "test/scripts/manifest.test.ts": 4,
  "test/engine/lost-alarms.test.ts": 3,
  "test/hosts/think/testing.test.ts": 3,
  "test/features/inbound/accept.test.ts": 3,
  "test/features/inbound/log.test.ts": 3,
  "test/features/inbound/webhooks/email/email.test.ts": 3,
  "test/outbox/late.test.ts": 3,
  "test/submissions/intake/accept.test.ts": 3,
  "test/submissions/store/scale.test.ts": 3,
  "test/submissions/turns/next-attempt.test.ts": 3,
  "test/submissions/verbs.test.ts": 3,
  "test/workflow/waits/malformed.test.ts": 3,
  "test/operator/alerts/alerts.test.ts": 3,
  "test/operator/api/hostile.test.ts": 3,
  "test/scheduler/model.test.ts": 3,
  "test/workflow/steps/ends.test.ts": 3,
  "test/workflow/steps/step-names.test.ts": 3,
};

const secondsOf = (file: string): number => SECONDS[file] ?? SHORT;

/** Distributes files to processes that end at about the same time: the longest first, each to the one with the least work. */
function dealt(project: Project, files: readonly string[], count: number): TestProcess[] {
  const hands = Array.from({ length: count }, () => ({ seconds: 0, files: [] as string[] }));
  for (const file of files.toSorted((one, other) => secondsOf(other) - secondsOf(one))) {
    const hand = hands.reduce((least, next) => (next.seconds < least.seconds ? next : least));
    hand.files.push(file);
    hand.seconds += secondsOf(file);
  }
  return hands.map((hand, index) => ({
    name: `${project} ${index + 1}`,
    projects: [project],
    files: hand.files,
  }));
}
