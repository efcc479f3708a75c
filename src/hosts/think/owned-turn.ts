/** A turn of Think that belongs to a submission: what is known of it while it lives. */

import type { StepContext } from "@cloudflare/think";
import type { Failure } from "../../core/failures.ts";
import type { AttemptRef, TokenUsage } from "../../submissions/index.ts";

export type OwnedTurn = {
  readonly ref: AttemptRef;
  readonly schema: object | undefined;
  toolName: string | undefined;
  maxSteps: number;
  isAnswered: boolean;
  problem: Failure | undefined;
  usage: TokenUsage | undefined;
  /** What the model's stream failed with, as it was thrown. */
  cause: unknown;
  /** Whether the ledger has been told of its end. */
  isReported: boolean;
};

/** Tokens so far, with those of one more step. */
export function addUsage(
  sum: TokenUsage | undefined,
  { inputTokens, outputTokens, totalTokens }: StepContext["usage"],
): TokenUsage {
  return {
    inputTokens: (sum?.inputTokens ?? 0) + (inputTokens ?? 0),
    outputTokens: (sum?.outputTokens ?? 0) + (outputTokens ?? 0),
    totalTokens: (sum?.totalTokens ?? 0) + (totalTokens ?? 0),
  };
}
