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
    "test/operator/cli/process.test.ts",
    "test/operator/cli/deploy/{deploys,new-code,snapshot}.test.ts",
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
    "test/limits/simulation/*.test.ts",
    "test/operator/cli/**/*.test.ts",
    "test/operator/dashboard/*.test.ts",
    // The senders' own packages are for Node. In Workers, that of GitHub is less strict.
    "test/inbound/webhooks/oracles/**/*.test.ts",
  ],
  /** Behaviour by public names, on every host: `npm run test:acceptance`. */
  acceptance: ["test/acceptance/**/*.test.ts"],
  /** Costs, storage and features of every host, and the harness: `npm run test:contract`. */
  contract: ["test/contract/**/*.test.ts", "test/hosts/{chat,harness}/*.test.ts"],
  /** What needs Think. */
  think: [
    "test/hosts/think/**/*.test.ts",
    "test/{workflow,codemode}/steps/**/*.test.ts",
    "test/peers/*.test.ts",
    "test/types.test.ts",
    "test/deploy/*.test.ts",
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

/** The longest tests of the modules, which mostly wait. They run in the process with the least work. */
const MOVED = [
  "test/kernel/outbox/delivery/hanging.test.ts",
  "test/kernel/outbox/delivery/deadly.test.ts",
];

/**
 * The longest first. Three processes need Think: each of them imports it, which takes as long as all tests of some files, and two
 * would run for longer than everything else.
 */
export function testProcesses(): TestProcess[] {
  const modules = dealt("modules", without(MOVED, filesOf("modules")), 2);
  const think = dealt("think", filesOf("think"), 3);
  const others = [...filesOf("scheduler"), ...filesOf("triage"), ...MOVED];
  return [
    ...think.slice(0, 1),
    ...modules,
    ...think.slice(1),
    { name: "others", projects: ["scheduler", "triage", "modules"], files: others },
    { name: "node", projects: ["pure"], files: filesOf("pure") },
  ];
}

const without = (left: readonly string[], files: readonly string[]) =>
  files.filter((file) => !left.includes(file));

/** Tests that try many crashes or random inputs. */
const MANY = /crash|model|scale/;

/** `npm run test:fast`: tests of the modules and in Node that take less than 6 seconds, without those that try many inputs. */
export function fastProcesses(): TestProcess[] {
  const fast = (project: Project) =>
    filesOf(project).filter((file) => secondsOf(file) < 6 && !MANY.test(file));
  return [...dealt("modules", fast("modules"), 3), ...dealt("pure", fast("pure"), 1)];
}

/** The default duration of a file, in seconds. */
const SHORT = 2;

/** Seconds of a file: half of the processor time on a busy machine. Add a line for a long file. */
const SECONDS: Readonly<Record<string, number>> = {
  "test/workflow/steps/agent-tools-again.test.ts": 33,
  "test/kernel/outbox/delivery/hanging.test.ts": 32,
  "test/workflow/steps/prompt-all.test.ts": 31,
  "test/hosts/think/turns/tools.test.ts": 29,
  "test/workflow/steps/crash-prompts.test.ts": 28,
  "test/kernel/outbox/delivery/deadly.test.ts": 26,
  "test/workflow/steps/forged-events.test.ts": 26,
  "test/codemode/steps/crash.test.ts": 24,
  "test/hosts/think/turns/crash.test.ts": 24,
  "test/workflow/steps/prompt-boundaries.test.ts": 24,
  "test/hosts/think/refusals.test.ts": 23,
  "test/workflow/steps/crash-waits.test.ts": 23,
  "test/hosts/think/schedules.test.ts": 22,
  "test/workflow/steps/agent-tools.test.ts": 22,
  "test/hosts/think/turns/answers-asked.test.ts": 20,
  "test/hosts/think/turns/reset.test.ts": 20,
  "test/peers/peers.test.ts": 18,
  "test/kernel/submissions/crash.test.ts": 17,
  "test/hosts/think/turns/crash-turns.test.ts": 15,
  "test/kernel/submissions/turns/answers.test.ts": 15,
  "examples/triage/test/triage.test.ts": 14,
  "test/kernel/outbox/crash.test.ts": 14,
  "test/operator/otlp/otlp.test.ts": 14,
  "test/core/schema.test.ts": 13,
  "test/hosts/think/workflow-start.test.ts": 13,
  "test/kernel/waits/crash.test.ts": 13,
  "test/workflow/steps/prompt-schemas.test.ts": 13,
  "test/kernel/outbox/delivery/trouble.test.ts": 12,
  "test/kernel/waits/webhooks.test.ts": 12,
  "test/codemode/steps/codemode.test.ts": 11,
  "test/operator/cli/process.test.ts": 11,
  "test/workflow/steps/prompt.test.ts": 11,
  "test/hosts/think/turns/edges.test.ts": 10,
  "test/kernel/submissions/turns/answers-held.test.ts": 10,
  "test/operator/listing.test.ts": 10,
  "test/testing/crash.test.ts": 10,
  "test/kernel/waits/model.test.ts": 9,
  "test/core/lost-alarms.test.ts": 8,
  "test/hosts/think/turns/answers.test.ts": 8,
  "test/operator/actions/bulk.test.ts": 8,
  "test/testing/replay/hostile.test.ts": 8,
  "test/core/idle.test.ts": 7,
  "test/deploy/history.test.ts": 7,
  "test/kernel/outbox/model.test.ts": 7,
  "test/operator/alerts/alerts.test.ts": 7,
  "test/scheduler/crash.test.ts": 7,
  "test/testing/replay/kinds.test.ts": 7,
  "test/hosts/think/approval-clients.test.ts": 6,
  "test/hosts/think/ids.test.ts": 6,
  "test/hosts/think/turns/crash-tools.test.ts": 6,
  "test/hosts/think/turns/threads.test.ts": 6,
  "test/inbound/webhooks/refusals.test.ts": 6,
  "test/kernel/submissions/submissions.test.ts": 6,
  "test/kernel/submissions/turns/joining.test.ts": 6,
  "test/kernel/submissions/turns/limit-wait.test.ts": 6,
  "test/kernel/waits/approvals.test.ts": 6,
  "test/limits/turns.test.ts": 6,
  "test/types.test.ts": 6,
  "test/workflow/steps/approval-crash.test.ts": 6,
  "test/hosts/think/moved/work-in-flight.test.ts": 5,
  "test/kernel/outbox/delivery/endpoints.test.ts": 5,
  "test/kernel/outbox/scale.test.ts": 5,
  "test/kernel/outbox/turns.test.ts": 5,
  "test/kernel/submissions/model.test.ts": 5,
  "test/kernel/submissions/trouble.test.ts": 5,
  "test/operator/actions/operate.test.ts": 5,
  "test/operator/cli/deploy/snapshot.test.ts": 5,
  "test/operator/trace/native/native-spans.test.ts": 5,
  "test/streams/thread-followers.test.ts": 5,
  "test/workflow/steps/approval.test.ts": 5,
  "test/deploy/work/work.test.ts": 4,
  "test/kernel/outbox/outbox.test.ts": 4,
  "test/kernel/submissions/turns/spending.test.ts": 4,
  "test/kernel/waits/malformed.test.ts": 4,
  "test/kernel/waits/prompt-batches.test.ts": 4,
  "test/limits/simulation/simulation.test.ts": 4,
  "test/operator/api/operator.test.ts": 4,
  "test/operator/cli/agents.test.ts": 4,
  "test/operator/mcp/operator-mcp.test.ts": 4,
  "test/operator/report/outbox.test.ts": 4,
  "test/operator/runtime/limits.test.ts": 4,
  "test/scheduler/tasks/reconcile.test.ts": 4,
  "test/testing/clock.test.ts": 4,
  "test/workflow/prompt-answers.test.ts": 4,
  "test/inbound/accept.test.ts": 3,
  "test/inbound/log.test.ts": 3,
  "test/inbound/webhooks/sources/queue.test.ts": 3,
  "test/kernel/outbox/edges.test.ts": 3,
  "test/kernel/submissions/store/scale.test.ts": 3,
  "test/kernel/submissions/turns/waiting.test.ts": 3,
  "test/kernel/submissions/verbs.test.ts": 3,
  "test/limits/keeper/keeper.test.ts": 3,
  "test/operator/trace/trace.test.ts": 3,
  "test/scheduler/language/errors.test.ts": 3,
  "test/scheduler/model.test.ts": 3,
  "test/scheduler/pure.test.ts": 3,
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
