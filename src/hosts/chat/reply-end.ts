/** How a reply ends whose model is not wrapped by `durable()`, as far as its UI message stream shows it. */

import { IncompleteReplyError, incompleteness } from "../sdk/attempt-model.ts";

/** A chunk of a UI message stream. */
export type Chunk = {
  readonly type?: string;
  readonly id?: string;
  readonly toolName?: string;
  readonly toolCallId?: string;
  readonly finishReason?: string;
  readonly reason?: string;
};

export class ReplyEnd {
  finishReason: string | undefined;
  /** Why the reply is incomplete. */
  problem: Error | undefined;
  /** Whether a tool was called. Nothing has recorded the call. */
  hasCalls = false;
  #isInStep = false;
  #isFinished = false;
  /** Texts that have begun and not ended. */
  readonly #texts = new Set<string>();
  /** Calls of the step whose input has not arrived: names of tools, by id. */
  readonly #announced = new Map<string, string>();
  #callsOfStep = 0;

  read(chunk: Chunk): void {
    const { type, id = "", toolCallId = "", toolName = "" } = chunk;
    if (type === "start-step") this.#startStep();
    else if (type === "finish-step") this.#isInStep = false;
    else if (type === "text-start" || type === "reasoning-start") this.#texts.add(id);
    else if (type === "text-end" || type === "reasoning-end") this.#texts.delete(id);
    else if (type === "tool-input-start") this.#announced.set(toolCallId, toolName);
    else if (type === "tool-input-available" || type === "tool-input-error") {
      this.#announced.delete(toolCallId);
      this.#callsOfStep++;
      this.hasCalls = true;
    } else if (type === "abort")
      this.problem ??= new TurnError(`The reply was aborted. ${chunk.reason ?? ""}`.trim());
    else if (type === "finish") this.#finish(chunk.finishReason);
  }

  /** The stream has ended. A response of the app may have no `finish`, but not the first half of a step or of a text. */
  close(): void {
    const isCut = !this.#isFinished && (this.#isInStep || this.#texts.size > 0);
    if (isCut) this.problem ??= new IncompleteReplyError("none");
  }

  #startStep(): void {
    this.#isInStep = true;
    this.#announced.clear();
    this.#callsOfStep = 0;
  }

  #finish(reason: string | undefined): void {
    this.#isFinished = true;
    this.finishReason = reason;
    if (reason === undefined) return;
    // A provider that gave no reason is "other" here as well. One that stopped within a text gave none.
    const isOpen = reason === "other" && this.#texts.size > 0;
    this.problem ??= isOpen
      ? new IncompleteReplyError("none")
      : incompleteness(
          { unified: reason, raw: reason },
          "partial",
          this.#announced,
          this.#callsOfStep,
        );
  }
}

/** What the AI SDK writes into a stream in place of an error, by default. */
const HIDDEN = "An error occurred.";
const REMEDY =
  "The reply hides the reason. Call streamText(this.durable({ model, messages, tools })) in onChatMessage(), " +
  "or pass onError to toUIMessageStreamResponse() and return the error's message.";
/** The AI SDK's error for a stream of a model without any content. */
const EMPTY = "No output generated.";

/** A turn of the chat ended with an error of which only the text is known. */
export class TurnError extends Error {
  override readonly name = "TurnError";
  readonly isRetryable: boolean;
  constructor(text: string) {
    super(text === HIDDEN ? `${HIDDEN} ${REMEDY}` : text);
    this.isRetryable = text.startsWith(EMPTY);
  }
}
