/** A turn of the chat that runs an attempt of a submission, and how it ended in terms of the ledger. */

import type { LanguageModel } from "ai";
import { failureOf } from "../../core/failures.ts";
import type { TurnEnd } from "../../kernel/submissions/internal.ts";
import { CHAT } from "../limitations.ts";
import { textOf } from "../sdk/answer-text.ts";
import { type ChatEnd, type OwnedTurn as ChatTurn, factsOf } from "../sdk/recovered-turns.ts";
import { NotSupportedByHostError } from "../support.ts";

export type OwnedTurn = ChatTurn & {
  readonly hasBudget: () => boolean;
  /** Whether the app has called `durable()`. */
  isDurable: boolean;
  note: string | undefined;
  model: LanguageModel | undefined;
  readonly abortSignal: AbortSignal | undefined;
};

/** How a turn ended, with its answer taken from the reply if one was asked for. */
export function endOf(owned: OwnedTurn | undefined, ended: ChatEnd): TurnEnd {
  const { message } = ended;
  if (!owned) return { outcome: "skipped", requestId: ended.requestId };
  const { attempt } = owned;
  const { cause } = attempt.error ?? {};
  // The reply of the AI SDK does not fail with an error of a callback.
  const isFailed = attempt.error !== undefined && ended.status === "completed";
  const status = attempt.isUnanswered ? "completed" : isFailed ? "error" : ended.status;
  const text = cause === undefined ? undefined : failureOf(cause).message;
  const facts = factsOf({ ...ended, status }, cause, text);
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
  if (hasBudget()) return new NotSupportedByHostError(name, "budget without durable()", CHAT);
  if (plan?.model !== undefined)
    return new NotSupportedByHostError(name, "models without durable()", CHAT);
  const isUnanswered = end.outcome === "error" && end.answer !== undefined;
  return isUnanswered && plan?.schema
    ? new NotSupportedByHostError(name, "output without durable()", CHAT)
    : undefined;
}
