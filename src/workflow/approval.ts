/**
 * `step.approval()`: a person at the agent decides, and the workflow waits. The wait that it waits for is made in
 * `wait.ts`; here is what is asked, and what the decision means to the workflow.
 */

import { byteLength, type Json, malformedKeyIn, preview } from "../core/json.ts";
import {
  type AnySchema,
  type InputOf,
  type JsonForms,
  jsonFormsOf,
  type OutputOf,
  SchemaMismatchError,
  validated,
} from "../core/schema.ts";
import type { ApprovalRequest } from "../waits/kinds/approval-types.ts";
import { ApprovalCancelledError, ApprovalPayloadError, ApprovalTimeoutError } from "./errors.ts";
import {
  checkText,
  invalidStep,
  type StepCall,
  timeoutMsOf,
  type WaitTimeout,
} from "./step-call.ts";
import { namesOf, type PassedWait, passWait, refuseWait, type WaitAsk } from "./wait.ts";

export type ApprovalOptions<Schema extends AnySchema | undefined = undefined> = {
  /** What is asked for, in one line. */
  title?: string;
  /** What the person is shown: anything that JSON can hold, up to 1 MB. */
  data?: Json;
  /**
   * What approving takes, as a schema of any library that says its JSON Schema, e.g. Zod (W4).
   * @default none: approving takes nothing but the click
   */
  schema?: Schema;
  /**
   * How long to wait for the decision, e.g. `"3 days"` or milliseconds, at most 365 days.
   * @default "24 hours"
   */
  timeout?: WaitTimeout;
  /**
   * What it means when nobody has decided in time: `"throw"` an `ApprovalTimeoutError`, `"reject"`, or approve: with the
   * payload of `{ approve }` where there is a schema, by `"approve"` where there is none.
   * @default "throw"
   */
  onTimeout?: ApprovalOnTimeout<Schema>;
  /** Tells repeated uses of one step name apart, e.g. in a loop (W1). */
  key?: string;
};

export type ApprovalOnTimeout<Schema extends AnySchema | undefined> =
  | "throw"
  | "reject"
  | (Schema extends AnySchema ? { approve: InputOf<Schema> } : "approve");

/** What was decided. */
export type ApprovalDecision<Schema extends AnySchema | undefined = undefined> =
  | ({
      readonly approved: true;
      /** As the schema takes it; undefined without a schema. */
      readonly payload: Schema extends AnySchema ? OutputOf<Schema> : undefined;
    } & Decided)
  | ({ readonly approved: false } & Decided);

type Decided = {
  /** Who decided, as the agent was told. */
  readonly by?: string;
  readonly reason?: string;
  /** Epoch milliseconds. */
  readonly decidedAt: number;
  /** Nobody decided, and `onTimeout` did. */
  readonly isTimeout: boolean;
};

/** Bytes of `data`, or of a payload, as JSON: a row takes 2 MB, and there are a title and a schema beside it. */
const MOST_BYTES = 1_000_000;
/** Bytes of a title, and of a schema as JSON. */
const MOST_BYTES_BESIDE = 200_000;
/** How often one approval is asked for again, and UTF-16 units of why. */
const MOST_REFUSALS = 10;
const MOST_PROBLEM = 4_000;

/** Asks, and returns what was decided, or throws why nothing was. */
export async function runApproval<Schema extends AnySchema | undefined>(
  call: StepCall,
  options: ApprovalOptions<Schema>,
): Promise<ApprovalDecision<Schema>> {
  call.used.use("approval", call.name, options.key);
  const ask = await checkedAsk(call.name, options);
  let passed = await passWait(call, ask);
  const { askedAt } = passed;
  for (let round = 1; ; round++) {
    try {
      return await decisionOf(passed, options);
    } catch (error) {
      if (!(error instanceof ApprovalPayloadError)) throw error;
      if (passed.status === "completed" && round <= MOST_REFUSALS) {
        const { waitId } = passed;
        const refusal = { approvalId: waitId, problem: error.problem.slice(0, MOST_PROBLEM) };
        const request = { ...(ask.request as ApprovalRequest), refusal };
        const again = { round, refuses: waitId, startedAt: askedAt };
        passed = await passWait(call, { ...ask, request, again });
        continue;
      }
      await refuseWait(call, namesOf(call, ask)("refuse"), ask.kind, [passed.waitId]);
      throw error;
    }
  }
}

/** @throws ApprovalTimeoutError, ApprovalCancelledError, ApprovalPayloadError */
async function decisionOf<Schema extends AnySchema | undefined>(
  { waitId, status, settledAt, result }: PassedWait,
  { schema, onTimeout = "throw" }: ApprovalOptions<Schema>,
): Promise<ApprovalDecision<Schema>> {
  const isTimeout = status === "expired";
  const { payload, by, reason } = (result ?? {}) as {
    payload?: Json;
    by?: string;
    reason?: string;
  };
  const decided = {
    decidedAt: settledAt,
    isTimeout,
    ...(by !== undefined && { by }),
    ...(reason !== undefined && { reason }),
  };
  if (status === "rejected" || (isTimeout && onTimeout === "reject")) {
    return { approved: false, ...decided };
  }
  if (isTimeout && onTimeout === "throw") throw new ApprovalTimeoutError(waitId);
  if (status !== "completed" && !isTimeout) throw new ApprovalCancelledError(waitId);
  const given = isTimeout ? approvedBy(onTimeout) : payload;
  const taken = await payloadOf(waitId, schema, given);
  return { approved: true, payload: taken, ...decided } as ApprovalDecision<Schema>;
}

/** What `onTimeout` approves with. */
function approvedBy(onTimeout: unknown): unknown {
  return typeof onTimeout === "object" && onTimeout !== null && "approve" in onTimeout
    ? onTimeout.approve
    : undefined;
}

/** What only the schema itself knows, e.g. a refinement, is checked here (W4). */
async function payloadOf(
  approvalId: string,
  schema: AnySchema | undefined,
  payload: unknown,
): Promise<unknown> {
  if (schema === undefined) return undefined;
  try {
    return await validated(schema, payload);
  } catch (error) {
    // A transform of the app may throw what it likes.
    const isTold = error instanceof SchemaMismatchError;
    const cause = isTold ? error : new SchemaMismatchError([{ message: messageOf(error) }], error);
    throw new ApprovalPayloadError(approvalId, cause);
  }
}

/** @throws NonRetryableError for what cannot be meant; nothing was stored then */
async function checkedAsk<Schema extends AnySchema | undefined>(
  name: string,
  { title, data, schema, timeout, onTimeout = "throw", key, ...rest }: ApprovalOptions<Schema>,
): Promise<WaitAsk> {
  const [unknown] = Object.keys(rest);
  if (unknown !== undefined) {
    throw refused(
      name,
      `got an unknown option ${preview(unknown)}; there are "title", "data", "schema", "timeout", "onTimeout" and "key".`,
    );
  }
  for (const [option, value] of Object.entries({ title, key })) {
    checkText("approval", name, option, value);
    if (value === undefined || value.trim() !== "") continue;
    throw refused(name, `got ${preview(value)} as ${option}; expected a non-empty string.`);
  }
  if (title !== undefined) checkBytes(name, "a title", title, MOST_BYTES_BESIDE);
  if (data !== undefined) checkJson(name, "data", data);
  await checkOnTimeout(name, schema, onTimeout);
  const request: ApprovalRequest = {
    title: title ?? null,
    data: data ?? null,
    ...(schema === undefined ? { schema: null } : await formsOf(name, schema)),
  };
  return {
    kind: "approval",
    key,
    request,
    timeoutMs: timeoutMsOf("approval", name, timeout),
    closing: { status: "expired", result: timedOut(onTimeout) },
  };
}

/** What people at the agent see of an approval that nobody has decided in time. */
function timedOut(onTimeout: unknown): Json {
  if (onTimeout === "throw") return { reason: "Nobody decided in time" };
  if (onTimeout === "reject") return { reason: "Nobody decided in time: rejected by default" };
  const payload = approvedBy(onTimeout) as Json | undefined;
  return {
    reason: "Nobody decided in time: approved by default",
    ...(payload !== undefined && { payload }),
  };
}

function checkJson(name: string, what: string, value: unknown): void {
  let text: string | undefined;
  try {
    text = JSON.stringify(value);
  } catch (error) {
    throw refused(name, `got ${what} that JSON cannot hold: ${messageOf(error)}.`);
  }
  if (text === undefined) throw refused(name, `got ${preview(value)} as ${what}; expected JSON.`);
  checkText("approval", name, `a key of ${what}`, malformedKeyIn(value));
  checkBytes(name, what, text, MOST_BYTES);
}

function checkBytes(name: string, what: string, text: string, most: number): void {
  const bytes = byteLength(text);
  if (bytes <= most) return;
  throw refused(
    name,
    `got ${what} of ${bytes} bytes, and at most ${most} are taken. ` +
      "Keep the content elsewhere (R2, the agent's own tables) and show a reference to it.",
  );
}

async function checkOnTimeout(
  name: string,
  schema: AnySchema | undefined,
  onTimeout: unknown,
): Promise<void> {
  if (onTimeout === "throw" || onTimeout === "reject") return;
  if (schema === undefined) {
    if (onTimeout === "approve") return;
    throw refused(
      name,
      `got ${preview(onTimeout)} as onTimeout; expected "throw", "reject", or without a schema "approve".`,
    );
  }
  if (typeof onTimeout !== "object" || onTimeout === null || !("approve" in onTimeout)) {
    throw refused(
      name,
      `got ${preview(onTimeout)} as onTimeout; expected "throw", "reject", or with a schema { approve: payload }.`,
    );
  }
  try {
    await validated(schema, onTimeout.approve);
  } catch (error) {
    throw refused(name, `got a payload in onTimeout that its schema refuses: ${messageOf(error)}.`);
  }
  // The agent keeps it, for people to see.
  checkJson(name, "a payload in onTimeout", onTimeout.approve);
}

async function formsOf(
  name: string,
  schema: AnySchema,
): Promise<Pick<ApprovalRequest, "schema" | "check" | "isOptional">> {
  let forms: JsonForms;
  try {
    forms = jsonFormsOf(schema);
  } catch (error) {
    throw refused(
      name,
      `got a schema that has no JSON Schema form: ${messageOf(error)}. ` +
        "Use a type that JSON has, and convert it in the schema or afterwards, e.g. z.coerce.date().",
    );
  }
  checkBytes(name, "a schema", JSON.stringify(forms), MOST_BYTES_BESIDE);
  const isOptional = await validated(schema, undefined).then(
    () => true,
    () => false,
  );
  return { ...(forms as { schema: Json; check?: Json }), ...(isOptional && { isOptional }) };
}

function refused(name: string, problem: string): Error {
  return invalidStep("approval", name, problem);
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
