/** The requests of the bench of rows, by name. Each measures objects that nothing else uses. */

import { capabilitiesOf } from "perdure/object";
import { ask, type Count } from "perdure/testing";
import { type AgentRows, delivered, type ObjectRows, type ThinkRows } from "./objects.ts";
import { ends, message, modelCalls, type Settings, settings } from "./probe.ts";
import type { PromptParams } from "./workflows.ts";

export type Host = "think" | "agent" | "object";
type Env = Cloudflare.Env & {
  readonly ThinkRows: DurableObjectNamespace<ThinkRows>;
  readonly AgentRows: DurableObjectNamespace<AgentRows>;
  readonly ObjectRows: DurableObjectNamespace<ObjectRows>;
};

/** The part of each class that a request calls. The compiler cannot resolve the types of the classes. */
type Stub = {
  readonly probe: {
    reset(): Promise<void>;
    read(): Promise<Count>;
    hasAlarm(): Promise<boolean>;
    die(): Promise<void>;
    destroy(): Promise<void>;
  };
  put(to: "hear" | "refuse", count: number): Promise<void>;
  inspectSubmission(id: string): Promise<unknown>;
  submitMessages(messages: unknown[], options?: object): Promise<{ submissionId: string }>;
  submitMany(submissions: readonly object[]): Promise<unknown>;
  waitForSubmission(id: string): Promise<{ status: string } | null>;
  submissionStats(): Promise<{ pending: number; running: number }>;
  listSubmissions(options: object): Promise<unknown[]>;
  runWorkflow(workflow: string, params: unknown, options: { id: string }): Promise<string>;
};

const CLASSES = {
  think: "ThinkRows",
  agent: "AgentRows",
  "agent with features": "FullAgentRows",
  object: "ObjectRows",
  "built-in think": "BuiltInThinkRows",
  "built-in agent": "BuiltInAgentRows",
} as const;
const WORKFLOWS = {
  think: "AGENT_PROMPT",
  agent: "AGENT_PROMPT",
  "agent with features": "AGENT_PROMPT",
  object: "OBJECT_PROMPT",
  "built-in think": "BUILT_IN_PROMPT",
} as const;

/** Submissions in one call. */
const BATCH = 1_000;
const HANG_MS = 60_000;
const LONG_MS = 1_800_000;
/** A turn that runs until its object goes down. */
const HELD = ask({ delayMs: 86_400_000 });

export const rowRequests = {
  /** Counts of the first start of a new object, and of that with its first isolated prompt. Think's own is in the conversation. */
  async firstStart(
    env: Env,
    { host }: { host: keyof typeof CLASSES },
  ): Promise<{ start: Count; withPrompt: Count | undefined }> {
    const stub = fresh(env, host);
    if (host !== "built-in agent") await stub.inspectSubmission("none");
    const start = await settled(stub);
    if (host === "built-in agent") return { start, withPrompt: undefined };
    await prompt(stub, host, "isolated");
    return { start, withPrompt: await settled(stub) };
  },

  /** Counts of a start with pending submissions, of which `running` are started. */
  async startWithPending(
    env: Env,
    { host, pending, lanes }: { host: Host; pending: number; lanes: number },
  ): Promise<Count & { running: number }> {
    const name = crypto.randomUUID();
    const stub = () => stubAt(env, host, name);
    for (let first = 0; first < pending; first += BATCH) {
      const batch = Array.from({ length: Math.min(BATCH, pending - first) }, (_, index) => ({
        messages: [message(HELD)],
        options: { thread: `lane-${(first + index) % lanes}` },
      }));
      await stub().submitMany(batch);
      await stub().probe.reset();
    }
    const running = Math.min(lanes, 4);
    await until(() => (modelCalls.get(name) ?? 0) >= running, "the first turns run");
    await settled(stub());
    const before = modelCalls.get(name) ?? 0;
    await stub().probe.die().catch(aborted);
    await stub().inspectSubmission("none");
    await until(() => (modelCalls.get(name) ?? 0) >= before + running, "turns run again");
    const count = await settled(stub());
    const stats = await stub().submissionStats();
    if (stats.pending + stats.running !== pending) throw new Error(JSON.stringify(stats));
    await stub().probe.destroy().catch(aborted);
    return { ...count, running: stats.running };
  },

  /** Counts of a start with dead letters and nothing else. */
  async startWithDeadLetters(env: Env, { host, count }: { host: Host; count: number }) {
    const name = crypto.randomUUID();
    const stub = () => stubAt(env, host, name);
    for (let first = 0; first < count; first += BATCH) {
      await stub().put("refuse", Math.min(BATCH, count - first));
      await until(async () => (await outboxAt(stub()).stats()).waiting === 0, "all are refused");
      await stub().probe.reset();
    }
    const dead = await outboxAt(stub()).countDeadLetters();
    if (dead !== count) throw new Error(`${dead} dead letters, not ${count}`);
    await until(async () => !(await stub().probe.hasAlarm()), "the object is idle", LONG_MS);
    await stub().probe.die().catch(aborted);
    await stub().inspectSubmission("none");
    const start = await settled(stub());
    await stub().probe.destroy().catch(aborted);
    return start;
  },

  /** Counts of the turns with these numbers in a named thread. */
  async threadTurns(env: Env, { host, numbers }: { host: Host; numbers: number[] }) {
    const stub = fresh(env, host);
    const counts: Count[] = [];
    for (let number = 1; number <= Math.max(...numbers); number++) {
      const isCounted = numbers.includes(number);
      if (isCounted) {
        await settled(stub);
        await stub.probe.reset();
      }
      await turn(stub, "talk");
      if (isCounted) counts.push(await settled(stub));
    }
    return counts;
  },

  /** Counts of one delivery to a method of the object, on a warm object, from `put()` on. */
  async delivery(env: Env, { host }: { host: Host }): Promise<Count> {
    const name = crypto.randomUUID();
    const stub = stubAt(env, host, name);
    const deliver = async () => {
      const before = delivered.get(name) ?? 0;
      await stub.put("hear", 1);
      await until(() => (delivered.get(name) ?? 0) > before, "the delivery arrives");
      return settled(stub);
    };
    await deliver();
    await stub.probe.reset();
    return deliver();
  },

  /** Counts of prompts that are started at once, on a warm object, with durable starts and their ends. */
  async prompts(
    env: Env,
    { host, count, thread }: { host: Host; count: number; thread: PromptParams["thread"] },
  ): Promise<Count & { hasAlarm: boolean }> {
    const name = crypto.randomUUID();
    // All but one of them wait for a turn.
    settings.set(name, { maxConcurrentTurns: 1 });
    const stub = stubAt(env, host, name);
    await prompt(stub, host, thread);
    await settled(stub);
    await stub.probe.reset();
    await Promise.all(Array.from({ length: count }, () => prompt(stub, host, thread)));
    const counts = await settled(stub);
    await until(async () => !(await stub.probe.hasAlarm()), "the object is idle", LONG_MS);
    return { ...counts, hasAlarm: await stub.probe.hasAlarm() };
  },

  /** Counts of a page of each list, and of stats and health, with ended submissions in threads; and of their retention. */
  async pages(env: Env, { count, threads }: { count: number; threads: number }) {
    const name = crypto.randomUUID();
    const set = (more: Settings) => settings.set(name, { maxConcurrentTurns: 64, ...more });
    set({ keepsAll: true });
    const stub = () => stubAt(env, "object", name);
    for (let first = 0; first < count; first += BATCH) {
      const batch = Array.from({ length: Math.min(BATCH, count - first) }, (_, index) => ({
        messages: [message("Hello")],
        options: { thread: `thread-${(first + index) % threads}` },
      }));
      await stub().submitMany(batch);
      await until(async () => isDone(await stub().submissionStats()), "all have ended", LONG_MS);
      await stub().probe.reset();
    }
    const { operations } = capabilitiesOf(stub() as never);
    const rowsRead = async (call: () => Promise<unknown>): Promise<number> => {
      await settled(stub());
      await stub().probe.reset();
      await call();
      return (await stub().probe.read()).rowsRead;
    };
    const pages = {
      listThreads: await rowsRead(() => operations.listThreads({ limit: 50 })),
      listCosts: await rowsRead(() => operations.listCosts({ limit: 50 })),
      submissionStats: await rowsRead(() => stub().submissionStats()),
      healthReport: await rowsRead(() => operations.healthReport()),
    };
    set({ maxAgeMs: 1 });
    await stub().probe.die().catch(aborted);
    await turn(stub(), "isolated");
    await until(async () => !(await stub().probe.hasAlarm()), "retention has ended", LONG_MS);
    const retention = await stub().probe.read();
    const left = await stub().listSubmissions({ limit: 10 });
    return { pages, retention, left: left.length };
  },
};

export type RowRequests = typeof rowRequests;

function stubAt(env: Env, host: keyof typeof CLASSES, name: string): Stub {
  const namespaces = env as unknown as Record<string, DurableObjectNamespace>;
  const namespace = namespaces[CLASSES[host]];
  if (!namespace) throw new Error(`No binding ${CLASSES[host]}`);
  return namespace.getByName(name) as unknown as Stub;
}

const fresh = (env: Env, host: keyof typeof CLASSES) => stubAt(env, host, crypto.randomUUID());

const outboxAt = (stub: Stub) => capabilitiesOf(stub as never).outbox;

async function turn(stub: Stub, thread: string): Promise<void> {
  const { submissionId } = await stub.submitMessages([message("Hello")], { thread });
  const ended = await stub.waitForSubmission(submissionId);
  if (ended?.status !== "completed") throw new Error(`The turn ended: ${JSON.stringify(ended)}`);
}

async function prompt(
  stub: Stub,
  host: keyof typeof WORKFLOWS,
  thread: PromptParams["thread"],
): Promise<void> {
  const id = `rows-${crypto.randomUUID()}`;
  await stub.runWorkflow(WORKFLOWS[host], { thread }, { id });
  await until(() => ends.has(id), "the workflow ends");
  const error = ends.get(id);
  if (error) throw error;
}

const isDone = ({ pending, running }: { pending: number; running: number }) =>
  pending + running === 0;

/** The counts once they have not changed for half a second, which covers the work after an answer. */
async function settled(stub: Stub): Promise<Count> {
  let last = await stub.probe.read();
  for (let same = 0; same < 5; ) {
    await sleep(100);
    const next = await stub.probe.read();
    same = JSON.stringify(next) === JSON.stringify(last) ? same + 1 : 0;
    last = next;
  }
  return last;
}

/** A call that aborts its own object rejects with the reason. */
function aborted(error: Error): void {
  if (!/bench/.test(error.message)) throw error;
}

async function until(
  isSo: () => boolean | Promise<boolean>,
  what: string,
  timeoutMs = HANG_MS,
): Promise<void> {
  const deadline = Date.now() + timeoutMs;
  while (!(await isSo())) {
    if (Date.now() > deadline) throw new Error(`Waited ${timeoutMs / 1_000} s until ${what}`);
    await sleep(100);
  }
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
