/** `step.approval()`: a person at the agent decides, and the workflow waits. */

import * as z from "zod";
import { failureOf } from "../core/failures.ts";
import { type Json, preview } from "../core/json.ts";
import { duration, optionsOf, text } from "../core/options/option-schemas.ts";
import type { Duration } from "../core/options/options.ts";
import { type AnySchema, type InputOf, type OutputOf, validated } from "../core/schema/schema.ts";
import type { Destination } from "../outbox/destinations/index.ts";
import { ApprovalCancelledError, ApprovalPayloadError, ApprovalTimeoutError } from "./errors.ts";
import {
  jsonFor,
  outputOf,
  type Refuse,
  readStep,
  refusalOf,
  sizedForms,
  TIMEOUT,
  takenBy,
} from "./options.ts";
import { type CallOf, type StepCall, useName } from "./step-call.ts";
import { type PassedWait, takeWait, type WaitAsk } from "./wait.ts";
import type {
  Approval,
  ApprovalLink,
  ApprovalRequest,
  LinkApprovalOptions,
} from "./waits/kinds/approval-types.ts";

export type ApprovalOptions<Schema extends AnySchema | undefined = undefined> = {
  /** The question in one line. */
  title?: string;
  /** Data that the person is shown: JSON up to 1 MB. */
  data?: Json;
  /**
   * What approving takes, as a schema of any library that says its JSON Schema, e.g. Zod.
   * @default none: approving takes nothing but the click
   */
  schema?: Schema;
  /**
   * How long to wait for the decision, e.g. `"3 days"` or milliseconds, at most 365 days.
   * @default "24 hours"
   */
  timeout?: Duration;
  /**
   * What happens when it was not decided in time: `"throw"` an `ApprovalTimeoutError`, `"reject"`, or approve: with the
   * payload of `{ approve }` where there is a schema, by `"approve"` where there is none.
   * @default "throw"
   */
  onTimeout?: ApprovalOnTimeout<Schema>;
  /**
   * Destinations that are notified when the approval is requested, with links that decide it: up to 10, each a delivery of
   * the outbox with an {@link ApprovalRequestEvent}; `email()`, `slack()` and other replies get its text. It is stored with
   * the request, so a crash loses none, and a request that a restarted run takes over is not sent again.
   */
  notify?: Destination | readonly Destination[];
  /**
   * Options of the links in `notify`, which need `signedLinks()`: who decides (`by`), `expiresIn`, and with a `schema` the
   * `payload` of an approval. `false` for none.
   * @default by "link", for as long as `timeout`
   */
  link?: ApprovalLink;
  /** Tells repeated uses of one step name apart, e.g. in a loop. */
  key?: string;
};

export type ApprovalOnTimeout<Schema extends AnySchema | undefined> =
  | "throw"
  | "reject"
  | (Schema extends AnySchema ? { approve: InputOf<Schema> } : "approve");

/** The decision. */
export type ApprovalDecision<Schema extends AnySchema | undefined = undefined> =
  | ({
      readonly approved: true;
      /** As the schema takes it; undefined without a schema. */
      readonly payload: Schema extends AnySchema ? OutputOf<Schema> : undefined;
    } & Decided)
  | ({ readonly approved: false } & Decided);

type Decided = {
  /** Who decided, as the caller of the decision named them. */
  readonly by?: string;
  readonly reason?: string;
  /** Epoch milliseconds. */
  readonly decidedAt: number;
  /** It was not decided in time, and `onTimeout` applied. */
  readonly isTimeout: boolean;
};

/** Bytes of `data`, or of a payload, as JSON: a row takes 2 MB, and there are a title and a schema beside it. */
const MOST_BYTES = 1_000_000;
const MOST_TITLE_BYTES = 200_000;
/** UTF-16 units of why an approval is asked for again. */
const MOST_PROBLEM = 4_000;

export interface ApprovalSteps {
  /**
   * Asks a person at the agent, durably, and waits for the decision: `agent.approvals` has `list()`, `grant()` and
   * `reject()`. Idempotent per workflow, instance, step name and key within a run; a restarted workflow takes
   * over what is still pending where it asks the same, and asks again for what was decided before. Uses of one name in
   * one run need different keys. No event and no click can answer another approval; the payload matches `schema`. A
   * payload that only `schema` itself refuses, e.g. by a refinement, is not the decision: another approval asks again,
   * with the reason as its `refusal`, up to ten times within the same `timeout`.
   *
   * @throws ApprovalTimeoutError when it was not decided within `timeout` and `onTimeout` is `"throw"`
   * @throws ApprovalPayloadError when the payload of the last of these is refused, too
   * @throws ApprovalCancelledError when it was cancelled at the agent
   */
  approval<Schema extends AnySchema | undefined = undefined>(
    name: string,
    options?: ApprovalOptions<Schema>,
  ): Promise<ApprovalDecision<Schema>>;
}

export const STEPS = {
  approval:
    (callOf: CallOf): ApprovalSteps["approval"] =>
    async (name, options = {}) =>
      runApproval(callOf(name), options),
};

/** Asks, and returns what was decided, or throws why nothing was. */
async function runApproval<Schema extends AnySchema | undefined>(
  call: StepCall,
  options: ApprovalOptions<Schema>,
): Promise<ApprovalDecision<Schema>> {
  useName(call, "approval", options.key);
  const ask = await checkedAsk(call.name, options);
  return takeWait(call, ask, {
    take: (passed) => decisionOf(passed, options, ask.timeoutMs),
    requestOf: ({ problem }, approvalId): ApprovalRequest => ({
      ...(ask.request as ApprovalRequest),
      refusal: { approvalId, problem: problem.slice(0, MOST_PROBLEM) },
    }),
  });
}

/** @throws ApprovalTimeoutError, ApprovalCancelledError, ApprovalPayloadError */
async function decisionOf<Schema extends AnySchema | undefined>(
  { waitId, status, settledAt, result }: PassedWait,
  { schema, onTimeout = "throw" }: ApprovalOptions<Schema>,
  timeoutMs: number,
): Promise<ApprovalDecision<Schema>> {
  const isTimeout = status === "expired";
  const { payload, by, reason } = (result ?? {}) as Pick<Approval, "payload" | "by" | "reason">;
  const decided = {
    decidedAt: settledAt,
    isTimeout,
    ...(by !== undefined && { by }),
    ...(reason !== undefined && { reason }),
  };
  if (status === "rejected" || (isTimeout && onTimeout === "reject")) {
    return { approved: false, ...decided };
  }
  if (isTimeout && onTimeout === "throw") throw new ApprovalTimeoutError(waitId, timeoutMs);
  if (status !== "completed" && !isTimeout) throw new ApprovalCancelledError(waitId);
  const given = isTimeout ? approvedBy(onTimeout) : payload;
  // The part that only the schema itself has, e.g. a refinement, is checked here.
  const taken = await takenBy(
    schema,
    schema && given,
    (cause) => new ApprovalPayloadError(waitId, cause),
  );
  return { approved: true, payload: taken, ...decided } as ApprovalDecision<Schema>;
}

function approvedBy(onTimeout: unknown): unknown {
  return (onTimeout as { readonly approve?: unknown } | null)?.approve;
}

const LINK = optionsOf<LinkApprovalOptions>()({
  by: text({ maxLength: 200 }).optional(),
  expiresIn: duration({ max: "365 days" }).optional(),
  payload: z.unknown().optional(),
});

const APPROVAL = optionsOf<ApprovalOptions<AnySchema | undefined>>()({
  title: text({ maxBytes: MOST_TITLE_BYTES, remedy: "Put it into data" })
    .refine((title) => title.trim() !== "", { error: "expected a non-empty string" })
    .optional(),
  data: z.unknown().optional(),
  schema: z.unknown().optional(),
  timeout: TIMEOUT,
  onTimeout: z.unknown().optional(),
  notify: z.unknown().optional(),
  link: z.union([z.literal(false), LINK], { error: "expected false, or an object" }).optional(),
  key: text().optional(),
});

/** @throws NonRetryableError for an invalid option; nothing is stored then */
async function checkedAsk<Schema extends AnySchema | undefined>(
  name: string,
  options: ApprovalOptions<Schema>,
): Promise<WaitAsk> {
  const refuse = refusalOf("approval", name);
  const read = readStep(APPROVAL, options, refuse);
  const { title = null, data, schema, timeout: timeoutMs, key } = read;
  const onTimeout: unknown = read.onTimeout ?? "throw";
  const request: ApprovalRequest = {
    title,
    data: data === undefined ? null : jsonFor("data", data, MOST_BYTES, refuse),
    ...(schema === undefined ? { schema: null } : await formsFor(schema, refuse)),
    ...notified(read, refuse),
  };
  await checkOnTimeout(schema, onTimeout, refuse);
  const closing = { status: "expired", result: timedOut(onTimeout) } as const;
  return { kind: "approval", key, request, timeoutMs, closing };
}

/** What the agent notifies with the request. */
function notified(
  { notify, link, schema, timeout }: z.output<typeof APPROVAL>,
  refuse: Refuse,
): Pick<ApprovalRequest, "notify" | "link"> {
  if (notify === undefined) {
    if (link === undefined) return {};
    throw refuse("Invalid link: there is no notify, to which it is sent.");
  }
  const list = jsonFor("notify", [notify].flat(), MOST_BYTES, refuse) as Json[];
  if (link === false) return { notify: list, link: false };
  const { by, expiresIn = timeout, payload } = (link ?? {}) as z.output<typeof LINK>;
  if (schema !== undefined && payload === undefined) {
    const remedy = "Pass link: { payload }, or link: false and decide by a form of your own";
    throw refuse(`Invalid link: a link that approves needs the payload of the schema. ${remedy}.`);
  }
  const given = { ...(by !== undefined && { by }), ...(payload !== undefined && { payload }) };
  return { notify: list, link: { ...(given as { by?: string; payload?: Json }), expiresIn } };
}

/** The result of an approval that was not decided in time, as people at the agent see it. */
function timedOut(onTimeout: unknown): Json {
  if (onTimeout === "throw") return { reason: "Not decided in time" };
  if (onTimeout === "reject") return { reason: "Not decided in time: rejected by default" };
  const payload = approvedBy(onTimeout) as Json | undefined;
  return {
    reason: "Not decided in time: approved by default",
    // No case for the agent's health report.
    isApproved: true,
    ...(payload !== undefined && { payload }),
  };
}

async function checkOnTimeout(
  schema: AnySchema | undefined,
  onTimeout: unknown,
  refuse: Refuse,
): Promise<void> {
  if (onTimeout === "throw" || onTimeout === "reject") return;
  if (schema === undefined && onTimeout === "approve") return;
  const payload = approvedBy(onTimeout);
  if (schema === undefined || payload === undefined) {
    const third = schema ? "with a schema { approve: payload }" : 'without a schema "approve"';
    const expected = `expected "throw", "reject", or ${third}`;
    throw refuse(`Invalid onTimeout ${preview(onTimeout)}: ${expected}.`);
  }
  await outputOf(schema, payload, (error) =>
    refuse(`Invalid onTimeout.approve: it does not match the schema: ${failureOf(error).message}.`),
  );
  // The agent stores it, for people to see.
  jsonFor("onTimeout.approve", payload, MOST_BYTES, refuse);
}

async function formsFor(
  schema: AnySchema,
  refuse: Refuse,
): Promise<Pick<ApprovalRequest, "schema" | "check" | "isOptional">> {
  const forms = sizedForms(schema, refuse);
  try {
    await validated(schema, undefined);
    return { ...forms, isOptional: true };
  } catch {
    return forms;
  }
}
