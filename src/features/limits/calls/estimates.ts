/**
 * How many tokens a model call may use, before it is made. The input is estimated by the bytes of the prompt, with a ratio that
 * is learned from the usage that the model reports. The output is the maximum that the call asks for. Pure.
 */

import type { LanguageModelMiddleware } from "ai";
import { byteLength } from "../../../core/json.ts";

export type CallOptions = Parameters<
  NonNullable<LanguageModelMiddleware["wrapStream"]>
>[0]["params"];

/** Of a prompt from which the ratio is learned. */
const LEAST_LEARNED = 200;

export type Tokens = { readonly input: number; readonly output: number };

/** Of a model that has not reported usage: most tokens have three bytes or more, also those of code and JSON. */
const FIRST_RATIO = 1 / 2.5;
const LEAST_RATIO = 1 / 8;
/** No tokenizer makes more than one token of a byte. */
const MOST_RATIO = 1;
/** The learned ratio is the highest of the recent ones and a margin: too much comes back after the call. */
const MARGIN = 1.15;
const FORGET = 0.1;
/** What providers add for the frame of a prompt. */
const FRAME_TOKENS = 50;
/**
 * An image counts by its size in pixels, which is not known here: at most 1,600 tokens for Anthropic, and about the same for
 * others. https://platform.claude.com/docs/en/build-with-claude/vision
 */
const IMAGE_TOKENS = 2_000;
/** A document counts by its text and its pages. The most that is reserved for one. */
const MOST_FILE_TOKENS = 100_000;
/** Models whose ratio is remembered. */
const MAX_MODELS = 100;

/** The bytes of what the model reads, without files, and the tokens of its files. */
export type PromptSize = { readonly bytes: number; readonly fileTokens: number };

export function promptSizeOf({ prompt, tools, responseFormat }: CallOptions): PromptSize {
  let fileTokens = 0;
  const text = JSON.stringify([prompt, tools, responseFormat], (_, value: unknown) => {
    if (!isFile(value)) return value;
    fileTokens += tokensOfFile(value);
    return undefined;
  });
  return { bytes: byteLength(text), fileTokens };
}

export class Estimates {
  readonly #ratios = new Map<string, number>();

  /** @param maxOutputTokens of a call that names none */
  constructor(private readonly maxOutputTokens: number) {}

  input(model: string, { bytes, fileTokens }: PromptSize): number {
    const ratio = (this.#ratios.get(model) ?? FIRST_RATIO) * MARGIN;
    return Math.ceil(Math.min(ratio, MOST_RATIO) * bytes) + FRAME_TOKENS + fileTokens;
  }

  output({ maxOutputTokens = this.maxOutputTokens }: Pick<CallOptions, "maxOutputTokens">): number {
    const isCount = Number.isSafeInteger(maxOutputTokens) && maxOutputTokens > 0;
    return isCount ? maxOutputTokens : this.maxOutputTokens;
  }

  /** @param inputTokens that the model has reported for a prompt of this size */
  learn(model: string, { bytes, fileTokens }: PromptSize, inputTokens: number): void {
    // Files and short prompts would hide the ratio of texts.
    if (fileTokens > 0 || bytes < LEAST_LEARNED) return;
    const seen = Math.min(MOST_RATIO, Math.max(LEAST_RATIO, inputTokens / bytes));
    const before = this.#ratios.get(model) ?? seen;
    this.#ratios.delete(model);
    this.#ratios.set(model, Math.max(seen, before + (seen - before) * FORGET));
    const [oldest] = this.#ratios.keys();
    if (this.#ratios.size > MAX_MODELS && oldest !== undefined) this.#ratios.delete(oldest);
  }
}

type FilePart = { readonly mediaType: string; readonly data: unknown };

function isFile(value: unknown): value is FilePart {
  const { mediaType, data } = (value ?? {}) as Partial<FilePart>;
  return typeof mediaType === "string" && data !== undefined;
}

function tokensOfFile({ mediaType, data }: FilePart): number {
  if (mediaType.startsWith("image")) return IMAGE_TOKENS;
  return Math.min(MOST_FILE_TOKENS, Math.max(IMAGE_TOKENS, sizeOf(data)));
}

/** Bytes or characters of the content; of a reference, none. */
function sizeOf(data: unknown): number {
  if (typeof data === "string") return data.length;
  if (data instanceof Uint8Array) return data.byteLength;
  const { data: inner } = (data ?? {}) as { data?: unknown };
  return inner === undefined ? MOST_FILE_TOKENS : sizeOf(inner);
}
