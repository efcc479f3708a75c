/** The calls from the endpoint of signed links to an agent, and their answers. */

import type { Json } from "../core/json.ts";
import type { Approval, ApprovalDecisionResult } from "./kinds/approval-types.ts";

/** A request to a URL of a step. */
export type UrlRequest = {
  /** The topic of the wait. */
  readonly topic: string;
  /** SHA-256 of the raw body, in hex. */
  readonly hash: string;
  readonly body: Json;
  /** Epoch milliseconds. */
  readonly receivedAt: number;
};

/** The outcome of a link. */
export type UrlOutcome =
  /** It has ended the wait, now or, for a duplicate, before. */
  | { readonly outcome: "accepted" | "duplicate" }
  /** Another request has ended the wait, or it was closed. */
  | { readonly outcome: "gone" }
  /** The body does not match the JSON Schema of the step. The wait stays open. */
  | { readonly outcome: "refused"; readonly problems: readonly string[] };

export type LinkCall =
  | { readonly do: "inspect"; readonly approvalId: string }
  | {
      readonly do: "grant" | "reject";
      readonly approvalId: string;
      readonly by: string;
      readonly payload?: Json;
    }
  | ({ readonly do: "receive" } & UrlRequest);

export type LinkAnswer =
  /** Null for an unknown approval. */
  | { readonly approval: Approval | null }
  | { readonly decided: ApprovalDecisionResult }
  | { readonly received: UrlOutcome };
