/** A turn of the chat that runs an attempt of a submission, and how it ended in terms of the ledger. */

import type { LanguageModel, UIMessage } from "ai";
import { failureOf } from "../../core/failures.ts";
import type { TurnEnd } from "../../submissions/index.ts";
import { textOf } from "../sdk/answer-text.ts";
import type { Attempt, EndedTurn } from "../sdk/attempt.ts";
import { isKept } from "../sdk/conversation.ts";
import { isProviderResult } from "../sdk/reply.ts";
import { NotSupportedByHostError } from "../support.ts";

export type OwnedTurn = {
  readonly attempt: Attempt;
  readonly submissionId: string;
  /** The messages of the submission. */
  readonly asked: readonly UIMessage[];
  /** Whether the chat's own recovery runs it. */
  readonly isRecovered: boolean;
  readonly hasBudget: () => boolean;
  /** Whether the app has called `durable()`. */
  isDurable: boolean;
  /** Whether its end is stored in the ledger. */
  isReported: boolean;
  note: string | undefined;
  model: LanguageModel | undefined;
  readonly abortSignal: AbortSignal | undefined;
};

export type ChatEnd = {
  readonly requestId: string;
  readonly status: "completed" | "error" | "aborted" | "skipped";
  readonly error?: string | undefined;
  readonly message: UIMessage | undefined;
};

/** How a turn ended, with its answer taken from the reply if one was asked for. */
export function endOf(owned: OwnedTurn, ended: ChatEnd): TurnEnd {
  const { attempt } = owned;
  const { message } = ended;
  const { cause } = attempt.error ?? {};
  // The reply of the AI SDK does not fail with an error of a callback.
  const isFailed = attempt.error !== undefined && ended.status === "completed";
  const status = attempt.isUnanswered ? "completed" : isFailed ? "error" : ended.status;
  const facts = factsOf({ ...ended, status }, cause);
  const end = attempt.end(facts, textOf(message));
  const missing = owned.isDurable ? undefined : neededDurable(owned, end);
  if (!missing || end.outcome === "recovering" || end.outcome === "reported") return end;
  const { requestId, messageId } = end;
  const failure = failureOf(missing);
  return { outcome: "error", failure, cause: missing, hasEffects: true, requestId, messageId };
}

/** Why a turn without `durable()` did not do what was asked for. */
function neededDurable(
  { attempt: { plan }, hasBudget }: OwnedTurn,
  end: TurnEnd,
): NotSupportedByHostError<"perdure/chat"> | undefined {
  const name = "perdure/chat";
  if (end.outcome !== "completed" && end.outcome !== "error") return undefined;
  if (hasBudget()) return new NotSupportedByHostError(name, "budget without durable()");
  if (plan?.model !== undefined)
    return new NotSupportedByHostError(name, "models without durable()");
  const isUnanswered = end.outcome === "error" && end.answer !== undefined;
  return isUnanswered && plan?.schema
    ? new NotSupportedByHostError(name, "output without durable()")
    : undefined;
}

function factsOf({ requestId, status, error, message }: ChatEnd, cause: unknown): EndedTurn {
  const messageId = message && isKept(message) ? message.id : undefined;
  const facts = { requestId, messageId };
  if (status === "completed") return { outcome: status, ...facts, text: textOf(message) };
  if (status !== "error") return { outcome: status, ...facts };
  const failure = {
    name: cause === undefined ? "TurnError" : failureOf(cause).name,
    message: cause === undefined ? (error ?? "The turn has failed.") : failureOf(cause).message,
  };
  const hasEffects = message?.parts.some(isProviderResult) ?? false;
  return { outcome: status, failure, cause, hasEffects, ...facts };
}
