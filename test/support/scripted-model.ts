/**
 * A language model that does what the last user message tells it to, in JSON.
 * It keeps no state, so it goes on after any crash; `modelCalls` counts what
 * was asked of it, across restarts of the objects.
 */

import { APICallError, type LanguageModel } from "ai";

export type LongText = { text: string; times: number };

export function long({ text, times }: LongText): string {
  return text.repeat(times);
}

export type Script = {
  /** What the final-answer tool is called with, when it is offered. */
  answer?: unknown;
  /** Its title is this text instead, so often: a script of megabytes would be too large to submit. */
  title?: LongText;
  /** What is said when there is no answer to give. */
  text?: string;
  /** How long the model thinks. */
  delayMs?: number;
  /** Fail with this message instead. */
  fail?: string;
  /** Fail so often, and not after that. */
  failTimes?: number;
  /** Say nothing so often, and go on with that though the turn is stopped. */
  hangTimes?: number;
  /** Fail as a provider does, with this status and these headers. */
  status?: number;
  headers?: Record<string, string>;
  /** Call this tool first, once. */
  tool?: { name: string; input: unknown };
  /** Call these tools, one per step. */
  tools?: { name: string; input: unknown }[];
  /** Said before anything else, also before a failure. */
  first?: string;
  /** Say text even if a final answer is asked for. */
  ignoreTools?: boolean;
};

/** How many times the model was called, by the text that it was asked. */
export const modelCalls = new Map<string, number>();

export function ask(script: Script): string {
  return JSON.stringify(script);
}

type Model = Extract<LanguageModel, { specificationVersion: "v4" }>;
type CallOptions = Parameters<Model["doStream"]>[0];
type Part =
  Awaited<ReturnType<Model["doStream"]>>["stream"] extends ReadableStream<infer P> ? P : never;

export class ScriptedModel implements Model {
  readonly specificationVersion = "v4";
  readonly provider = "test";
  readonly modelId = "scripted";
  readonly supportedUrls = {};

  /** @param told what it does whatever it is asked; without it, what the last user message tells it to */
  constructor(private readonly told?: Script) {}

  async doGenerate(): Promise<never> {
    throw new Error("The scripted model only streams");
  }

  async doStream(options: CallOptions) {
    const text = this.told ? ask(this.told) : lastUserText(options);
    const calls = (modelCalls.get(text) ?? 0) + 1;
    modelCalls.set(text, calls);
    const script = parse(text);
    const { fail, failTimes = calls, hangTimes = 0, status, headers } = script;
    if (calls <= hangTimes) await new Promise<never>(() => {});
    const fails = fail !== undefined && calls <= failTimes;
    if (fails && status !== undefined) {
      throw new APICallError({
        message: fail,
        url: "http://model.test",
        requestBodyValues: {},
        statusCode: status,
        responseHeaders: headers ?? {},
        // The AI SDK's own quick retries would hide the failure from the ledger.
        isRetryable: false,
      });
    }
    return { stream: streamOf(play(script, options, fails)) };
  }
}

/** The scripted model, with all that it was called with. */
export class NotingModel extends ScriptedModel {
  readonly calls: CallOptions[] = [];

  override doStream(options: CallOptions) {
    this.calls.push(options);
    return super.doStream(options);
  }

  /** `role: text` of what each call was asked, without the instructions. */
  prompts(): string[][] {
    return this.calls.map(({ prompt }) =>
      prompt.flatMap(({ role, content }) =>
        role === "system" ? [] : [`${role}: ${content.map(textOf).join("")}`],
      ),
    );
  }

  /** Names of the tools that each call was offered. */
  offered(): string[][] {
    return this.calls.map(({ tools }) => (tools ?? []).map(({ name }) => name));
  }
}

function textOf(part: { type: string; text?: string }): string {
  return part.type === "text" ? (part.text ?? "") : `[${part.type}]`;
}

function streamOf(parts: AsyncGenerator<Part>): ReadableStream<Part> {
  return new ReadableStream<Part>({
    async pull(controller) {
      const { done, value } = await parts.next();
      if (done) controller.close();
      else controller.enqueue(value);
    },
  });
}

async function* play(script: Script, options: CallOptions, fails: boolean): AsyncGenerator<Part> {
  yield { type: "stream-start", warnings: [] };
  if (script.first !== undefined) yield* say("0", script.first);
  await delay(script.delayMs ?? 0, options.abortSignal);
  if (fails) throw new Error(script.fail);
  const call = callOf(script, options);
  if (call) {
    const id = crypto.randomUUID();
    const input = JSON.stringify(call.input);
    yield { type: "tool-input-start", id, toolName: call.name };
    yield { type: "tool-input-delta", id, delta: input };
    yield { type: "tool-input-end", id };
    yield { type: "tool-call", toolCallId: id, toolName: call.name, input };
  } else {
    yield* say("1", script.text ?? "done");
  }
  yield {
    type: "finish",
    finishReason: { unified: call ? "tool-calls" : "stop", raw: undefined },
    usage: {
      inputTokens: { total: 10, noCache: 10, cacheRead: 0, cacheWrite: 0 },
      outputTokens: { total: 5, text: 5, reasoning: 0 },
    },
  };
}

function* say(id: string, text: string): Generator<Part> {
  yield { type: "text-start", id };
  yield { type: "text-delta", id, delta: text };
  yield { type: "text-end", id };
}

function callOf(script: Script, { tools, prompt, toolChoice }: CallOptions) {
  if (script.ignoreTools || toolChoice?.type === "none") return undefined;
  const hasCalled = prompt.at(-1)?.role === "tool";
  if (script.tool && !hasCalled) return script.tool;
  const next = script.tools?.[stepsSince(prompt)];
  if (next) return next;
  const final = tools?.find(({ name }) => name.startsWith("think_final_answer"));
  const { answer, title } = script;
  const input = title ? { ...(answer as object), title: long(title) } : answer;
  return final && { name: final.name, input };
}

/** How many steps the model has made since the user spoke last. */
function stepsSince(prompt: CallOptions["prompt"]): number {
  const asked = prompt.findLastIndex(({ role }) => role === "user");
  return prompt.slice(asked).filter(({ role }) => role === "tool").length;
}

function lastUserText({ prompt }: CallOptions): string {
  const message = prompt.findLast(({ role }) => role === "user");
  const parts = message && typeof message.content !== "string" ? message.content : [];
  return parts.map((part) => (part.type === "text" ? part.text : "")).join("");
}

function parse(text: string): Script {
  try {
    return JSON.parse(text) as Script;
  } catch {
    return { text: `You said: ${text}` };
  }
}

function delay(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(signal.reason);
    });
  });
}
