/**
 * Wraps the model of an attempt. A stream that ends before its reply is complete fails, so that the ledger retries the
 * turn or ends it with an error. Every tool call gets an id that no other call of the turn has. The ledger is notified of
 * a call's usage before tools run, which may crash the object.
 */

import { type LanguageModel, type LanguageModelMiddleware, wrapLanguageModel } from "ai";
import { responseOf } from "../../core/failures.ts";
import { byteLength, parsedJson } from "../../core/json.ts";
import { resolveModel } from "../../core/models.ts";
import { isFinalAnswer } from "../../submissions/host.ts";
import type { TokenUsage } from "../../submissions/types.ts";

type WrapStream = NonNullable<LanguageModelMiddleware["wrapStream"]>;
type Part = Awaited<ReturnType<WrapStream>>["stream"] extends ReadableStream<infer P> ? P : never;
type Finish = Extract<Part, { type: "finish" }>;
type Params = Parameters<WrapStream>[0]["params"];

type CallEnd = {
  /** Undefined for a stream that ended without a finish. */
  readonly finishReason?: string;
  readonly usage?: TokenUsage;
  /** Whether tools run now. The final answer ends the turn. */
  readonly runsTools: boolean;
  /** Set if the stream fails, so that the AI SDK reports no end of the step. */
  readonly problem?: unknown;
  /** The arguments of the calls of the final answer, which run after this. */
  readonly answers: readonly unknown[];
};

export type AttemptCalls = {
  /** Ids of tool calls that earlier runs of the turn have recorded. */
  recordedIds(): Promise<ReadonlySet<string>>;
  /** Ids of tool calls of this attempt. */
  readonly ids: Set<string>;
  /** A call of the model begins, or was refused. `worst` computes about how many tokens it uses. */
  starting(worst: () => number): void;
  ended(end: CallEnd): void;
  /** Replies that do not fail: complete ones, those that no retry would complete, or any. */
  readonly accepts: "complete" | "partial" | "any";
};

/** The model of a turn that is no submission's. */
export function turnModel(model: LanguageModel, accepts: AttemptCalls["accepts"]): LanguageModel {
  return attemptModel(model, {
    recordedIds: async () => new Set(),
    ids: new Set(),
    starting: () => {},
    ended: () => {},
    accepts,
  });
}

export function attemptModel(model: LanguageModel, calls: AttemptCalls): LanguageModel {
  return wrapLanguageModel({
    model: resolveModel(model),
    middleware: {
      specificationVersion: "v4",
      wrapStream: async ({ doStream, params, model: { modelId } }) => {
        const recorded = await calls.recordedIds();
        calls.starting(() => estimateTokens(params));
        const { stream, ...result } = await Promise.resolve(doStream()).catch((error) => {
          calls.starting(() => 0);
          return rethrow(error);
        });
        const type = result.response?.headers?.["content-type"] ?? "";
        if (type.startsWith("text/html")) {
          await stream.cancel();
          throw new InvalidModelResponseError(modelId, type);
        }
        const used = new Set([...recorded, ...calls.ids, ...idsIn(params)]);
        const ids = new CallIds(used, calls.ids);
        const notAStream = type.startsWith("application/json")
          ? new InvalidModelResponseError(modelId, type)
          : undefined;
        return { ...result, stream: stream.pipeThrough(checked(ids, calls, notAStream)) };
      },
    },
  });
}

function idsIn({ prompt }: Params): string[] {
  return prompt.flatMap(({ role, content }) =>
    role === "system" || role === "user"
      ? []
      : content.flatMap((part) => ("toolCallId" in part ? [part.toolCallId] : [])),
  );
}

/** The AI SDK would ask again at once, which an account without credit only refuses again. */
function rethrow(error: unknown): never {
  if (error instanceof Error && responseOf(error).isQuotaUsedUp)
    Reflect.defineProperty(error, "isRetryable", { value: false });
  throw error;
}

const BYTES_PER_TOKEN = 4;

function estimateTokens({ prompt, tools, maxOutputTokens = 0 }: Params): number {
  const text = JSON.stringify([prompt, tools], (_, value: unknown) =>
    ArrayBuffer.isView(value) ? undefined : value,
  );
  return Math.ceil(byteLength(text) / BYTES_PER_TOKEN) + maxOutputTokens;
}

/** Parts of a stream without any reply. */
const EMPTY: ReadonlySet<Part["type"]> = new Set([
  ...(["stream-start", "response-metadata", "raw", "finish"] as const),
]);

/**
 * Fails the stream where its end shows that the reply is incomplete.
 * @param notAStream the error of one without any part of a reply
 */
function checked(
  ids: CallIds,
  { ended, accepts }: AttemptCalls,
  notAStream: InvalidModelResponseError | undefined,
): TransformStream<Part, Part> {
  const announced = new Map<string, string>();
  // A model may give several answers in a step: none is taken before all of them have come.
  const held: Extract<Part, { type: "tool-call" }>[] = [];
  let empty = notAStream;
  let toolCalls = 0;
  let runsTools = false;
  let isAnswered = false;
  let isOver = false;
  const end = (how: Omit<CallEnd, "runsTools" | "answers">) => {
    isOver = true;
    const answers = held.map(({ input }) => parsedJson(input));
    ended({ ...how, runsTools, answers: answers.filter((one) => one !== undefined) });
  };
  return new TransformStream<Part, Part>({
    transform(given, controller) {
      let part = ids.unique(given);
      if (!EMPTY.has(part.type)) empty = undefined;
      if (part.type === "tool-input-start") announced.set(part.id, part.toolName);
      else if (part.type === "tool-call") {
        announced.delete(part.toolCallId);
        toolCalls++;
        runsTools ||= !isFinalAnswer(part.toolName);
        // A connection that closes within a call leaves the first part of its input.
        isAnswered ||= isFinalAnswer(part.toolName) && parsedJson(part.input) !== undefined;
        if (isFinalAnswer(part.toolName) && !isOver) {
          held.push(part);
          return;
        }
      } else if (part.type === "error") {
        end({ problem: part.error });
      } else if (part.type === "finish" && !isOver) {
        const isAccepted = isAnswered || accepts === "any";
        const { usage, finishReason } = part;
        const cut =
          isAccepted && !empty
            ? undefined
            : incompleteness(finishReason, accepts, announced, toolCalls);
        const problem = cut && (empty ?? cut);
        end({ usage: readUsage(usage), problem, finishReason: finishReason.unified });
        if (problem) part = { type: "error", error: problem };
      }
      if (isOver) for (const call of held.splice(0)) controller.enqueue(call);
      controller.enqueue(part);
    },
    flush(controller) {
      if (isOver) return;
      const isAccepted = isAnswered || accepts === "any";
      const problem = empty ?? (isAccepted ? undefined : new IncompleteReplyError("none"));
      end({ problem });
      for (const call of held) controller.enqueue(call);
      if (problem) controller.enqueue({ type: "error", error: problem });
    },
  });
}

/** Providers may report anything. */
function readUsage(usage: Partial<Finish["usage"]> | undefined): TokenUsage {
  return {
    inputTokens: usage?.inputTokens?.total ?? undefined,
    outputTokens: usage?.outputTokens?.total ?? undefined,
  };
}

/** Why the end of a stream is not the end of a reply. */
export function incompleteness(
  { unified, raw }: { readonly unified: string; readonly raw: string | undefined },
  accepts: AttemptCalls["accepts"],
  announced: ReadonlyMap<string, string>,
  toolCalls: number,
): Error | undefined {
  if (unified === "interrupted" || unified === "error")
    return new IncompleteReplyError(unified, raw);
  // Providers that have received no reason give this one, as the AI SDK does for them.
  if (unified === "other" && raw === undefined) return new IncompleteReplyError("none");
  const [missing] = announced.values();
  if (isCutOff(unified))
    return accepts === "complete" ? new IncompleteReplyError(unified) : undefined;
  if (missing !== undefined) return new MissingToolCallError(missing);
  if (unified === "tool-calls" && toolCalls === 0) return new MissingToolCallError();
  return undefined;
}

/**
 * Some providers number the tool calls of each step from 0. The thread, the records and the results of tools are found by
 * the id of a call, so a call with a used id gets another one. Other ids stay: providers refer to them.
 */
class CallIds {
  /** By the provider's id: the call of this stream that its parts belong to, and whether it has arrived. */
  readonly #calls = new Map<string, { readonly id: string; hasArrived: boolean }>();

  /**
   * @param used ids that no new call may have
   * @param own receives those of new calls
   */
  constructor(
    private readonly used: Set<string>,
    private readonly own: Set<string>,
  ) {}

  unique(part: Part): Part {
    switch (part.type) {
      case "tool-input-start":
        return { ...part, id: this.#begin(part.id) };
      case "tool-input-delta":
      case "tool-input-end":
        return { ...part, id: this.#current(part.id) };
      case "tool-call": {
        const begun = this.#calls.get(part.toolCallId);
        const toolCallId = begun && !begun.hasArrived ? begun.id : this.#begin(part.toolCallId);
        this.#calls.set(part.toolCallId, { id: toolCallId, hasArrived: true });
        return { ...part, toolCallId };
      }
      case "tool-result":
      case "tool-approval-request":
        return { ...part, toolCallId: this.#current(part.toolCallId) };
      default:
        return part;
    }
  }

  #begin(given: string): string {
    const id = this.used.has(given) ? crypto.randomUUID() : given;
    this.used.add(id);
    this.own.add(id);
    this.#calls.set(given, { id, hasArrived: false });
    return id;
  }

  /** A result can belong to a call of an earlier step. */
  #current(given: string): string {
    return this.#calls.get(given)?.id ?? given;
  }
}

/* Why a reply of the model is not the answer. */

const REASONS: Readonly<Record<string, string>> = {
  length: "the model reached its limit of output tokens",
  "content-filter": "the provider's content filter stopped it",
  other: "the provider stopped it for another reason",
  error: "the provider reported an error",
  interrupted: "the connection closed before the reply was complete",
  none: "the stream ended without a finish reason",
};
const SHORTER =
  "Ask for a shorter answer, raise maxOutputTokens, or set repair or models on the prompt.";
const REMEDIES: Readonly<Record<string, string>> = {
  length: SHORTER,
  "content-filter": "Change the prompt, or set repair or models on it.",
  other: "Set repair or models on the prompt.",
  error: "Look up the reason at the provider, or set models on the prompt.",
};
const ENDS_EARLY = "Submit it again, or raise retry.maxAttempts.";

/** Whether the model's last call ended before its reply was complete. */
export function isCutOff(finishReason: string | undefined): finishReason is string {
  return finishReason !== undefined && finishReason in REASONS;
}

/**
 * The reply of the model was cut off: by a connection that closed, by a limit of tokens, or by the provider.
 * `isRetryable` where the same call may succeed.
 */
export class IncompleteReplyError extends Error {
  override readonly name = "IncompleteReplyError";
  readonly isRetryable: boolean;

  /** @param finishReason of the AI SDK, or `none` for a stream without one. @param raw the provider's own reason */
  constructor(finishReason: string, raw?: string) {
    const shown = raw === undefined || raw === finishReason ? "" : `, "${raw}"`;
    const why = REASONS[finishReason] ?? "the reason is unknown";
    super(
      `The reply was cut off (finish reason "${finishReason}"${shown}): ${why}. ${REMEDIES[finishReason] ?? ENDS_EARLY}`,
    );
    const isTruncated = finishReason === "error" && /truncat|interrupt/i.test(raw ?? "");
    this.isRetryable = isTruncated || finishReason === "interrupted" || finishReason === "none";
  }
}

/** The model finished for a call of a tool, and the call is not in its stream. */
class MissingToolCallError extends Error {
  override readonly name = "MissingToolCallError";
  constructor(toolName?: string) {
    const tool = toolName === undefined ? "a tool" : `the tool ${JSON.stringify(toolName)}`;
    super(
      `The model ended its step with a call of ${tool} that never arrived. Nothing was called. ` +
        "Submit it again, or use a model with working streaming tool calls.",
    );
  }
}

/** The model's endpoint answered with a page, or with JSON, in place of a reply. JSON may be the error of a provider that is busy. */
class InvalidModelResponseError extends Error {
  override readonly name = "InvalidModelResponseError";
  readonly isRetryable: boolean;
  constructor(modelId: string, contentType: string) {
    super(
      `The endpoint of the model ${JSON.stringify(modelId)} answered with ${contentType} in place of a reply. ` +
        "Check the base URL of its provider, and proxies or gateways in between. " +
        "JSON may be an error of the provider, whose log shows it.",
    );
    this.isRetryable = contentType.startsWith("application/json");
  }
}
