/** Why a reply of the model is not the answer. */

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
const ENDS_EARLY = "It is attempted again while attempts are left.";

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
export class MissingToolCallError extends Error {
  override readonly name = "MissingToolCallError";
  constructor(toolName?: string) {
    const tool = toolName === undefined ? "a tool" : `the tool ${JSON.stringify(toolName)}`;
    super(
      `The model ended its step with a call of ${tool} that never arrived. Nothing was called. ` +
        "Submit it again, or use a model with working streaming tool calls.",
    );
  }
}

/** The model's endpoint answered with a page in place of a reply. */
export class InvalidModelResponseError extends Error {
  override readonly name = "InvalidModelResponseError";
  constructor(modelId: string, contentType: string) {
    super(
      `The endpoint of the model ${JSON.stringify(modelId)} answered with ${contentType} in place of a reply. ` +
        "Check the base URL of its provider, and proxies or gateways in between.",
    );
  }
}
