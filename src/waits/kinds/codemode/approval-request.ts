/** What a person is asked about an action that the code wants to take, and what was decided. */

import { byteLength, type Json, jsonOf } from "../../../core/json.ts";
import { approvalRequest } from "../approval.ts";
import type { ApprovalRequest } from "../approval-types.ts";
import { refuseBinary } from "./outcome.ts";
import type { CallRecord } from "./types.ts";

/** Bytes of arguments that are shown whole, as JSON: what is pending is listed, and told to the clients that the app chooses. */
const MOST_SHOWN_BYTES = 100_000;
/** UTF-16 units of those that are larger. */
const SHOWN_LENGTH = 30_000;

/** The request of the approval of one action. */
export function actionRequest(
  executionId: string,
  { seq, connector, method, args }: CallRecord,
): ApprovalRequest {
  return approvalRequest({
    title: `${connector}.${method}`,
    data: { executionId, seq, connector, method, args: shownArgs(args) },
  });
}

/** Who decided, and why, of a closed approval. */
export function decisionOf(result: Json | undefined): { by?: Json; reason?: Json } {
  const { by, reason } = (result ?? {}) as { by?: Json; reason?: Json };
  return { ...(by != null && { by }), ...(reason != null && { reason }) };
}

/** The arguments are for a person to read: what JSON cannot hold, or is too much of it, is named, and stops nothing. */
function shownArgs(args: unknown): Json {
  try {
    const plain = jsonOf(args, refuseBinary) ?? null;
    const text = JSON.stringify(plain);
    const bytes = byteLength(text);
    if (bytes <= MOST_SHOWN_BYTES) return plain;
    return `(${bytes} bytes, of which this is the beginning; the execution's record has the rest) ${text.slice(0, SHOWN_LENGTH).toWellFormed()}`;
  } catch (error) {
    return `(not shown: ${error instanceof Error ? error.message : String(error)})`;
  }
}
