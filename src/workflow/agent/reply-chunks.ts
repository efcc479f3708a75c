/** The reply of one attempt while it is written, in parts of a tenth of a second. In memory only. */

import type { UIMessageChunk } from "ai";
import { isFinalAnswer } from "../../submissions/host.ts";
import type { ReplyWatcher } from "./watchers.ts";

/** Characters of the chunks of one reply, as JSON. */
export const MOST_REPLY = 1_048_576;
/** How long chunks are gathered for one part, in milliseconds. */
const GATHER_MS = 100;

export class ReplyChunks implements ReplyWatcher {
  /** All chunks of the parts so far. */
  readonly chunks: UIMessageChunk[] = [];
  /** Whether the reply is larger than {@link MOST_REPLY}, and the rest of it left out. */
  isCut = false;
  #unsent: UIMessageChunk[] = [];
  #size = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** Calls of the final answer, whose result is the output. */
  readonly #hidden = new Set<string>();

  /** @param onPart gets the new chunks, and how many came before them */
  constructor(
    private readonly submissionId: string,
    private readonly onPart: (part: readonly UIMessageChunk[], from: number) => void,
  ) {}

  chunk(chunk: UIMessageChunk): void {
    if (this.isCut || this.#isHidden(chunk)) return;
    try {
      this.#size += JSON.stringify(chunk).length;
    } catch {
      // It is not JSON, such as a tool's result that contains itself.
      return;
    }
    if (this.#size > MOST_REPLY) this.isCut = true;
    else this.#gather(chunk);
    this.#timer ??= setTimeout(() => this.end(), GATHER_MS);
  }

  end(): void {
    if (this.#timer === undefined) return;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const from = this.chunks.length;
    const part = this.#unsent;
    this.#unsent = [];
    this.chunks.push(...part);
    try {
      this.onPart(part, from);
    } catch (error) {
      // It must not end the turn.
      console.error(
        `[perdure] clients were not sent the reply of submission ${this.submissionId}:`,
        error,
      );
    }
  }

  #isHidden(chunk: UIMessageChunk): boolean {
    if (!("toolCallId" in chunk)) return false;
    if ("toolName" in chunk && isFinalAnswer(chunk.toolName)) this.#hidden.add(chunk.toolCallId);
    return this.#hidden.has(chunk.toolCallId);
  }

  #gather(chunk: UIMessageChunk): void {
    const last = this.#unsent.at(-1);
    const isMore =
      (chunk.type === "text-delta" || chunk.type === "reasoning-delta") &&
      last?.type === chunk.type &&
      last.id === chunk.id;
    if (isMore)
      this.#unsent[this.#unsent.length - 1] = { ...last, delta: last.delta + chunk.delta };
    else this.#unsent.push(chunk);
  }
}
