/** The kind `approval`, for `step.approval()`: a person decides. The request, the list, and the first decision, which counts. */

import { byteLength, HALF_CHARACTER, type Json, malformedKeyIn, preview } from "../../core/json.ts";
import { problemOfNames } from "../../core/options.ts";
import { mismatchesOf } from "../../core/schema/json-schema.ts";
import { isWellFormedText } from "../../core/text.ts";
import { InvalidApprovalError } from "../errors.ts";
import type { Closing, StoredKind, Wait } from "../protocol.ts";
import { GRACE_MS, type Waits } from "../waits.ts";
import type {
  Approval,
  ApprovalDecisionResult,
  ApprovalRequest,
  ApprovalStatus,
  GrantApprovalOptions,
  ListApprovalsOptions,
  RejectApprovalOptions,
} from "./approval-types.ts";

/** Approvals on one page. */
const MOST_LISTED = 100;
const DEFAULT_LISTED = 50;
/** Bytes of a decision, as JSON. */
const MOST_DECISION_BYTES = 1_000_000;

/** The statuses of a wait, in the words of an approval. */
const STATUS_OF = {
  open: "pending",
  completed: "approved",
  rejected: "rejected",
  expired: "expired",
  cancelled: "cancelled",
  failed: "refused",
} as const satisfies Record<Wait["status"], ApprovalStatus>;

const STATUSES = [...new Set<ApprovalStatus>(Object.values(STATUS_OF))];

/** The result of a decided wait. */
type Decided = Pick<Approval, "by" | "reason" | "payload">;

/** The request of a wait of kind `approval`, for a step or for a kind of wait that has to ask a person. */
export function approvalRequest(ask: {
  title?: string | undefined;
  data?: Json | undefined;
  /** JSON Schema of what approving takes. */
  schema?: Json | undefined;
}): ApprovalRequest {
  const { title = null, data = null, schema = null } = ask;
  return { title, data, schema };
}

/** Approvals as a kind of wait. A later run asks the person again. */
export function approvalKind(tell: (approval: Approval) => void | Promise<void>): StoredKind {
  return {
    answersLaterRuns: () => false,
    // A person who was shown one request has not agreed to another.
    asksAnew: true,
    announce: (wait) => tell(approvalOf(wait)),
  };
}

/** A wait of kind `approval`, as people see it. */
function approvalOf(wait: Wait): Approval {
  const { waitId, workflow, createdAt, expiresAt, settledAt, status } = wait;
  const asked = wait.request as ApprovalRequest;
  const { by, reason, payload } = decidedOf(wait);
  return {
    approvalId: waitId,
    status: STATUS_OF[status],
    title: asked.title,
    data: asked.data,
    schema: asked.schema,
    ...(asked.refusal && { refusal: asked.refusal }),
    workflow,
    createdAt,
    expiresAt: expiresAt - GRACE_MS,
    ...(settledAt !== undefined && { decidedAt: settledAt }),
    ...(by !== undefined && { by }),
    ...(reason !== undefined && { reason }),
    ...(payload !== undefined && { payload }),
  };
}

/** Where it was closed by no decision, its result says why as an `error`. */
function decidedOf({ result }: Wait): Decided {
  const { error, ...decided } = (result ?? {}) as Decided & { readonly error?: string };
  return error === undefined ? decided : { reason: error };
}

export class Approvals {
  constructor(private readonly waits: Waits) {}

  /**
   * Newest first.
   *
   * @throws InvalidApprovalError for what cannot be asked by
   */
  async list(options: ListApprovalsOptions = {}): Promise<Approval[]> {
    const problem = problemOfNames("listApprovals()", options, LIST_NAMES);
    if (problem) throw new InvalidApprovalError(problem.name, problem.message);
    const { status = "pending", workflowId, limit = DEFAULT_LISTED, before } = options;
    checkText("workflowId", workflowId);
    checkText("before", before);
    if (!Number.isInteger(limit) || limit < 1 || limit > MOST_LISTED) {
      throw new InvalidApprovalError(
        "limit",
        `limit is ${preview(limit)}; expected a whole number from 1 to ${MOST_LISTED}.`,
      );
    }
    const statuses = waitStatusesOf([status].flat());
    if (before !== undefined && !(await this.#find(before))) {
      throw new InvalidApprovalError(
        "before",
        `There is no approval ${preview(before)}: it was forgotten. Begin again with the first page.`,
      );
    }
    const isPending = statuses.every((one) => one === "open");
    const found = await this.waits.list({
      kind: "approval",
      ...(isPending ? { isOpen: true } : { statuses }),
      instance: workflowId,
      before,
      limit,
    });
    return found.map(approvalOf);
  }

  async inspect(approvalId: string): Promise<Approval | null> {
    const wait = await this.#find(approvalId);
    return wait ? approvalOf(wait) : null;
  }

  /** @throws InvalidApprovalError for what the approval does not take; it stays pending then, and nothing is stored */
  async grant(
    approvalId: string,
    options: GrantApprovalOptions = {},
  ): Promise<ApprovalDecisionResult> {
    const decided = decisionOf("grantApproval()", options, ["payload", "by", "reason"]);
    return this.#decide(approvalId, (wait) => {
      checkPayload(options.payload, wait);
      const { payload } = options;
      return {
        status: "completed",
        result: { ...decided, ...(payload !== undefined && { payload }) },
      };
    });
  }

  /** @throws InvalidApprovalError for a `by` or a `reason` that is no text; nothing is stored then */
  async reject(
    approvalId: string,
    options: RejectApprovalOptions = {},
  ): Promise<ApprovalDecisionResult> {
    const result = decisionOf("rejectApproval()", options, ["by", "reason"]);
    return this.#decide(approvalId, () => ({ status: "rejected", result }));
  }

  /** The first decision closes the wait; any other finds it closed. */
  async #decide(
    approvalId: string,
    closingOf: (wait: Wait) => Closing,
  ): Promise<ApprovalDecisionResult> {
    const wait = await this.#find(approvalId);
    if (!wait) return { outcome: "not_found", approvalId };
    if (wait.status !== "open") return { outcome: "already_decided", approval: approvalOf(wait) };
    const closing = closingOf(wait);
    checkDecision(closing.result);
    await this.waits.cancelIfGone(wait);
    const closed = await this.waits.settle(approvalId, closing);
    if (closed) return { outcome: "decided", approval: approvalOf(closed) };
    const now = (await this.#find(approvalId)) ?? wait;
    return { outcome: "already_decided", approval: approvalOf(now) };
  }

  async #find(approvalId: string): Promise<Wait | undefined> {
    checkText("approvalId", approvalId);
    const wait = await this.waits.find(approvalId);
    return wait?.kind === "approval" ? wait : undefined;
  }
}

const LIST_NAMES = [
  "status",
  "workflowId",
  "limit",
  "before",
] as const satisfies readonly (keyof ListApprovalsOptions)[];

function waitStatusesOf(statuses: readonly ApprovalStatus[]): Wait["status"][] {
  const unknown = statuses.find((status) => !STATUSES.includes(status));
  if (unknown !== undefined) {
    throw new InvalidApprovalError(
      "status",
      `${preview(unknown)} is no status of an approval; one of ${STATUSES.join(", ")}.`,
    );
  }
  const all = Object.keys(STATUS_OF) as Wait["status"][];
  return all.filter((status) => statuses.includes(STATUS_OF[status]));
}

/** Who decides and why, checked. */
function decisionOf(
  verb: string,
  options: GrantApprovalOptions,
  names: readonly (keyof GrantApprovalOptions)[],
): { by?: string; reason?: string } {
  const problem = problemOfNames(verb, options, names);
  if (problem) throw new InvalidApprovalError(problem.name, problem.message);
  const { by, reason } = options;
  checkText("by", by);
  checkText("reason", reason);
  return { ...(by !== undefined && { by }), ...(reason !== undefined && { reason }) };
}

function checkText(field: string, value: unknown): void {
  if (value === undefined) return;
  if (typeof value !== "string" || value === "") {
    throw new InvalidApprovalError(
      field,
      `${field} is ${preview(value)}; expected a non-empty string, or leave it out.`,
    );
  }
  if (isWellFormedText(value)) return;
  throw new InvalidApprovalError(field, `${field} is ${preview(value)}, ${HALF_CHARACTER}`);
}

/** The workflow has the schema itself, and checks again: what only it can know is found there. */
function checkPayload(payload: Json | undefined, wait: Wait): void {
  const { schema, check = schema, isOptional } = wait.request as ApprovalRequest;
  if (schema === null) {
    if (payload === undefined) return;
    throw new InvalidApprovalError(
      "payload",
      `payload is ${preview(payload)}, and the approval ${wait.waitId} takes none: its step has no schema. ` +
        "Leave it out, and say why in reason.",
    );
  }
  const isMissing = payload === undefined && !isOptional;
  const problems = isMissing
    ? ["payload: is missing"]
    : mismatchesOf("payload", payload, check as object);
  if (problems.length === 0) return;
  throw new InvalidApprovalError(
    "payload",
    `payload is ${preview(payload)}, and does not match the schema of the approval ${wait.waitId}: ${problems.join("; ")}. ` +
      "The approval is still pending: correct the payload and decide again.",
  );
}

function checkDecision(result: Json): void {
  let bytes: number;
  let malformed: string | undefined;
  try {
    bytes = byteLength(JSON.stringify(result));
    malformed = malformedKeyIn(result);
  } catch (error) {
    throw new InvalidApprovalError(
      "payload",
      `payload cannot be stored as JSON: ${error instanceof Error ? error.message : String(error)}.`,
    );
  }
  if (malformed !== undefined) {
    throw new InvalidApprovalError(
      "payload",
      `payload has the key ${preview(malformed)}, ${HALF_CHARACTER}`,
    );
  }
  if (bytes <= MOST_DECISION_BYTES) return;
  throw new InvalidApprovalError(
    "payload",
    `The decision is ${bytes} bytes, and at most ${MOST_DECISION_BYTES} are taken. ` +
      "Keep the content elsewhere (R2, the agent's own tables) and pass a reference to it.",
  );
}
