/**
 * A language model that follows a script: the last user message, in JSON. It keeps no state, so it continues after any crash.
 * `modelCalls` counts its calls, across restarts of the objects.
 */

import { APICallError, type LanguageModel } from "ai";
import { parsedJson } from "../core/json.ts";
import { isPlainObject } from "../core/options/options.ts";
import { InvalidScriptError } from "./errors.ts";
import { checkScript, longText, type Script, type ToolCall } from "./script.ts";

/** The number of model calls, by the text of the user message: `modelCalls.get(ask(script))`. */
export const modelCalls: Map<string, number> = new Map();
/** The ids of the models that were called, in order, by the text of the user message. */
export const modelsCalled: Map<string, string[]> = new Map();
/** The number of answers, by the text of the user message. */
const answersGiven = new Map<string, number>();

/**
 * Resets all counts, so that scripts with `failTimes` or `hangTimes` start again. Call it before each test that repeats a
 * script, or give each script a unique `id`.
 */
export function resetModelCalls(): void {
  for (const counted of [modelCalls, modelsCalled, answersGiven]) counted.clear();
}

/**
 * Returns the text of a user message that makes the scripted model follow a script.
 *
 * @throws InvalidScriptError for an invalid script
 */
export function ask(script: Script): string {
  return JSON.stringify(checkScript(script));
}

type Model = Extract<LanguageModel, { specificationVersion: "v4" }>;
type CallOptions = Parameters<Model["doStream"]>[0];
type Generated = Awaited<ReturnType<Model["doGenerate"]>>;
type Part =
  Awaited<ReturnType<Model["doStream"]>>["stream"] extends ReadableStream<infer P> ? P : never;

/**
 * A model of the AI SDK that needs no provider. Return it from `getModel()`, or pass it to `generateText()` and
 * `streamText()`. A message that is no script is answered by `You said: ...`. It uses 10 tokens in and 5 out per call.
 */
export class ScriptedModel implements Model {
  readonly specificationVersion = "v4";
  readonly provider = "perdure.testing";
  readonly modelId: string;
  readonly supportedUrls = {};
  readonly #script: string | undefined;

  /**
   * @param script what it does for every message; by default it follows the last user message (see {@link ask})
   * @param modelId its id for `failOn` and {@link modelsCalled}
   * @throws InvalidScriptError for an invalid script
   */
  constructor(script?: Script, modelId = "scripted") {
    this.#script = script && ask(script);
    this.modelId = modelId;
  }

  /** The result of {@link doStream} in one piece. */
  async doGenerate(options: CallOptions): Promise<Generated> {
    const { stream } = await this.doStream(options);
    return collected(stream);
  }

  /** @throws InvalidScriptError when the message is a JSON object that is not a valid script */
  async doStream(options: CallOptions): Promise<{ stream: ReadableStream<Part> }> {
    const text = this.#script ?? lastUserText(options);
    const calls = (modelCalls.get(text) ?? 0) + 1;
    modelCalls.set(text, calls);
    modelsCalled.set(text, [...(modelsCalled.get(text) ?? []), this.modelId]);
    const script = parse(text);
    const { fail, failTimes = calls, hangTimes = 0, status, headers } = script;
    if (calls <= hangTimes) await new Promise<never>(() => {});
    const isListed = script.failOn?.includes(this.modelId) ?? true;
    const fails = fail !== undefined && isListed && calls <= failTimes;
    if (fails && status !== undefined) throw refused(fail, status, headers);
    refuse(script, options);
    return { stream: streamOf(play(script, options, { fails, text, calls })) };
  }
}

/** A scripted model that records its calls. */
export class RecordingModel extends ScriptedModel {
  /** The options of each call, as the AI SDK passes them. */
  readonly calls: CallOptions[] = [];

  override doStream(options: CallOptions) {
    this.calls.push(options);
    return super.doStream(options);
  }

  /** The messages of each call as `role: text`, without the instructions. */
  prompts(): string[][] {
    return this.calls.map(({ prompt }) =>
      prompt.flatMap(({ role, content }) =>
        role === "system" ? [] : [`${role}: ${content.map(textOf).join("")}`],
      ),
    );
  }

  /** The names of the tools that each call offered. */
  offered(): string[][] {
    return this.calls.map(({ tools }) => (tools ?? []).map(({ name }) => name));
  }
}

function textOf(part: { type: string; text?: string }): string {
  return part.type === "text" ? (part.text ?? "") : `[${part.type}]`;
}

/** The parts of a stream as one result. */
async function collected(stream: ReadableStream<Part>): Promise<Generated> {
  const content: Generated["content"] = [];
  let end: Pick<Generated, "finishReason" | "usage"> | undefined;
  for await (const part of stream) {
    if (part.type === "text-delta") content.push({ type: "text", text: part.delta });
    if (part.type === "tool-call") content.push(part);
    if (part.type === "finish") end = part;
  }
  if (!end) throw new Error("The scripted model ended without a finish");
  const { finishReason, usage } = end;
  return { content, finishReason, usage, warnings: [] };
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

function refused(message: string, statusCode: number, headers: Record<string, string> = {}) {
  return new APICallError({
    message,
    url: "http://model.test",
    requestBodyValues: {},
    statusCode,
    responseHeaders: headers,
    // The AI SDK's own retries would hide the failure from the ledger.
    isRetryable: false,
  });
}

function refuse({ refuses }: Script, { tools = [], toolChoice }: CallOptions): void {
  const isForced = toolChoice?.type === "required" || toolChoice?.type === "tool";
  if (refuses === "tool_choice" && isForced) throw refused("Invalid 'tool_choice': required", 400);
  if (refuses === "tools" && tools.length > 0) {
    throw refused("This model does not support function calling", 400);
  }
}

/** The next answer of the script. */
function answerOf(script: Script, text: string): unknown {
  const { answer, answers, long } = script;
  if (!answers) {
    if (!long) return answer;
    const fields = Object.entries(long).map(([name, text]) => [name, longText(text)]);
    return { ...(answer as object | undefined), ...Object.fromEntries(fields) };
  }
  const given = answersGiven.get(text) ?? 0;
  answersGiven.set(text, given + 1);
  return answers[Math.min(given, answers.length - 1)];
}

async function* play(
  script: Script,
  options: CallOptions,
  { fails, text, calls }: { fails: boolean; text: string; calls: number },
): AsyncGenerator<Part> {
  yield { type: "stream-start", warnings: [] };
  const { first, firstTimes = calls } = script;
  if (first !== undefined && calls <= firstTimes) yield* textParts("0", first);
  await delay(script.delayMs ?? 0, options.abortSignal);
  if (fails) throw new Error(script.fail);
  const answer = () => answerOf(script, text);
  const made = callsOf(script, options, answer);
  for (const [index, call] of made.entries()) {
    const id = script.callIds === "numbered" ? `${call.name}:${index}` : crypto.randomUUID();
    const isBroken = isFinal(call.name) && calls <= (script.brokenTimes ?? 0);
    const input = isBroken ? '{"title": "cut o' : JSON.stringify(call.input);
    yield { type: "tool-input-start", id, toolName: call.name };
    yield { type: "tool-input-delta", id, delta: input };
    yield { type: "tool-input-end", id };
    yield { type: "tool-call", toolCallId: id, toolName: call.name, input };
  }
  if (made.length === 0) yield* reply(script, replyOf(script, options, answer), options);
  const { lostCall } = script;
  const isLost = made.length === 0 && lostCall !== undefined;
  if (isLost) {
    yield { type: "tool-input-start", id: "lost", toolName: lostCall };
    yield { type: "tool-input-delta", id: "lost", delta: '{"' };
  }
  const { finish = "stop", finishTimes = calls } = script;
  const isBreak = ["interrupted", "error", "none"].includes(finish);
  const isScripted = calls <= finishTimes && (made.length === 0 || isBreak);
  const isCall = isLost || (made.length > 0 && !isScripted);
  const unified = isCall ? "tool-calls" : isScripted ? finish : "stop";
  if (unified === "none") return;
  yield {
    type: "finish",
    finishReason: { unified, raw: isScripted ? (script.rawFinish ?? unified) : unified },
    usage: {
      inputTokens: { total: 10, noCache: 10, cacheRead: 0, cacheWrite: 0 },
      outputTokens: { total: 5, text: 5, reasoning: 0 },
    },
  };
}

/** The text, whole or word by word. */
async function* reply(
  { wordMs }: Script,
  text: string,
  { abortSignal }: CallOptions,
): AsyncGenerator<Part> {
  if (wordMs === undefined) return yield* textParts("1", text);
  yield { type: "text-start", id: "1" };
  for (const word of text.match(/\S+\s*/g) ?? []) {
    yield { type: "text-delta", id: "1", delta: word };
    await delay(wordMs, abortSignal);
  }
  yield { type: "text-end", id: "1" };
}

function* textParts(id: string, text: string): Generator<Part> {
  yield { type: "text-start", id };
  yield { type: "text-delta", id, delta: text };
  yield { type: "text-end", id };
}

/** The text of the reply: the answer, if it is requested as JSON. */
function replyOf(script: Script, { prompt }: CallOptions, answer: () => unknown): string {
  const isJson = prompt.some(
    ({ role, content }) => role === "system" && content.includes("JSON Schema"),
  );
  const given = isJson ? answer() : undefined;
  if (given === undefined) return script.text ?? "done";
  return typeof given === "string" ? given : JSON.stringify(given);
}

/** The tool calls of this step. */
function callsOf(
  script: Script,
  { tools, prompt, toolChoice }: CallOptions,
  answer: () => unknown,
): ToolCall[] {
  if (script.ignoreTools || toolChoice?.type === "none") return [];
  const hasCalled = prompt.at(-1)?.role === "tool";
  const next = script.tool && !hasCalled ? script.tool : script.tools?.[stepsSince(prompt)];
  const isOffered = (call: ToolCall) => tools?.some(({ name }) => name === call.name);
  const calls = [next ?? []].flat().filter((call) => script.callMissingTools || isOffered(call));
  if (calls.length > 0) return calls;
  const final = tools?.find(({ name }) => isFinal(name));
  return final ? [{ name: final.name, input: answer() ?? noAnswer(final) }] : [];
}

/** @throws InvalidScriptError which says what the step asks for */
function noAnswer(final: NonNullable<CallOptions["tools"]>[number]): never {
  const { required = [] } = "inputSchema" in final ? final.inputSchema : {};
  const fields = required.map((name) => `${name}: ...`).join(", ");
  throw new InvalidScriptError(
    "answer",
    "The script has no answer, and the step has an output. " +
      `Add one: new ScriptedModel({ answer: { ${fields} } }), or ask({ answer: { ${fields} } }) as the message.`,
  );
}

function isFinal(name: string): boolean {
  return name.startsWith("think_final_answer");
}

/** The number of steps since the last user message. Follow-ups of Perdure and Think do not count as user messages. */
function stepsSince(prompt: CallOptions["prompt"]): number {
  const asked = prompt.findLastIndex(
    ({ role, content }) => role === "user" && !isFollowUp(content.map(textOf).join("")),
  );
  return prompt.slice(asked).filter(({ role }) => role === "tool").length;
}

function lastUserText({ prompt }: CallOptions): string {
  const said = prompt.flatMap(({ role, content }) =>
    role === "user" ? content.map((part) => (part.type === "text" ? part.text : "")).join("") : [],
  );
  return said.findLast((text) => !isFollowUp(text)) ?? "";
}

/** Whether a user message is a follow-up that Perdure or Think adds after an interrupted attempt or a refused answer. */
export function isFollowUp(text: string): boolean {
  return /^(Your answer was not accepted|Your work is done|Continue your previous|Your turn was interrupted)/.test(
    text,
  );
}

function parse(text: string): Script {
  const said = parsedJson(text);
  return isPlainObject(said) ? checkScript(said) : { text: `You said: ${text}` };
}

function delay(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    const stop = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    if (signal?.aborted) stop();
    else signal?.addEventListener("abort", stop, { once: true });
  });
}
