/** A gate with keepers in memory, and a model that answers as the test says. Timers are those of Vitest. */

import { APICallError, type LanguageModel } from "ai";
import { onTestFinished, vi } from "vitest";
import type { Clock } from "../../../src/core/clock.ts";
import { Capacity } from "../../../src/features/limits/capacity.ts";
import { type Limit, readLimits } from "../../../src/features/limits/declared/declarations.ts";
import { LimitGate } from "../../../src/features/limits/gate.ts";
import type { StoredKey } from "../../../src/features/limits/keeper/account.ts";
import { Book } from "../../../src/features/limits/keeper/book.ts";
import type {
  Answer,
  Ask,
  Notice,
  Observation,
  Return,
} from "../../../src/features/limits/keeper/protocol.ts";
import {
  type Keepers,
  KeeperUnreachableError,
  type KeptLimit,
  keeperOf,
  keepersOf,
} from "../../../src/features/limits/keepers.ts";
import type { Submission } from "../../../src/submissions/store/rows.ts";
import type { WaitedFor } from "../../../src/submissions/types.ts";

type Model = Extract<LanguageModel, { specificationVersion: "v4" }>;
type Generated = Awaited<ReturnType<Model["doGenerate"]>>;
type CallOptions = Parameters<Model["doGenerate"]>[0];

/** Advances with the timers, and answers nothing at random. */
const clock: Clock = { now: () => Date.now(), random: () => 0.5 };

/** Keepers that all agents of a test share. */
class MemoryKeepers implements Pick<Keepers, "ask" | "giveBack" | "observe"> {
  readonly asks: { keeper: string; ask: Ask; answer: Answer }[] = [];
  readonly returns: Return[] = [];
  readonly observations: Observation[] = [];
  isReachable = true;
  latencyMs = 0;
  readonly #books = new Map<string, Book>();

  bookOf(name: string): Book {
    const rows = new Map<string, StoredKey>();
    const store = {
      load: (key: string) => rows.get(key),
      save: (key: string, state: StoredKey) => void rows.set(key, structuredClone(state)),
    };
    const book = this.#books.get(name) ?? new Book(name, store, clock);
    this.#books.set(name, book);
    return book;
  }

  async ask(limit: KeptLimit, agentId: string, ask: Ask): Promise<Answer> {
    await this.#arrive();
    const keeper = keeperOf(limit, ask.key, agentId);
    if (!this.isReachable) throw new KeeperUnreachableError(keeper, 2_000, new Error("down"));
    const answer = this.bookOf(keeper).ask(structuredClone(ask));
    this.returns.push(...(ask.returns ?? []));
    this.asks.push({ keeper, ask, answer });
    return answer;
  }

  async giveBack(limit: KeptLimit, agentId: string, returns: readonly Return[]): Promise<Notice[]> {
    await this.#arrive();
    this.returns.push(...returns);
    return returns.flatMap((one) => this.bookOf(keeperOf(limit, one.key, agentId)).giveBack([one]));
  }

  async observe(
    limit: Parameters<Keepers["observe"]>[0],
    agentId: string,
    observation: Observation,
  ): Promise<void> {
    await this.#arrive();
    const isOfAll = limit.keyOf !== undefined && observation.key === "";
    const own = [keeperOf(limit, observation.key, agentId)];
    for (const name of isOfAll ? keepersOf(limit) : own) this.bookOf(name).observe(observation);
    this.observations.push(observation);
  }

  async #arrive(): Promise<void> {
    if (this.latencyMs > 0) await new Promise((resolve) => setTimeout(resolve, this.latencyMs));
  }
}

export type Settings = {
  readonly limits?: readonly Limit[];
  readonly prices?: Record<string, { input: number; cachedInput?: number; output: number }>;
  readonly maxOutputTokens?: number;
};

let agents = 0;

type More = {
  readonly maxKeys?: number;
  /** Another agent whose sub-agent it is. */
  readonly root?: string;
  readonly rows?: Map<number, Submission>;
};

/** No window of an hour or a day ends while a test lets minutes pass. */
const STARTS_AT = Date.UTC(2026, 10, 16, 12, 10);

/** An agent of its own, with timers of Vitest. */
export function givenGate(...args: Parameters<typeof realGate>) {
  if (!vi.isFakeTimers()) vi.useFakeTimers({ now: STARTS_AT });
  onTestFinished(() => void vi.useRealTimers());
  return realGate(...args);
}

/** The same, with the timers of the machine. */
export function realGate(settings: Settings = {}, keepers = new MemoryKeepers(), more: More = {}) {
  const notices: { limit: string; notice: Notice }[] = [];
  const replaced: number[] = [];
  const waited: WaitedFor[] = [];
  const reserved: [seq: number, dollars: number][] = [];
  const waitings: [seq: number, until: number | undefined][] = [];
  const background = new Set<Promise<unknown>>();
  const agentId = `agent-${++agents}`;
  const { maxKeys, rows = new Map<number, Submission>() } = more;
  const { root = agentId } = more;
  const capacity = new Capacity({
    ...{ keepers, clock, root: () => root, ...(maxKeys && { maxKeys }) },
    notify: async (limit, notice) => void notices.push({ limit, notice }),
    inBackground: (work) => {
      background.add(work);
      void work.finally(() => background.delete(work));
    },
  });
  const read = readLimits({ maxOutputTokens: 100, ...settings });
  const gate = new LimitGate({
    ...{ settings: read, capacity, clock, agentId },
    subject: { agent: agentId, className: "Agent" },
    load: (seq) => rows.get(seq),
    heartbeat: () => {},
    onReserved: (seq, dollars) => void reserved.push([seq, dollars]),
    onWaiting: (seq, until) => void waitings.push([seq, until]),
    onWaited: (_, one) => void waited.push(one),
    onReplaced: (seq) => void replaced.push(seq),
  });
  return { gate, capacity, keepers, notices, replaced, reserved, waited, waitings, rows, root };
}

/** A pending submission. */
export function submission(seq: number, more: Partial<Submission> = {}): Submission {
  const given = {
    ...{ seq, submissionId: `s${seq}`, thread: "main", rank: 0, attempts: 0, resets: 0 },
    ...{ createdAt: Date.now(), status: "pending", messages: [] },
    ...more,
  };
  return given as Partial<Submission> as Submission;
}

/** Lets time pass, and what waits for it happen. */
export const pass = (ms: number) => vi.advanceTimersByTimeAsync(ms);

/** What a promise has resolved with. Fails for one that is pending. */
export async function now<T>(work: PromiseLike<T>): Promise<T> {
  let result: { readonly value: T } | { readonly error: unknown } | undefined;
  work.then(
    (value) => {
      result = { value };
    },
    (error) => {
      result = { error };
    },
  );
  await pass(0);
  if (!result) throw new Error("The promise is still pending");
  if ("error" in result) throw result.error;
  return result.value;
}

export type Script = {
  readonly usage?: unknown;
  readonly headers?: Record<string, string>;
  readonly fails?: unknown;
  readonly parts?: readonly unknown[];
};

export const usage = (input: number, output: number, cacheRead = 0) => ({
  inputTokens: { total: input, noCache: input - cacheRead, cacheRead, cacheWrite: 0 },
  outputTokens: { total: output, text: output, reasoning: 0 },
});

/** Answers each call as the next script says; the last one is repeated. */
export function modelOf(...scripts: Script[]) {
  const calls: CallOptions[] = [];
  const next = (options: CallOptions): Script => {
    const script = scripts[Math.min(calls.length, scripts.length - 1)] ?? {};
    calls.push(options);
    if (script.fails) throw script.fails;
    return { usage: usage(40, 10), ...script };
  };
  const finishReason = { unified: "stop", raw: undefined };
  const model = {
    specificationVersion: "v4",
    provider: "openai.responses",
    modelId: "gpt",
    supportedUrls: {},
    async doGenerate(options: CallOptions) {
      const { usage: reported, headers = {} } = next(options);
      const content = [{ type: "text", text: "Yes" }];
      return { content, finishReason, usage: reported, response: { headers }, warnings: [] };
    },
    async doStream(options: CallOptions) {
      const { usage: reported, headers = {}, parts } = next(options);
      const finish = { type: "finish", finishReason, usage: reported };
      const all = parts ?? [{ type: "text-delta", id: "1", delta: "Yes" }, finish];
      const stream = new ReadableStream({
        start(controller) {
          for (const part of all) {
            if (part instanceof Error) {
              controller.error(part);
              return;
            }
            controller.enqueue(part);
          }
          controller.close();
        },
      });
      return { stream, response: { headers } };
    },
  };
  return { model: model as unknown as Model, calls };
}

/** The options of a call whose prompt has about so many bytes. */
export function promptOf(bytes = 100, more: Partial<CallOptions> = {}): CallOptions {
  const text = "x".repeat(bytes);
  return { prompt: [{ role: "user", content: [{ type: "text", text }] }], ...more };
}

export async function readAll<T>(stream: ReadableStream<T>): Promise<T[]> {
  const parts: T[] = [];
  for await (const part of stream) parts.push(part);
  return parts;
}

/** The model of a step of a turn, as the gate gives it. */
export function stepModel(gate: LimitGate, seq: number | undefined, model: LanguageModel): Model {
  return gate.model(seq, model) as Model;
}

export async function generate(
  gate: LimitGate,
  seq: number | undefined,
  model: LanguageModel,
  options = promptOf(),
): Promise<Generated> {
  return stepModel(gate, seq, model).doGenerate(options);
}

/** A turn of the gate is admitted, asks its model, and ends. */
export async function worked(
  { gate }: ReturnType<typeof givenGate>,
  seq: number,
  more: Partial<Submission> = {},
): Promise<void> {
  while (gate.admit(submission(seq, more))) await pass(100);
  await now(generate(gate, seq, modelOf().model));
  gate.released(seq);
}

export function refused(statusCode: number, responseHeaders: Record<string, string> = {}) {
  const given = { url: "http://model.test", requestBodyValues: {}, isRetryable: false };
  return new APICallError({ message: "refused", statusCode, responseHeaders, ...given });
}
