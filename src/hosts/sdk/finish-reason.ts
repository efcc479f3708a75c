/** Why the model's last call ended, and whether it was cut off. Pure. */

/** What the AI SDK reports at the end of a step. */
type EndedStep = {
  readonly finishReason: string;
  readonly rawFinishReason?: string | undefined;
};

const CUT_OFF: Readonly<Record<string, string>> = {
  length: "the model reached its limit of output tokens",
  "content-filter": "the provider's content filter stopped it",
  error: "the provider reported an error",
  unknown: "the stream ended without a finish",
};

/** The finish reason of a step. The AI SDK reports a stream without a finish as "other", and providers do the same. */
export function finishReasonOf({ finishReason, rawFinishReason }: EndedStep): string {
  return finishReason === "other" && rawFinishReason === undefined ? "unknown" : finishReason;
}

/** Why a reply with this finish reason is not complete; undefined if it is. */
export function cutOffBy(finishReason: string | undefined): string | undefined {
  const why = finishReason === undefined ? undefined : CUT_OFF[finishReason];
  return why && `The reply was cut off (finish reason "${finishReason}"): ${why}.`;
}
