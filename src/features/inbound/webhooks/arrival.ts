/** The argument of a handler. */

import type { Json } from "../../../core/json.ts";
import type { Destination } from "../../../outbox/destinations/index.ts";

/** An arrival: verified, and not yet accepted. */
export type Arrival<Body = Json> = {
  /** The name of its source, e.g. `github`. */
  readonly source: string;
  /** The sender's id of it, fit to be the id of a workflow: 1 to 100 characters of `[A-Za-z0-9_-]`. */
  readonly id: string;
  /** What happened, e.g. `issues` or `payment_intent.succeeded`; "" where the sender has no types. */
  readonly type: string;
  /** The body, or what the schema has made of it. */
  readonly body: Body;
  /** When it was received, epoch milliseconds. */
  readonly receivedAt: number;
  /** Where an answer goes, for `notify` of `submitMessages()` and for `outbox.put()`. Undefined if the sender has no way to answer. */
  readonly reply: Destination | undefined;
  /** The click on an approval's button, if the option `approvals` of `slack()` or `discord()` is set. */
  readonly click?: ApprovalClick;
};

/** A click on an approval's button. */
export type ApprovalClick = {
  readonly approvalId: string;
  readonly decision: "grant" | "reject";
  /** The name of the agent that has the approval, as the button has it. */
  readonly agent: string | undefined;
  /** Who clicked, e.g. `slack:U123 (ann)`. */
  readonly by: string;
};

/** An agent of which any method can be called. */
export type AgentCalls = Readonly<Record<string, (...args: unknown[]) => Promise<unknown>>>;
