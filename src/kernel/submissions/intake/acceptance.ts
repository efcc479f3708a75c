/** Takes what is submitted, one in a span of the platform, or many, and hands it to the engine. */

import type { UIMessage } from "ai";
import { inSpan } from "../../../core/spans.ts";
import { publicThreadOf } from "../host.ts";
import type { IntakeItem, TurnEngine } from "../turns/turn-engine.ts";
import type {
  InternalSubmitOptions,
  SubmitMessagesOptions,
  SubmitMessagesResult,
} from "../types.ts";
import { resultOf, take } from "./intake.ts";
import { internalOptions } from "./output.ts";
import { ofItem } from "./request.ts";

export function acceptOne(
  engine: TurnEngine,
  messages: UIMessage[],
  options: InternalSubmitOptions,
): Promise<SubmitMessagesResult> {
  return inSpan("perdure.submit", {}, async (span) => {
    const taken = take(engine.ledger, messages, options, engine.current);
    const { submissionId, thread } = taken.submission;
    span.set({
      "perdure.submission.id": submissionId,
      "perdure.thread": publicThreadOf(thread),
      "perdure.submission.accepted": taken.accepted,
    });
    await engine.onAccepted([{ taken, options }]);
    return resultOf(taken);
  });
}

/** In their order. An error names the index of the first that is refused. */
export function takeMany(
  engine: TurnEngine,
  submissions: readonly { messages: UIMessage[]; options?: SubmitMessagesOptions }[],
): IntakeItem[] {
  return submissions.map(({ messages, options: given }, index) =>
    ofItem("submitMany()", index, () => {
      const options = internalOptions(given);
      return { taken: take(engine.ledger, messages, options, engine.current), options };
    }),
  );
}
