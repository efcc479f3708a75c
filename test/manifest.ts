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
  /** The command line with new code in runtimes of its own: `npm run test:deploys`. */
  deploys: ["test/operator/cli/deploy/{deploys,new-code}.test.ts"],
  /** Replays of runs in the real engine: `npm run test:deploys`. */
  replays: ["test/testing/replay/{edits,same-code,model}.test.ts"],
  /** In Node. */
  pure: [
    "test/scheduler/{calendar,language}/**/*.test.ts",
    "test/{bench,scripts}/**/*.test.ts",
    "test/limits/simulation/*.test.ts",
    "test/operator/cli/**/*.test.ts",
    "test/operator/dashboard/*.test.ts",
    // They start runtimes of their own.
    "test/operator/trace/native/*.test.ts",
    "test/operator/runtime/*.test.ts",
    "test/operator/otlp/otlp.test.ts",
    // The senders' own packages are for Node. In Workers, that of GitHub is less strict.
    "test/inbound/webhooks/oracles/**/*.test.ts",
  ],
  /** The contract of every host: `npm run test:contract`. */
  contract: ["test/contract/**/*.test.ts", "test/hosts/{chat,harness}/*.test.ts"],
  /** What needs Think. */
  think: [
    "test/hosts/think/**/*.test.ts",
    "test/{workflow,codemode}/steps/**/*.test.ts",
    "test/peers/*.test.ts",
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

/** Tests wait half of the time. Eight processes use two cores without slowing down tests that measure time. */
export function testProcesses(): TestProcess[] {
  const modules = filesOf("modules").filter((file) => !MOVED.includes(file));
  const others = [...filesOf("scheduler"), ...filesOf("triage"), ...MOVED];
  return [
    ...dealt("modules", modules, 2),
    { name: "others", projects: ["scheduler", "triage", "modules"], files: others },
    { name: "node", projects: ["pure"], files: filesOf("pure") },
    ...dealt("think", filesOf("think"), 4),
  ];
}

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

/** Seconds, as measured by `npm test`. Add a line for a long file. */
const SECONDS: Readonly<Record<string, number>> = {
  "test/workflow/steps/agent-tools-again.test.ts": 55,
  "test/hosts/think/turns/tools.test.ts": 48,
  "test/workflow/steps/forged-events.test.ts": 44,
  "test/workflow/steps/prompt-boundaries.test.ts": 40,
  "test/workflow/steps/crash-waits.test.ts": 38,
  "test/workflow/steps/agent-tools.test.ts": 37,
  "test/hosts/think/schedules.test.ts": 36,
  "test/hosts/think/turns/reset.test.ts": 34,
  "test/kernel/outbox/delivery/hanging.test.ts": 32,
  "test/workflow/steps/prompt-all.test.ts": 30,
  "test/workflow/steps/crash-prompts.test.ts": 28,
  "test/kernel/outbox/delivery/deadly.test.ts": 26,
  "test/hosts/think/turns/crash.test.ts": 24,
  "test/codemode/steps/crash.test.ts": 24,
  "test/operator/otlp/otlp.test.ts": 23,
  "test/workflow/steps/prompt-schemas.test.ts": 21,
  "test/hosts/think/workflow-start.test.ts": 21,
  "test/hosts/think/turns/crash-turns.test.ts": 20,
  "test/workflow/steps/prompt.test.ts": 19,
  "test/peers/peers.test.ts": 18,
  "test/kernel/submissions/crash.test.ts": 17,
  "test/operator/cli/process.test.ts": 16,
  "test/operator/cli/deploy/snapshot.test.ts": 9,
  "test/codemode/steps/codemode.test.ts": 13,
  "test/kernel/outbox/delivery/trouble.test.ts": 12,
  "test/hosts/think/turns/answers-asked.test.ts": 11,
  "test/kernel/outbox/crash.test.ts": 11,
  "test/operator/actions/bulk.test.ts": 10,
  "test/hosts/think/turns/edges.test.ts": 10,
  "test/testing/crash.test.ts": 10,
  "test/kernel/submissions/turns/joining.test.ts": 10,
  "test/hosts/think/ids.test.ts": 9,
  "test/hosts/think/moved/work-in-flight.test.ts": 9,
  "test/kernel/waits/model.test.ts": 9,
  "test/hosts/think/turns/answers.test.ts": 8,
  "test/core/lost-alarms.test.ts": 8,
  "test/testing/replay/hostile.test.ts": 8,
  "test/kernel/submissions/turns/answers.test.ts": 8,
  "test/workflow/steps/approval.test.ts": 7,
  "test/hosts/think/approval-clients.test.ts": 7,
  "test/core/idle.test.ts": 7,
  "test/deploy/history.test.ts": 7,
  "test/testing/replay/kinds.test.ts": 7,
  "test/kernel/outbox/model.test.ts": 7,
  "test/operator/cli/agents.test.ts": 7,
  "test/hosts/think/turns/crash-tools.test.ts": 6,
  "test/hosts/think/turns/threads.test.ts": 6,
  "test/workflow/steps/approval-crash.test.ts": 6,
  "test/kernel/waits/prompt-batches.test.ts": 6,
  "test/inbound/webhooks/refusals.test.ts": 6,
  "test/kernel/submissions/model.test.ts": 5,
  "test/kernel/submissions/submissions.test.ts": 5,
  "test/kernel/submissions/trouble.test.ts": 5,
  "test/kernel/waits/approvals.test.ts": 5,
  "test/kernel/outbox/scale.test.ts": 5,
  "test/kernel/outbox/turns.test.ts": 5,
  "test/operator/trace/native/native-spans.test.ts": 5,
  "test/testing/clock.test.ts": 4,
  "test/kernel/waits/webhooks.test.ts": 4,
  "test/kernel/waits/malformed.test.ts": 4,
  "test/kernel/outbox/outbox.test.ts": 4,
  "test/kernel/submissions/turns/spending.test.ts": 4,
  "test/kernel/outbox/destinations/webhook.test.ts": 4,
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
