/** A turn of Think that belongs to a submission: what is known of it while it lives. */

import type { Failure } from "../../core/failures.ts";
import type { AttemptRef } from "../../submissions/index.ts";

export type OwnedTurn = {
  readonly ref: AttemptRef;
  readonly schema: object | undefined;
  toolName: string | undefined;
  maxSteps: number;
  isAnswered: boolean;
  problem: Failure | undefined;
  /** What the model's stream failed with, as it was thrown. */
  cause: unknown;
  /** Whether the ledger has been told of its end. */
  isReported: boolean;
  /** Whether Think's recovery runs it. */
  isRecovered: boolean;
};
